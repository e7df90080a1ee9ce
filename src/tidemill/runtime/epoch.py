"""The part of a job that changes from epoch to epoch, and the placement of subtasks.

An epoch context is small. A task needs nothing else besides the constant job plan.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any

from tidemill.checkpoint.model import Epoch, Slot
from tidemill.graph.plan import JobPlan
from tidemill.runtime.batch.records import MIN_TIME
from tidemill.state.keys.key_groups import Subtask, subtasks_of


@dataclass(frozen=True)
class EpochContext:
    """Everything a subtask needs to know about its epoch.

    - ``rerun`` is how often the epoch was run before, because its attempts were inconsistent.
    - ``head`` is the slot of the manifest that the epoch builds on.
    - ``attempts`` contains, per chain, the attempts whose results are in that manifest.
    - ``watermarks`` contains, per chain, the committed watermarks of its subtasks, by operator uid: for the head of the
      chain, and for later operators that generate watermarks. ``times`` contains, in the same form, the additional
      state that some of these operators keep.
    - ``processing_time`` is the time of the driver's clock, fixed for the whole epoch.
    - ``last`` marks the final epoch of a bounded job: the watermark advances to the maximum. In the chains of ``ended``
      sources it does so earlier, so that they do not hold back other chains.
    - ``checkpoint`` indicates that this epoch is a checkpoint. ``next_checkpoint`` is the processing time at which the
      next one is due, None if each epoch is one.
    - ``after_checkpoint`` indicates that the previous epoch is a checkpoint, of which listeners are notified.
    - ``history`` is the same for all lineages that resume from one another: see ``tidemill.checkpoint.model.Manifest``.
    - ``unsteady`` are the uids of operators whose records must be inspected one by one
      (:mod:`tidemill.runtime.batch.emitted`).
    """

    job_id: str
    lineage: str
    epoch: Epoch
    rerun: int
    head: Slot | None
    processing_time: int
    parallelism: tuple[int, ...]
    attempts: dict[int, tuple[str, ...]] = field(default_factory=dict)
    watermarks: dict[int, dict[str, tuple[int, ...]]] = field(default_factory=dict)
    times: dict[int, dict[str, tuple[Any, ...]]] = field(default_factory=dict)
    watermark_base: int = MIN_TIME
    last: bool = False
    ended: tuple[int, ...] = ()
    checkpoint: bool = True
    next_checkpoint: int | None = None
    after_checkpoint: bool = False
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
        for name in ("watermarks", "times"):
            fields[name] = {
                int(chain): {uid: tuple(by_subtask) for uid, by_subtask in by_uid.items()}
                for chain, by_uid in fields[name].items()
            }
        return cls(**fields)


class Layout:
    """Maps each subtask of each chain to its partition on its level, for one epoch."""

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
        """The (chain, subtask) at a partition of a level."""
        return self._partitions[level][partition]

    def width(self, level: int) -> int:
        """The number of partitions of a level."""
        return len(self._partitions[level])

    @property
    def depth(self) -> int:
        """The number of levels."""
        return len(self._partitions)
