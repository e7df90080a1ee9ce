"""An engine in one process, which runs the production tasks sequentially and without Spark.

Tasks, exchange, deltas and manifests are the same code that runs on Spark. Only the shuffle is replaced, by a list.
Workers are simulated: each has its own warm chains, and the caller can choose which worker runs a subtask, to provoke
moves and cold starts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any

import pyarrow as pa

from tidemill.local.frames import LocalFrame
from tidemill.local.killed_stores import leave_stores
from tidemill.runtime.driver.engine import EpochInput
from tidemill.runtime.epoch import EpochContext, Layout
from tidemill.runtime.task.commit_task import OpenCommitters, run_commit
from tidemill.runtime.task.job_bundle import JobBundle
from tidemill.runtime.task.task import execute_subtask
from tidemill.runtime.task.warm import WarmChains

#: Chooses the worker for (epoch, level, partition).
Placement = Callable[[int, int, int], int]


class LocalEngine:
    """Runs all subtasks of an epoch in this process, level by level."""

    def __init__(self, bundle: JobBundle, workers: int = 1, placement: Placement | None = None) -> None:
        self._bundle = bundle
        self._workers = [WarmChains(bundle.cache_size) for _ in range(workers)]
        self._committers = OpenCommitters()
        self._placement = placement or (lambda epoch, level, partition: partition % workers)

    @property
    def workers(self) -> list[WarmChains]:
        """The warm chains of each simulated worker."""
        return self._workers

    def kill_worker(self, worker: int, *, flushed: bool = True) -> None:
        """Discard everything in a worker without closing it, as if its process were killed.

        ``flushed`` specifies whether everything that it had written reached its local disk.
        """
        leave_stores(self._workers[worker].chains, flushed=flushed)
        self._workers[worker] = WarmChains(self._bundle.cache_size)

    def run_epoch(self, context: EpochContext, inputs: EpochInput) -> list[bytes]:
        """Run all levels; parcels are sorted, as the engine's contract requires, before a partition reads them."""
        layout = Layout(self._bundle.plan, context.parallelism)
        for worker in self._workers:
            worker.retire(self._bundle.job_id, context)
        waiting: dict[int, list[tuple[int, bytes]]] = {}
        frames = {frame.chain: frame for frame in inputs.frames}
        for level in range(layout.depth):
            sent: list[tuple[int, bytes]] = []
            for partition in range(layout.width(level)):
                worker = self._workers[self._placement(context.epoch, level, partition)]
                if level == 0:
                    parcels = _input(layout, partition, inputs, frames)
                else:
                    ready = sorted(waiting.pop(partition, []), key=itemgetter(0))
                    parcels = (parcel for _, parcel in ready)
                sent.extend(self._run(context, level, partition, worker, parcels))
            waiting = {}
            for key, parcel in sent:
                waiting.setdefault(key & 0xFFFFFFFF, []).append((key, parcel))
        return [parcel for parcels in waiting.values() for _, parcel in parcels]

    def _run(
        self, context: EpochContext, level: int, partition: int, worker: WarmChains, parcels: Iterator[Any]
    ) -> Iterator[tuple[int, bytes]]:
        return execute_subtask(self._bundle, context, level, partition, worker, parcels)

    def run_commits(self, tasks: Sequence[tuple[str, int, bytes]]) -> list[bytes]:
        """Commit subtask by subtask, each with its own committer."""
        return [run_commit(self._bundle, self._committers, task) for _, _, task in tasks]

    def interrupt(self) -> None:
        """Do nothing: subtasks run in the caller's thread, which cannot be interrupted."""

    def close(self) -> None:
        """Close all warm chains."""
        for worker in self._workers:
            worker.drop(self._bundle.job_id)
        self._committers.drop(self._bundle.job_id)


def _input(
    layout: Layout, partition: int, inputs: EpochInput, frames: Mapping[int, LocalFrame]
) -> Iterator[bytes | pa.RecordBatch]:
    """Return what a subtask of the first level reads: rows, or splits."""
    chain, subtask = layout.subtask(0, partition)
    if chain in frames:
        return frames[chain].rows(subtask)
    return iter(inputs.splits.get(chain, [])[subtask : subtask + 1])
