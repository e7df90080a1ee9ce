"""Fault plans for the simulation: which faults occur, and when, drawn from a seed."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from tidemill.faults import POINTS

#: The fault points in workers; all others are in the driver.
WORKER_POINTS: Final = frozenset(
    {
        "state.loaded",
        "task.batch",
        "sink.precommit.before",
        "sink.precommit.after",
        "delta.before",
        "delta.after",
        "ack.before",
    }
)
#: The places of faults before a task, and before an epoch.
TASK: Final = "task"
EPOCH: Final = "epoch"

_POINTS: Final = tuple(POINTS)
_CALLS: Final = (
    "storage.create",
    "storage.write state",
    "storage.write snapshots",
    "storage.read",
    "storage.list",
    "storage.exists",
    "storage.delete",
)
#: All places at which a fault can occur.
PLACES: Final = (*_POINTS, *_CALLS, TASK, EPOCH)

_OF_CALLS: Final = ("kill before", "kill after", "error before", "error after", "pause before", "pause after")
_OF_TASKS: Final = ("twin loses", "twin wins", "output lost", "executor lost")
_OF_EPOCHS: Final = ("worker lost", "restart")
#: For programs with the same output at any parallelism.
_RESCALES: Final = ("rescale", "live rescale")
#: The minimum assumed number of times that a place is passed.
_FEW: Final = 3


@dataclass(frozen=True)
class PlannedFault:
    """One fault: ``what`` happens when ``at`` is passed for the ``skip + 1``-th time.

    ``at`` is a point in :data:`tidemill.faults.POINTS`, a call of the storage (``storage.create``; writes with the kind
    of file), ``task`` or ``epoch``. In a pause, a driver stops while another one takes over, and then resumes.
    ``choice`` defines the duration, the worker, the number, or whether the driver or the worker is affected.
    """

    at: str
    skip: int
    what: str
    choice: int = 0

    def __str__(self) -> str:
        return f"{self.what} at {self.at}, pass {self.skip + 1}, choice {self.choice}"


@dataclass
class Troubles:
    """The faults that have not occurred yet, and how often each place was passed."""

    pending: list[PlannedFault] = field(default_factory=list)
    passed: dict[str, int] = field(default_factory=dict)
    fired: list[PlannedFault] = field(default_factory=list)

    def meet(self, at: str) -> PlannedFault | None:
        """Pass ``at``, and return the fault that is due there, if any. Each fault is returned once."""
        count = self.passed.get(at, 0)
        self.passed[at] = count + 1
        for trouble in self.pending:
            if trouble.at == at and trouble.skip <= count:
                self.pending.remove(trouble)
                self.fired.append(trouble)
                return trouble
        return None


def draw_troubles(
    seed: int, dice: random.Random, passed: Mapping[str, int], *, rescale: bool
) -> tuple[PlannedFault, ...]:
    """Draw up to four faults; ``passed`` contains how often a run without faults passes each place.

    The first fault iterates over all kinds of faults at all places with increasing seeds, so that a few seeds cover
    all.
    """
    kinds = [(at, what) for at in PLACES for what in _kinds(at, rescale=rescale)]
    drawn = []
    for number in range(dice.choice((1, 1, 2, 2, 3, 4))):
        if number == 0:
            at, what = kinds[seed % len(kinds)]
        else:
            at = dice.choice(dice.choice((_POINTS, _POINTS, _CALLS, _CALLS, (TASK,), (TASK,), (EPOCH,))))
            what = dice.choice(_kinds(at, rescale=rescale))
        # At least a few, because a run with faults cleans up, merges and stores more. And slightly beyond the end.
        times = max(passed.get(at, 0), _FEW)
        skip = dice.randrange(times + times // 4)
        if number == 0 and seed // len(kinds) % 2:
            skip = 0  # every second time, a kind occurs as early as possible, because some places are rarely passed
        drawn.append(PlannedFault(at, skip, what, dice.randrange(120)))
    return tuple(drawn)


def _kinds(at: str, *, rescale: bool) -> tuple[str, ...]:
    if at == TASK:
        return _OF_TASKS
    if at == EPOCH:
        return (*_OF_EPOCHS, *_RESCALES) if rescale else _OF_EPOCHS
    if at in POINTS:
        return ("kill", "pause", "error") if at in WORKER_POINTS else ("kill", "pause")
    if at == "storage.list":
        return (*_OF_CALLS, "leave out")
    return (*_OF_CALLS, "kill in the middle", "error in the middle") if at == "storage.delete" else _OF_CALLS
