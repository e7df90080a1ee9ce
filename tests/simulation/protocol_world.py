"""One schedule of the protocol: processes that take turns at every step, and faults between any two steps.

From a seed come how often the turn changes, how many faults there are and where they strike. Everything runs in one
thread: a process is a greenlet (or two, with its background work) that gives way inside any call of the storage, at any
named point of the protocol, and wherever the outside world is touched.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from greenlet import GreenletExit, getcurrent, greenlet

from tests.simulation.protocol_truth import Disk
from tidemill.errors import CheckpointError
from tidemill.faults import ProcessDeath
from tidemill.testing.simulation.output import OutputSystem

#: What can go wrong at a call that changes something. *late*: the caller gives up, and the change happens later;
#: *twice*: it happens now, and its duplicate later.
_CHANGES: Final = ("error before", "error after", "kill before", "kill after", "pause", "late", "late kill", "twice")
_READS: Final = ("error before", "kill before", "pause")
_POINTS: Final = ("kill before", "pause", "another")
KINDS: Final[dict[str, tuple[str, ...]]] = {
    "create": _CHANGES,
    "write": _CHANGES,
    "delete": (*_CHANGES, "middle"),
    "read": _READS,
    "exists": _READS,
    "list": (*_READS, "stale", "gaps", "gaps"),
    "commit": _CHANGES,
    "discard": ("error before", "kill before", "kill after", "pause"),
    "point": _POINTS,
    "task": _POINTS,
    "wait": _POINTS,
}
#: How much a step counts: what a schedule passes all the time for less than what it passes rarely.
_WEIGHTS: Final = {"exists": 1, "list": 6, "read": 4, "wait": 2, "delete": 60}
_RARE: Final = {"snapshot.published": 60, "retention.delete": 60, "write snapshots": 60, "manifest.after": 30}
_WEIGHT: Final = 12
#: How many processes a schedule starts at most while there are faults.
_MOST_STARTS: Final = 4


class KilledError(ProcessDeath):
    """The process is gone."""


class Process:
    """One driver: alive, standing still until some turn, or dead."""

    def __init__(self, number: int, wake: int) -> None:
        self.number = number
        self.wake = wake
        self.dead = False


@dataclass
class _Actor:
    """A thread of a process."""

    process: Process
    name: str
    thread: greenlet
    quantum: int = 0


@dataclass(frozen=True)
class Habits:
    """What kind of schedule it is."""

    batches: int
    quantum: float
    faults: int
    gap: float
    trouble: float
    files: float
    fan_in: int
    rescales: float
    checkpoints: float

    @classmethod
    def draw(cls, dice: random.Random) -> Habits:
        if dice.random() < 0.06:  # long enough for a slot to be deleted while someone is about to claim it
            return cls(9, 60.0, 4, 300.0, 0.0, 0.5, 2, 0.0, 0.0)
        return cls(
            batches=dice.choice((1, 2, 2, 3, 4)),
            quantum=dice.choice((15.0, 60.0, 250.0, 1000.0)),
            faults=dice.choice((1, 1, 2, 2, 3)),
            gap=dice.choice((80.0, 200.0, 400.0)),
            trouble=dice.choice((0.0, 0.0, 0.04, 0.1)),
            files=dice.choice((0.0, 0.5, 1.0)),
            fan_in=dice.choice((2, 2, 3)),
            rescales=dice.choice((0.0, 0.0, 0.3)),
            checkpoints=dice.choice((0.0, 0.4)),
        )


@dataclass
class Coverage:
    """How often what was passed, and what was done there: over one schedule, or over many."""

    passed: Counter[str] = field(default_factory=Counter)
    turns: Counter[str] = field(default_factory=Counter)
    faults: Counter[tuple[str, str]] = field(default_factory=Counter)
    happened: Counter[str] = field(default_factory=Counter)

    def add(self, other: Coverage) -> None:
        self.passed.update(other.passed)
        self.turns.update(other.turns)
        self.faults.update(other.faults)
        self.happened.update(other.happened)


class World:
    """What outlives the processes, whose turn it is, and the faults to come."""

    def __init__(self, seed: int, disk: Disk) -> None:
        # configuration
        self.seed = seed
        self.dice = random.Random(seed)
        self.habits = Habits.draw(self.dice)
        # transient
        self.disk = disk
        self.output = OutputSystem("protocol", self._published)
        self.coverage = Coverage()
        self.story: list[tuple[object, ...]] = []
        self.start: Callable[[Process], None] = lambda process: None
        self._hub = getcurrent()
        #: Who gave way where: two schedules with the same path are the same.
        self.path: list[tuple[int, str]] = []
        self._actors: list[_Actor] = []
        self._current: _Actor | None = None
        self._turn = 0
        self._starts = 0
        self._tokens = 0
        self._in_flight: list[tuple[int, str, Callable[[], None]]] = []
        #: What was being made and not named by a manifest yet when the last driver had swept.
        self.in_progress: frozenset[str] = frozenset()
        self.calm = False
        self._faults_left = self.habits.faults
        self._until_fault = self._gap()

    # -- for the processes -----------------------------------------------------------------------------------------

    def step(self, place: str, detail: str = "") -> str | None:
        """Pass a place where the turn may change and a fault may strike.

        Returns a fault that the caller has to act out (see :meth:`after`), and None if nothing else happens here.
        """
        actor = self._current
        if actor is None:
            return None
        if actor.process.dead:
            raise KilledError
        weight = _RARE.get(detail) or _WEIGHTS.get(place, _WEIGHT)
        actor.quantum -= weight
        if actor.quantum <= 0:
            self.coverage.turns[detail or place] += 1
            self.path.append((actor.process.number, detail or place))
            self._give_way(actor)
        self.coverage.passed[detail or place] += 1
        self._until_fault -= weight
        if self._until_fault > 0 or self._faults_left <= 0:
            return None
        return self._strike(actor, place, detail)

    def after(self, fault: str) -> None:
        """Act out the end of a fault whose call has taken effect."""
        if fault == "error after":
            raise CheckpointError("injected: the answer was lost")
        if fault == "kill after":
            self._kill()

    def late(self, what: str, effect: Callable[[], None], fault: str) -> None:
        """The call times out, or its caller dies; its effect comes later. Of a duplicate the caller knows nothing."""
        self.send(what, effect)
        if fault == "late kill":
            self._kill()
        if fault == "late":
            raise CheckpointError("injected: timeout")

    def send(self, what: str, effect: Callable[[], None]) -> None:
        """Let something happen some turns later."""
        self._in_flight.append((self._turn + self.dice.choice((1, 3, 8, 30)), what, effect))

    def wait(self) -> None:
        """Give way until it is this one's turn again."""
        if self._current is not None:
            self._current.quantum = 0
        self.step("wait")

    def spawn(self, process: Process, name: str, work: Callable[[], None]) -> None:
        """Another thread of a process."""

        def main() -> None:
            try:
                work()
            except KilledError:
                self.tell("killed", process.number, name)
            except GreenletExit:
                return
            except BaseException as error:
                self.disk.violations.append(f"{name} of driver {process.number} ended with {error!r}")

        self._actors.append(_Actor(process, name, greenlet(main, self._hub)))

    def tell(self, *words: object) -> None:
        """Add to the story."""
        self.story.append(words)

    def token(self, count: int = 16) -> str:
        """A name that nobody else has."""
        self._tokens += 1
        return f"{self._tokens:0{2 * count}x}"

    @property
    def alive(self) -> Process | None:
        """The process whose turn it is."""
        return self._current.process if self._current is not None else None

    # -- the schedule ----------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Run drivers until none is left: one that dies is replaced, as long as there are faults."""
        self._begin(0)
        self._run_all()

    def run_calmly(self, work: Callable[[Process], None]) -> None:
        """With no more faults, and everything in flight arrived: run one driver alone."""
        self.calm = True
        self._faults_left = 0
        for _, what, effect in self._in_flight:
            self._arrive(what, effect)
        self._in_flight = []
        process = Process(self._starts, 0)
        self._starts += 1
        self.spawn(process, "main", lambda: work(process))
        self._run_all()

    def another(self, delay: int) -> None:
        """Start another driver, which knows nothing of those that live."""
        if self._starts < _MOST_STARTS:
            self._begin(delay)

    def _begin(self, delay: int) -> None:
        process = Process(self._starts, self._turn + delay)
        self._starts += 1
        self.spawn(process, "main", lambda: self.start(process))

    def _run_all(self) -> None:
        dice, quantum = self.dice, self.habits.quantum
        while self._actors:
            ready = [actor for actor in self._actors if actor.process.wake <= self._turn]
            if not ready:
                self._turn = min(actor.process.wake for actor in self._actors)
                continue
            actor = ready[0] if len(ready) == 1 else ready[int(dice.random() * len(ready))]
            actor.quantum = 1 + int(dice.expovariate(1) * quantum)
            self._current = actor
            actor.thread.switch()
            self._current = None
            if actor.thread.dead:
                self._actors.remove(actor)
            self._turn += 1
            if self._in_flight:
                self._deliver()

    def _deliver(self) -> None:
        due = [entry for entry in self._in_flight if entry[0] <= self._turn]
        if due:
            self._in_flight = [entry for entry in self._in_flight if entry[0] > self._turn]
            for _, what, effect in due:
                self._arrive(what, effect)

    def _arrive(self, what: str, effect: Callable[[], None]) -> None:
        self.tell("late", what)
        try:
            effect()
        except CheckpointError:
            return  # the name is taken by now; nobody waits for the answer
        self.coverage.happened["a late change took effect"] += 1

    def _give_way(self, actor: _Actor) -> None:
        self._hub.switch()
        if actor.process.dead:
            raise KilledError

    def _strike(self, actor: _Actor, place: str, detail: str) -> str | None:
        kind = self.dice.choice(KINDS[place])
        self._faults_left -= 1
        self._until_fault = self._gap()
        self.coverage.faults[detail or place, kind] += 1
        self.tell("fault", actor.process.number, actor.name, kind, detail or place)
        if kind == "kill before":
            self._kill()
        if kind == "error before":
            raise CheckpointError("injected: no effect")
        if kind == "another":
            self.another(0)
            return None
        if kind == "pause":
            actor.process.wake = self._turn + self.dice.choice((3, 10, 40, 100))
            self.another(0)
            self._give_way(actor)
            return None
        return kind

    def _kill(self) -> None:
        actor = self._current
        if actor is None:
            return
        actor.process.dead = True
        self.another(self.dice.choice((0, 0, 2, 8)))
        raise KilledError

    def _gap(self) -> float:
        return self.dice.expovariate(1) * self.habits.gap

    def _published(self, epoch: int, sink: str, subtask: int) -> tuple[bytes, ...] | None:
        for manifest in reversed(self.disk.history):
            if manifest.epoch == epoch and manifest.kind == "epoch":
                return manifest.committables.get(sink, {}).get(subtask)
        return None

    def told(self) -> Iterator[str]:
        """The story, as lines."""
        yield f"seed {self.seed}, {self.habits}"
        for words in self.story:
            yield " ".join(map(str, words))
