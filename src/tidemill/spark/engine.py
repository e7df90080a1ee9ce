"""One epoch as one Spark job."""

from __future__ import annotations

import pickle
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import cloudpickle
from pyspark import SparkContext

from tidemill.checkpoint.model import Piece
from tidemill.runtime.coordinator import EpochInput
from tidemill.runtime.epoch import EpochContext, Layout
from tidemill.runtime.snapshots import Slice
from tidemill.runtime.task import JobBundle
from tidemill.spark.exchange import StageBuilder
from tidemill.spark.failures import translated
from tidemill.spark.worker import EPOCH_PROPERTY, DropFunction, FramesFunction, LevelFunction, MergeFunction


@dataclass(frozen=True)
class Frames:
    """A batch of Spark sources: a Java RDD of Arrow batches, and the chains that read each of its partitions.

    The RDD is None for a batch without partitions, which one subtask of each chain reads all the same.
    """

    rdd: Any
    chains: tuple[int, ...]


class SparkEngine:
    """Runs the levels of each epoch as the stages of one Spark job."""

    def __init__(
        self, context: SparkContext, bundle: JobBundle, slots: int, combined_schema: bytes | None = None
    ) -> None:
        self._context = context
        self._bundle = bundle
        self._stages = StageBuilder(context, slots)
        # Background work has workers of its own: in those of a slot it would get between a subtask and its state.
        self._background = StageBuilder(context, 1, pool="background-")
        self._slots = slots
        self._combined_schema = combined_schema
        # A name of its own: workers that know an earlier program of this job must not take it for this one.
        self._broadcast = context.broadcast((uuid.uuid4().hex, cloudpickle.dumps(bundle)))

    def run_epoch(self, context: EpochContext, inputs: EpochInput) -> list[bytes]:
        """Run all levels of an epoch; returns what reached the driver."""
        layout = Layout(self._bundle.plan, context.parallelism)
        self._context.setLocalProperty(EPOCH_PROPERTY, context.to_json())
        try:
            with translated():
                parts = self._sources(context, layout, inputs)
                for level in range(1, layout.depth):
                    width = layout.width(level)
                    parts = self._apply(self._stages.exchange(parts, width), width, 0, level, layout)
                return self._stages.collect(parts)
        finally:
            self._context.setLocalProperty(EPOCH_PROPERTY, None)  # type: ignore[arg-type]

    def merge(self, slices: Sequence[Slice]) -> list[Piece | None]:
        """Merge slices of a background snapshot in small tasks of their own, in a pool that yields to epochs."""
        self._context.setLocalProperty("spark.scheduler.pool", "tidemill-background")
        with translated():
            stages = self._background
            source = stages.scatter([pickle.dumps(part, 5) for part in slices])
            parts = stages.apply(source, len(slices), 0, ("merge",), lambda targets: MergeFunction(self._broadcast))
            return [pickle.loads(piece) for piece in stages.collect(parts)]

    def close(self) -> None:
        """Close the job's warm chains in all slots and forget its code."""
        with translated():
            source = self._stages.scatter([b""] * self._slots)
            self._stages.collect(
                self._stages.apply(source, self._slots, 0, ("drop",), lambda targets: DropFunction(self._bundle.job_id))
            )
        self._broadcast.destroy()

    def _sources(self, context: EpochContext, layout: Layout, inputs: EpochInput) -> list[Any]:
        parts: list[Any] = []
        frames: Frames | None = inputs.frames
        for chain in self._bundle.plan.levels[0]:
            if frames is not None and chain in frames.chains:
                continue
            width = context.parallelism[chain]
            splits = inputs.splits.get(chain, [])
            source = self._stages.scatter([*splits, *[b""] * (width - len(splits))])
            parts += self._apply(source, width, layout.partition(chain, 0), 0, layout)
        if frames is not None:
            width = context.parallelism[frames.chains[0]]
            last = layout.depth == 1
            parts += self._stages.apply(
                self._stages.scatter([b""]) if frames.rdd is None else frames.rdd,
                width,
                0,
                ("frames", last),
                lambda targets: FramesFunction(self._broadcast, frames.chains, targets, self._combined_schema, last),
            )
        return parts

    def _apply(self, source: Any, width: int, first: int, level: int, layout: Layout) -> list[Any]:
        last = level == layout.depth - 1
        return self._stages.apply(
            source,
            width,
            first,
            ("level", level, last),
            lambda targets: LevelFunction(self._broadcast, level, targets, last),
        )
