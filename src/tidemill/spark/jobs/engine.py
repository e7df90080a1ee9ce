"""One epoch as one Spark job."""

from __future__ import annotations

import pickle
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import cloudpickle
from pyspark import SparkContext

from tidemill.checkpoint.model import Piece
from tidemill.runtime.driver.engine import EpochInput
from tidemill.runtime.driver.snapshots import Slice
from tidemill.runtime.epoch import EpochContext, Layout
from tidemill.runtime.task.job_bundle import JobBundle
from tidemill.spark.jobs.stages import StageBuilder
from tidemill.spark.jobs.worker import (
    EPOCH_PROPERTY,
    CommitFunction,
    DropFunction,
    FramesFunction,
    LevelFunction,
    MergeFunction,
    RetireFunction,
)
from tidemill.spark.session.failures import translated
from tidemill.state.keys.key_groups import Subtask, subtasks_of

#: A subtask with state has a slot, and so a worker, to itself, up to so many per core: a job may be wider than the
#: machine, and is so after it was moved to a smaller one. An idle worker takes some 80 MB.
_SLOTS_PER_CORE: Final = 8
#: A slot that only wide batches of Spark's use is cleared when none has come for so long: before Spark ends its idle
#: worker, which it does after a minute and without closing anything in it.
_IDLE_SECONDS: Final = 10.0


@dataclass(frozen=True)
class SourceFrames:
    """A batch of Spark sources: a Java RDD of Arrow batches, and the chains that read each of its partitions.

    The RDD is None for a batch without partitions, which one subtask of each chain reads all the same. Where there are
    several chains, ``schema`` is the Arrow schema of their combined rows.
    """

    rdd: Any
    chains: tuple[int, ...]
    schema: bytes | None = None


class SparkEngine:
    """Runs the levels of each epoch as the stages of one Spark job."""

    def __init__(self, context: SparkContext, bundle: JobBundle, cores: int) -> None:
        """``cores`` is the number of tasks that run at the same time; a cluster may get more of them."""
        self._context = context
        self._bundle = bundle
        self._cores = cores
        self._stages = StageBuilder(context, self._slots + cores)
        # Background work has workers of its own: in those of a slot it would get between a subtask and its state.
        self._background = StageBuilder(context, 1, pool="background-")
        # A name of its own: workers that know an earlier program of this job must not take it for this one.
        self._broadcast = context.broadcast((uuid.uuid4().hex, cloudpickle.dumps(bundle)))
        self._job_group: str | None = None
        # The slots of a chain's subtasks begin here, however wide it or its neighbours become.
        self._homes: dict[int, int] = {}
        self._widths: dict[int, int] = {}
        self._used: frozenset[int] = frozenset()
        #: Slots whose subtasks come and go with the partitions of Spark's batches, and when they last had one.
        self._last_used: dict[int, float] = {}
        self._ever_used: set[int] = set()

    @property
    def _slots(self) -> int:
        """How many slots there are for subtasks with state."""
        return _SLOTS_PER_CORE * self._cores

    def run_epoch(self, context: EpochContext, inputs: EpochInput) -> list[bytes]:
        """Run all levels of an epoch; returns what reached the driver."""
        layout = Layout(self._bundle.plan, context.parallelism)
        if self._job_group is None:
            self._job_group = self._context.getLocalProperty("spark.jobGroup.id")
        self._context.setLocalProperty(EPOCH_PROPERTY, context.to_json())
        try:
            with translated():
                self._settle(context, layout)
                parts = self._sources(context, layout, inputs)
                for level in range(1, layout.depth):
                    width = layout.width(level)
                    parts = self._apply(self._stages.exchange(parts, width), width, 0, level, layout)
                return self._stages.collect(parts)
        finally:
            self._context.setLocalProperty(EPOCH_PROPERTY, None)  # type: ignore[arg-type]

    def run_commits(self, tasks: Sequence[tuple[str, int, bytes]]) -> list[bytes]:
        """Commit in tasks of their own, in the slots of the subtasks that wrote: their committers wait there."""
        chains = {operator.uid: chain.id for chain in self._bundle.plan.chains for operator in chain.operators}
        slots = [
            self._slot(chains[uid], Subtask(subtask)) if chains[uid] in self._homes else subtask % self._slots
            for uid, subtask, _ in tasks
        ]
        self._ever_used.update(slots)
        # A driver commits again as it starts, in another thread than epochs may run in, and so in another group.
        of_epochs, self._job_group = self._job_group, self._context.getLocalProperty("spark.jobGroup.id")
        try:
            with translated():
                source = self._stages.scatter([task for _, _, task in tasks])
                function = CommitFunction(self._broadcast)
                parts = self._stages.apply(source, len(tasks), 0, ("commit",), lambda targets: function, homes=slots)
                return self._stages.collect(parts)
        finally:
            self._job_group = of_epochs

    def interrupt(self) -> None:
        """Cancel the Spark job of the epoch, or of the commits, that runs."""
        if self._job_group is not None:
            self._context.cancelJobGroup(self._job_group)

    def merge(self, slices: Sequence[Slice]) -> list[Piece | None]:
        """Merge slices of a background snapshot in small tasks of their own, in a pool that yields to epochs.

        In a session that the program brought along, the pool has no more than its fair share (``fairscheduler.xml``).
        """
        self._context.setLocalProperty("spark.scheduler.pool", "tidemill-background")
        with translated():
            stages = self._background
            source = stages.scatter([pickle.dumps(part, 5) for part in slices])
            parts = stages.apply(source, len(slices), 0, ("merge",), lambda targets: MergeFunction(self._broadcast))
            return [pickle.loads(piece) for piece in stages.collect(parts)]

    def close(self) -> None:
        """Close the job's warm chains in all slots and forget its code."""
        with translated():
            self._in_slots(sorted(self._ever_used), "drop", DropFunction(self._bundle.job_id))
        self._broadcast.destroy()

    def _settle(self, context: EpochContext, layout: Layout) -> None:
        """Give chains their slots; in slots that have no subtask left, close what waits there.

        That is at once after a rescale, and after a while where batches of Spark's have become narrower: they are as
        likely to become wider again.
        """
        self._cores = max(self._cores, self._stages.cores)
        used: set[int] = set()
        passing: set[int] = set()
        for chain in self._bundle.plan.chains:
            self._homes.setdefault(chain.id, layout.partition(chain.id, Subtask(0)))
            self._widths[chain.id] = max(self._widths.get(chain.id, 0), context.parallelism[chain.id])
            slots = {self._slot(chain.id, subtask) for subtask in subtasks_of(context.parallelism[chain.id])}
            self._ever_used |= slots
            if chain.parallelism is None:
                passing |= slots
            else:
                used |= slots
        now = time.monotonic()
        self._last_used.update(dict.fromkeys(passing, now))
        idle = {slot for slot, last in self._last_used.items() if now - last > _IDLE_SECONDS}
        for slot in idle:
            del self._last_used[slot]
        idle = (idle | (self._used - used)) - used - passing
        self._used = frozenset(used)
        self._stages.settle(self._slots + self._cores, used | self._last_used.keys(), self._retire)
        self._retire(sorted(idle))

    def _retire(self, slots: list[int]) -> None:
        """Close what waits in slots whose subtasks are gone, or run elsewhere from now on."""
        self._in_slots(slots, "retire", RetireFunction(self._bundle.job_id))

    def _slot(self, chain: int, subtask: Subtask) -> int:
        """The slot of a subtask.

        Where it has state it has one to itself, as far as they go. Subtasks without state share them, as long as there
        are no more than run at the same time; else they keep to slots of their own: two tasks of one slot would make a
        second worker in it, and the subtask with state would meet either.
        """
        home = self._homes[chain] + subtask
        if self._bundle.plan.chains[chain].stateful:
            return home % self._slots
        if self._widths[chain] <= self._cores:
            return home % (self._slots + self._cores)
        return self._slots + home % self._cores

    def _in_slots(self, slots: list[int], name: str, function: Any) -> None:
        """Run a function once in each of these slots."""
        if slots:
            source = self._stages.scatter([b""] * len(slots))
            parts = self._stages.apply(source, len(slots), 0, (name,), lambda targets: function, homes=slots)
            self._stages.collect(parts)

    def _sources(self, context: EpochContext, layout: Layout, inputs: EpochInput) -> list[Any]:
        parts: list[Any] = []
        framed = {chain for frames in inputs.frames for chain in frames.chains}
        for chain in self._bundle.plan.levels[0]:
            if chain in framed:
                continue
            width = context.parallelism[chain]
            splits = inputs.splits.get(chain, [])
            source = self._stages.scatter([*splits, *[b""] * (width - len(splits))])
            parts += self._apply(source, width, layout.partition(chain, Subtask(0)), 0, layout)
        last = layout.depth == 1
        for frames in inputs.frames:
            width = context.parallelism[frames.chains[0]]
            parts += self._stages.apply(
                self._stages.scatter([b""]) if frames.rdd is None else frames.rdd,
                width,
                0,
                ("frames", frames.chains, last),
                partial(self._frames_function, frames, last),
                homes=[self._slot(frames.chains[0], subtask) for subtask in subtasks_of(width)],
            )
        return parts

    def _frames_function(self, frames: SourceFrames, last: bool, targets: tuple[int, ...]) -> FramesFunction:
        return FramesFunction(self._broadcast, frames.chains, targets, frames.schema, last)

    def _apply(self, source: Any, width: int, first: int, level: int, layout: Layout) -> list[Any]:
        last = level == layout.depth - 1
        return self._stages.apply(
            source,
            width,
            first,
            ("level", level, last),
            lambda targets: LevelFunction(self._broadcast, level, targets, last),
            homes=[self._slot(*layout.subtask(level, partition)) for partition in range(first, first + width)],
        )
