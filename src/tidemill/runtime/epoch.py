"""What changes from epoch to epoch, as one small value: the only thing a task needs beside the constant job plan."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any

from tidemill.graph.plan import JobPlan
from tidemill.runtime.batch.records import MIN_TIME
from tidemill.state.keys.key_groups import Subtask, subtasks_of


@dataclass(frozen=True)
class EpochContext:
    """Everything a subtask must know about its epoch.

    ``head`` is the slot of the manifest the epoch builds on. ``attempts`` names, per chain, the attempts that manifest
    was made of. ``clocks`` gives, per chain, the committed watermarks of its subtasks, by the uid of the operator whose
    clock it is: the head, and operators behind it that make watermarks; ``times`` has, in the same way, what some of
    them keep beside it. ``clock`` is the processing time, fixed by the driver for the whole epoch. ``last`` marks the
    final epoch of a bounded job: time goes to its end. In the chains of ``ended`` sources it does so before, and they
    hold nobody back. ``checkpoint`` tells that the epoch before is a checkpoint, of which listeners hear. ``history``
    is the same for all lineages that go on from one another: see ``tidemill.checkpoint.model.Manifest``. ``unsteady``
    are the uids of operators whose records must be looked at one by one (:mod:`tidemill.runtime.batch.emitted`).
    """

    job_id: str
    lineage: str
    epoch: int
    run: int
    head: int | None
    clock: int
    parallelism: tuple[int, ...]
    attempts: dict[int, tuple[str, ...]] = field(default_factory=dict)
    clocks: dict[int, dict[str, tuple[int, ...]]] = field(default_factory=dict)
    times: dict[int, dict[str, tuple[Any, ...]]] = field(default_factory=dict)
    watermark_base: int = MIN_TIME
    last: bool = False
    ended: tuple[int, ...] = ()
    checkpoint: bool = False
    history: str = ""
    unsteady: tuple[str, ...] = ()

    def to_json(self) -> str:
        return json.dumps(asdict(self), separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> EpochContext:
        fields = json.loads(text)
        fields["parallelism"] = tuple(fields["parallelism"])
        fields["ended"] = tuple(fields["ended"])
        fields["unsteady"] = tuple(fields["unsteady"])
        fields["attempts"] = {int(chain): tuple(attempts) for chain, attempts in fields["attempts"].items()}
        for name in ("clocks", "times"):
            fields[name] = {
                int(chain): {uid: tuple(by_subtask) for uid, by_subtask in by_uid.items()}
                for chain, by_uid in fields[name].items()
            }
        return cls(**fields)


class Layout:
    """Where each subtask of each chain stands: its partition on its level, for one epoch."""

    def __init__(self, plan: JobPlan, parallelism: tuple[int, ...]) -> None:
        self._first: dict[int, int] = {}
        self._partitions: list[list[tuple[int, Subtask]]] = []
        for chains in plan.levels:
            partitions: list[tuple[int, Subtask]] = []
            for chain in chains:
                self._first[chain] = len(partitions)
                partitions.extend((chain, subtask) for subtask in subtasks_of(parallelism[chain]))
            self._partitions.append(partitions)

    def partition(self, chain: int, subtask: Subtask) -> int:
        """The partition of a subtask on the level of its chain."""
        return self._first[chain] + subtask

    def subtask(self, level: int, partition: int) -> tuple[int, Subtask]:
        """The (chain, subtask) that stands at a partition of a level."""
        return self._partitions[level][partition]

    def width(self, level: int) -> int:
        """The number of partitions of a level."""
        return len(self._partitions[level])

    @property
    def depth(self) -> int:
        """The number of levels."""
        return len(self._partitions)
