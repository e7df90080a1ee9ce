"""Random sequences of what happens to a job, against the same job to which nothing happens.

From a seed come some programs, their input by epochs, and steps between the epochs: workers are killed, the job is
rescaled while it runs, started again with another parallelism, backend or merges, started from a savepoint of itself,
or crashes at a named point. Output and state must be those of a run with none of these.
"""

from __future__ import annotations

import contextlib
import dataclasses
import random
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final
from unittest import mock

from rocksdict import WriteBatch

from tests.simulation.sequence_programs import BEHIND, LATE_FROM, PROBE, PROGRAMS, TICK, job_of
from tidemill.faults import POINTS, Fault, InjectedFaultError, injected
from tidemill.state.keyed.backend import StateVersion
from tidemill.state.keyed.timers import TimerQueue
from tidemill.state.rocksdb.store import Store
from tidemill.testing import JobHarness
from tidemill.testing.simulation.disks import fast_directory

KEYS: Final = ("a", "b", "c", "d", "e", "f", "g")
WORKERS: Final = 2
#: What happens to one driver: only its workers find what others left on a disk.
_LIVE: Final = ("kill", "kill", "kill unflushed", "rescale", "rescale", "rescale")
_ALL: Final = (*_LIVE, "restart", "crash", "crash", "backend", "savepoint")

Record = tuple[str, int, int]


@dataclass(frozen=True)
class Step:
    """What happens after an epoch, or to it."""

    after: int
    what: str
    number: int = 0
    word: str = ""

    def __str__(self) -> str:
        return f"epoch {self.after}: {self.what} {self.word or self.number}"


@dataclass(frozen=True)
class Sequence:
    """A run: everything that is drawn from a seed."""

    seed: int
    programs: tuple[str, ...]
    epochs: tuple[tuple[tuple[Record, ...], tuple[Record, ...]], ...]
    parallelism: int
    backend: str
    options: tuple[tuple[str, str], ...]
    merge_after: int
    #: How often RocksDB writes to disk what it has in memory: after how many of a hundred batches.
    flushes: int
    steps: tuple[Step, ...]

    def __str__(self) -> str:
        steps = "".join(f"\n  {step}" for step in self.steps)
        return (
            f"seed {self.seed}: {', '.join(self.programs)}; {len(self.epochs)} epochs on {self.backend} "
            f"{dict(self.options)}, parallelism {self.parallelism}, merged after {self.merge_after}, "
            f"{self.flushes} % of batches flushed{steps}"
        )


@dataclass(frozen=True)
class Outcome:
    """What a run has to show."""

    output: dict[str, list[Any]]
    state: dict[str, Any]


def draw(seed: int) -> Sequence:
    """The sequence of a seed."""
    dice = random.Random(seed)
    programs = tuple(sorted(dice.sample(sorted(PROGRAMS), dice.choice((1, 2, 3)))))
    count, clock, number = dice.randint(8, 22), 0, 0
    keys = KEYS[: dice.choice((1, 3, 7))]
    epochs = []
    for _ in range(count):
        clock += dice.choice((0, 5, 15, 25, 60))
        sides: list[tuple[Record, ...]] = []
        for _ in range(2):
            records = []
            for _ in range(dice.choice((0, 1, 2, 5))):
                number += 1
                # Some are late, some so much that their windows are gone.
                behind = dice.choice((0, 0, 3, 10, BEHIND, BEHIND + 15, BEHIND + 50))
                late = LATE_FROM if behind > BEHIND else 0
                records.append((dice.choice(keys), clock - behind, late + number))
            sides.append(tuple(records))
        epochs.append((sides[0], sides[1]))
    options = {
        "state.backend.rocksdb.cached-values": dice.choice(("0", "3", "1000")),
        "state.backend.rocksdb.timer-service.cache-size": dice.choice(("1", "128")),
        "state.backend.rocksdb.timer-service.factory": dice.choice(("ROCKSDB", "ROCKSDB", "ROCKSDB", "HEAP")),
    }
    kinds, widths = dice.choice((_LIVE, _ALL)), dice.sample((1, 2, 3, 5, 7), dice.choice((2, 2, 3)))
    steps = tuple(
        step for after in range(1, count) if dice.random() < 0.6 for step in _steps(dice, after, kinds, widths)
    )
    return Sequence(
        seed,
        programs,
        tuple(epochs),
        dice.choice((1, 2, *widths)),
        dice.choice(("rocksdb", "rocksdb", "rocksdb", "hashmap")),
        tuple(options.items()),
        dice.choice((2, 2, 3, 5, 1000)),
        dice.choice((0, 10, 50, 100)),
        steps,
    )


def _steps(dice: random.Random, after: int, kinds: tuple[str, ...], widths: list[int]) -> Iterator[Step]:
    what = dice.choice(kinds)
    if what.startswith("kill"):
        yield Step(after, what, dice.randrange(WORKERS))
    elif what in ("rescale", "restart"):
        yield Step(after, what, dice.choice(widths))
    elif what == "backend":
        yield Step(after, what, word=dice.choice(("hashmap", "rocksdb")))
    elif what == "savepoint":
        yield Step(after, what, dice.choice(widths))
    else:
        yield Step(after, what, dice.randrange(8), dice.choice(sorted(POINTS)))
    if kinds is _ALL and dice.random() < 0.2:
        yield Step(after, "merge after", dice.choice((2, 3, 5, 1000)))
    if dice.random() < 0.3:
        yield Step(after, "kill", dice.randrange(WORKERS))


def reference(sequence: Sequence) -> Outcome:
    """What comes of the job if nothing happens to it."""
    return run(dataclasses.replace(sequence, parallelism=1, backend="hashmap", merge_after=1000, steps=()))


def run(sequence: Sequence) -> Outcome:
    """What comes of the job."""
    with tempfile.TemporaryDirectory(prefix="sequence-", dir=fast_directory()) as folder, _flushing(sequence):
        return _Run(sequence, folder).outcome()


class _Run:
    """The job, and what is left of those that it was started from."""

    def __init__(self, sequence: Sequence, folder: str) -> None:
        self._sequence = sequence
        self._folder = folder
        self._merge_after = sequence.merge_after
        self._configuration = {
            **dict(sequence.options),
            "state.backend.type": sequence.backend,
            "state.backend.rocksdb.localdir": f"{folder}/local",
            # Nothing is written in the background: what a killed worker leaves can be copied.
            "state.backend.rocksdb.compaction.style": "NONE",
        }
        self._earlier: list[dict[str, list[Any]]] = []
        self._savepoints = 0
        self._job = JobHarness(
            job_of(sequence.programs),
            inputs=["a", "b"],
            parallelism=sequence.parallelism,
            workers=WORKERS,
            configuration=self._configuration,
            merge_after=sequence.merge_after,
        )

    def outcome(self) -> Outcome:
        steps = self._sequence.steps
        for number, (a, b) in enumerate(self._sequence.epochs, start=1):
            crashes = [step for step in steps if step.after == number and step.what == "crash"]
            self._epoch(number, a, b, crashes[0] if crashes else None)
            for step in steps:
                if step.after == number:
                    self._happen(step)
        last = max(record[1] for sides in self._sequence.epochs for side in sides for record in [("", 0, 0), *side])
        self._epoch(len(self._sequence.epochs) + 1, tuple((key, last, PROBE) for key in KEYS), (), None)
        state = self._state()
        self._job.end()
        output = self._output()
        for earlier in self._earlier:
            output = {name: earlier[name] + values for name, values in output.items()}
        self._job.close()
        return Outcome(output, state)

    def _epoch(self, number: int, a: tuple[Record, ...], b: tuple[Record, ...], crash: Step | None) -> None:
        self._job.set_processing_time(number * TICK)
        before = self._job.head.epoch
        if crash is None:
            self._job.epoch(a=a, b=b)
            return
        try:
            with injected(Fault(crash.word, skip=crash.number)):
                self._job.epoch(a=a, b=b)
        except InjectedFaultError:
            self._job.restart(crashed=True)
        if self._job.head.epoch == before:
            self._job.epoch()

    def _happen(self, step: Step) -> None:
        job = self._job
        if step.what.startswith("kill"):
            job.kill_worker(step.number, flushed=step.what == "kill")
        elif step.what == "rescale":
            job.rescale(step.number)
        elif step.what == "restart":
            job.restart(parallelism=step.number)
        elif step.what == "merge after":
            self._merge_after = step.number
            job.restart(merge_after=step.number)
        elif step.what == "backend":
            self._configuration["state.backend.type"] = step.word
            job.restart(configuration=self._configuration)
        elif step.what == "savepoint":
            self._start_from_savepoint(step.number)

    def _start_from_savepoint(self, parallelism: int) -> None:
        old = self._job
        self._savepoints += 1
        path = old.savepoint(f"{self._folder}/savepoint-{self._savepoints}")
        self._earlier.insert(0, self._output())
        clock = old._processing_time
        old.close()
        self._job = JobHarness(
            job_of(self._sequence.programs),
            inputs=old.inputs,
            parallelism=parallelism,
            workers=WORKERS,
            configuration={**self._configuration, "execution.state-recovery.path": path},
            merge_after=self._merge_after,
            processing_time=clock,
        )

    def _output(self) -> dict[str, list[Any]]:
        return {name: recording.values() for name, recording in self._job._recordings.items()}

    def _state(self) -> dict[str, Any]:
        """The state of the operators that are compared, with all namespaces, and their timers."""
        tables = self._job._committed()._tables
        programs = [PROGRAMS[name] for name in self._sequence.programs]
        wanted = {uid: program.ordered for program in programs for uid in program.compared}
        found: dict[str, Any] = {}
        for (operator, state), table in tables.items():
            if operator not in wanted:
                continue
            if isinstance(table, TimerQueue):
                entries: Any = sorted(map(repr, table.pending()))
            else:
                entries = {
                    (repr(namespace), key): _plain(value, ordered=wanted[operator])
                    for namespace, layer in table._layers.items()
                    for key, value in layer.base.items()
                }
            if entries:
                found[f"{operator}/{state}"] = entries
        return found


def _plain(value: Any, *, ordered: bool) -> Any:
    """A value as it is compared: the entries of a map have no order that counts."""
    if isinstance(value, dict):
        return {name: _plain(entry, ordered=ordered) for name, entry in value.items()}
    return sorted(map(repr, value)) if isinstance(value, list) and not ordered else repr(value)


def differences(sequence: Sequence) -> list[str]:
    """How what comes of a sequence differs from what comes of it if nothing happens."""
    expected = reference(sequence)
    try:
        found = run(sequence)
    except Exception as error:
        return [f"the run ended with {type(error).__name__}: {str(error)[-1500:]}"]
    ordered = all(PROGRAMS[name].ordered for name in sequence.programs)
    reported = []
    for name, wanted in expected.output.items():
        missing, extra = Counter(map(repr, wanted)), Counter(map(repr, found.output[name]))
        if missing != extra:
            reported.append(f"output {name!r}: lost {_some(missing - extra)}; too many {_some(extra - missing)}")
        elif ordered and _by_key(wanted) != _by_key(found.output[name]):
            reported.append(f"output {name!r}: the records of a key are in another order")
    for name in sorted({*expected.state, *found.state}):
        mine, theirs = found.state.get(name), expected.state.get(name)
        if mine != theirs:
            reported.append(f"state {name}: {mine}, but {theirs} if nothing happens")
    return reported


def shrink(sequence: Sequence) -> Sequence:
    """A sequence with as few steps as it takes to differ."""
    for number in range(len(sequence.steps)):
        less = dataclasses.replace(sequence, steps=sequence.steps[:number] + sequence.steps[number + 1 :])
        if differences(less):
            return shrink(less)
    for name in sequence.programs if len(sequence.programs) > 1 else ():
        less = dataclasses.replace(sequence, programs=tuple(other for other in sequence.programs if other != name))
        if differences(less):
            return shrink(less)
    return sequence


def check(seed: int) -> None:
    """Run a seed; raises :class:`AssertionError` with the smallest sequence that still differs."""
    sequence = draw(seed)
    if differences(sequence):
        smallest = shrink(sequence)
        reported = "\n".join(differences(smallest)) or "(the smallest sequence does not differ every time)"
        raise AssertionError(f"{smallest}\n{reported}")


@contextmanager
def _flushing(sequence: Sequence) -> Iterator[None]:
    """RocksDB writes what it has to disk now and then, between any two batches."""
    dice = random.Random(f"flushes {sequence.seed}")
    writing = Store.writing

    @contextlib.contextmanager
    def and_flushing(store: Store, version: StateVersion | None) -> Iterator[WriteBatch]:
        with writing(store, version) as batch:
            yield batch
        if dice.randrange(100) < sequence.flushes:
            store._open_db().flush()

    with mock.patch.object(Store, "writing", and_flushing):
        yield


def _by_key(records: list[Any]) -> dict[Any, list[Any]]:
    found: dict[Any, list[Any]] = {}
    for record in records:
        found.setdefault(record[0], []).append(record)
    return found


def _some(records: Counter[str]) -> str:
    return ", ".join(f"{count} x {record}" for record, count in list(records.items())[:3]) or "nothing"


__all__ = ["Sequence", "Step", "check", "differences", "draw", "run", "shrink"]
