"""Runs one epoch as one Spark job."""

from __future__ import annotations

import pickle
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from pyspark import SparkContext

from tidemill.checkpoint.model import Piece
from tidemill.datastream.functions.pickling import pickled_by_value
from tidemill.runtime.driver.engine import EpochInput
from tidemill.runtime.epoch import EpochContext, Layout
from tidemill.runtime.task.job_bundle import JobBundle
from tidemill.runtime.task.merge_task import Slice
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

#: The maximum number of lanes per core for subtasks with state. Each such subtask has its own lane, and therefore its
#: own worker. A job may have a higher parallelism than the machine has cores, for example after it was moved to a
#: smaller machine. An idle worker needs about 80 MB.
_LANES_PER_CORE: Final = 8
#: A lane that only wide Spark batches use is cleared if no such batch has used it for this time. Spark itself
#: terminates an idle worker after a minute, without closing anything in it.
_IDLE_SECONDS: Final = 10.0


@dataclass(frozen=True)
class SourceFrames:
    """A batch of Spark sources: a Java RDD of Arrow batches, and the chains that read each of its partitions.

    The RDD is None for a batch without partitions. One subtask of each chain runs for it nevertheless. If there are
    several chains, ``schema`` is the Arrow schema of their combined rows.
    """

    rdd: Any
    chains: tuple[int, ...]
    schema: bytes | None = None


class SparkEngine:
    """Runs the levels of each epoch as the stages of one Spark job."""

    def __init__(self, context: SparkContext, bundle: JobBundle, cores: int) -> None:
        """``cores`` is the number of tasks that run at the same time. It can increase on a cluster."""
        self._context = context
        self._bundle = bundle
        self._cores = cores
        self._stages = StageBuilder(context, self._lanes + cores)
        # Background work has its own workers. In the worker of a lane it would separate a subtask from its state.
        self._background = StageBuilder(context, 1, pool="background-")
        # A unique name: workers that have an earlier program of this job in memory must not use it for this one.
        self._broadcast = context.broadcast((uuid.uuid4().hex, pickled_by_value(bundle)))
        self._job_group: str | None = None
        # The first lane of each chain's subtasks. It does not change with the parallelism of any chain.
        self._homes: dict[int, int] = {}
        self._widths: dict[int, int] = {}
        self._used: frozenset[int] = frozenset()
        #: The lanes whose subtasks follow the partitions of Spark's batches, and when each last had a subtask.
        self._last_used: dict[int, float] = {}
        self._ever_used: set[int] = set()

    @property
    def _lanes(self) -> int:
        """The number of lanes for subtasks with state."""
        return _LANES_PER_CORE * self._cores

    def run_epoch(self, context: EpochContext, inputs: EpochInput) -> list[bytes]:
        """Run all levels of an epoch and return the parcels that reached the driver."""
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
        """Commit in separate tasks, in the lanes of the subtasks that wrote the results, where their committers are."""
        chains = {operator.uid: chain.id for chain in self._bundle.plan.chains for operator in chain.operators}
        lanes = [
            self._lane(chains[uid], Subtask(subtask)) if chains[uid] in self._homes else subtask % self._lanes
            for uid, subtask, _ in tasks
        ]
        self._ever_used.update(lanes)
        # When a driver starts, it repeats commits, possibly in another thread than epochs and so in another job group.
        of_epochs, self._job_group = self._job_group, self._context.getLocalProperty("spark.jobGroup.id")
        try:
            with translated():
                source = self._stages.scatter([task for _, _, task in tasks])
                function = CommitFunction(self._broadcast)
                parts = self._stages.apply(source, len(tasks), 0, ("commit",), lambda targets: function, homes=lanes)
                return self._stages.collect(parts)
        finally:
            self._job_group = of_epochs

    def interrupt(self) -> None:
        """Cancel the Spark job of the current epoch or of the current commits."""
        if self._job_group is not None:
            self._context.cancelJobGroup(self._job_group)

    def merge(self, slices: Sequence[Slice]) -> list[Piece | None]:
        """Merge slices of a background snapshot in small separate tasks, in a pool that gives priority to epochs.

        The priority is set in ``fairscheduler.xml``. In a session that the program itself created, which does not use
        that file, the pool only gets its fair share.
        """
        self._context.setLocalProperty("spark.scheduler.pool", "tidemill-background")
        with translated():
            stages = self._background
            source = stages.scatter([pickle.dumps(part, 5) for part in slices])
            parts = stages.apply(source, len(slices), 0, ("merge",), lambda targets: MergeFunction(self._broadcast))
            return [pickle.loads(piece) for piece in stages.collect(parts)]

    def close(self) -> None:
        """Close the job's warm chains in all lanes and discard its code."""
        with translated():
            self._in_lanes(sorted(self._ever_used), "drop", DropFunction(self._bundle.job_id))
        self._broadcast.destroy()

    def _settle(self, context: EpochContext, layout: Layout) -> None:
        """Assign lanes to chains, and close the warm chains in lanes that no longer have a subtask.

        This happens immediately after a rescale. When Spark's batches become narrower, it happens after some time,
        because they are likely to become wider again.
        """
        self._cores = max(self._cores, self._stages.cores)
        used: set[int] = set()
        passing: set[int] = set()
        for chain in self._bundle.plan.chains:
            self._homes.setdefault(chain.id, layout.partition(chain.id, Subtask(0)))
            self._widths[chain.id] = max(self._widths.get(chain.id, 0), context.parallelism[chain.id])
            lanes = {self._lane(chain.id, subtask) for subtask in subtasks_of(context.parallelism[chain.id])}
            self._ever_used |= lanes
            if chain.parallelism is None:
                passing |= lanes
            else:
                used |= lanes
        now = time.monotonic()
        self._last_used.update(dict.fromkeys(passing, now))
        idle = {lane for lane, last in self._last_used.items() if now - last > _IDLE_SECONDS}
        for lane in idle:
            del self._last_used[lane]
        idle = (idle | (self._used - used)) - used - passing
        self._used = frozenset(used)
        self._stages.settle(self._lanes + self._cores, used | self._last_used.keys(), self._retire)
        self._retire(sorted(idle))

    def _retire(self, lanes: list[int]) -> None:
        """Close the warm chains in lanes whose subtasks no longer exist, or have moved to another lane."""
        self._in_lanes(lanes, "retire", RetireFunction(self._bundle.job_id))

    def _lane(self, chain: int, subtask: Subtask) -> int:
        """Return the lane of a subtask.

        A subtask with state has its own lane, as long as there are enough. Subtasks without state share these lanes, as
        long as there are no more of them than run at the same time. Otherwise they use separate lanes: two concurrent
        tasks in one lane would start a second worker in it, and the subtask with state could get either of them.
        """
        home = self._homes[chain] + subtask
        if self._bundle.plan.chains[chain].stateful:
            return home % self._lanes
        if self._widths[chain] <= self._cores:
            return home % (self._lanes + self._cores)
        return self._lanes + home % self._cores

    def _in_lanes(self, lanes: list[int], name: str, function: Any) -> None:
        """Run a function once in each of these lanes."""
        if lanes:
            source = self._stages.scatter([b""] * len(lanes))
            parts = self._stages.apply(source, len(lanes), 0, (name,), lambda targets: function, homes=lanes)
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
                homes=[self._lane(frames.chains[0], subtask) for subtask in subtasks_of(width)],
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
            homes=[self._lane(*layout.subtask(level, partition)) for partition in range(first, first + width)],
        )
