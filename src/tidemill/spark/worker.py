"""What runs inside Spark's Python workers: one module-level callable per level, the process's warm chains, its garbage.

Spark keeps Python workers alive and hands them one task after the other; the chains of a subtask wait here for the
next epoch. Spark also runs a full garbage collection after every task, which would cost as much as the state is large:
what survives an epoch is therefore frozen, that is, taken out of the collector's sight, and looked at again only now
and then.
"""

from __future__ import annotations

import gc
import pickle
import struct
import time
from collections.abc import Iterable, Iterator
from typing import Any, Final

from pyspark import TaskContext

from tidemill import faults
from tidemill.checkpoint.model import Piece
from tidemill.runtime.epoch import EpochContext
from tidemill.runtime.snapshots import Slice, merge_slice
from tidemill.runtime.task import JobBundle, execute_subtask
from tidemill.runtime.warm import WarmChains

#: The Spark local property that carries the epoch's context to the tasks of its job.
EPOCH_PROPERTY: Final = "tidemill.epoch"

_pack_key: Final = struct.Struct("!q").pack


class WorkerProcess:
    """The state of this Python worker process: warm chains, and the job bundles it has unpacked."""

    def __init__(self) -> None:
        faults.install_from_environment()
        self.warm = WarmChains()
        self._bundles: dict[str, JobBundle] = {}
        self._swept = time.monotonic()
        self._sweep_seconds = 0.0
        # The default threshold of 700 makes the collector run thousands of times per epoch, to find nothing.
        gc.set_threshold(100_000, 50, 100)

    def bundle(self, broadcast: Any) -> JobBundle:
        """The job of a broadcast, unpacked once."""
        name = str(broadcast.value[0])
        found = self._bundles.get(name)
        if found is None:
            # A worker serves one job at a time, rarely two: older bundles can be unpacked again.
            if len(self._bundles) >= 8:
                self._bundles.clear()
            found = self._bundles[name] = pickle.loads(broadcast.value[1])
        return found

    def settle(self) -> None:
        """Freeze what this task left behind, so that Spark's collection after it has nothing to look at."""
        now = time.monotonic()
        if now - self._swept > 100 * self._sweep_seconds + 1:
            # Frozen objects that became garbage in cycles are found here; at most about 1 % of the time goes into it.
            gc.unfreeze()
            gc.collect()
            self._swept = time.monotonic()
            self._sweep_seconds = self._swept - now
        else:
            gc.collect(0)
        gc.freeze()


_process: WorkerProcess | None = None


def this_process() -> WorkerProcess:
    """The state of this worker process, made on first use."""
    global _process
    if _process is None:
        _process = WorkerProcess()
    return _process


class LevelFunction:
    """Runs subtasks of one level: a function of (split index, iterator of byte strings), constant over all epochs.

    ``partitions`` maps split indexes to partitions of the level. Between levels it yields the sort key and the parcel
    of each pair in turn, as Spark's pairwise shuffle expects; on the last level only parcels, for the driver.
    """

    def __init__(self, bundle: Any, level: int, partitions: tuple[int, ...], last: bool) -> None:
        self._bundle = bundle
        self._level = level
        self._partitions = partitions
        self._last = last

    def __call__(self, split: int, items: Iterable[bytes]) -> Iterator[bytes]:
        process = this_process()
        bundle = process.bundle(self._bundle)
        task = TaskContext.get()
        if task is None:
            raise RuntimeError("a level runs only inside a Spark task")
        context = EpochContext.from_json(str(task.getLocalProperty(EPOCH_PROPERTY)))
        inputs = (item for item in items if item)
        output = execute_subtask(bundle, context, self._level, self._partitions[split], process.warm, inputs)
        if self._last:
            for _, parcel in output:
                yield parcel
        else:
            for key, parcel in output:
                yield _pack_key(key)
                yield parcel
        process.settle()


class DropFunction:
    """Closes a job's warm chains in whatever workers it runs."""

    def __init__(self, job_id: str) -> None:
        self._job_id = job_id

    def __call__(self, split: int, items: Iterable[bytes]) -> Iterator[bytes]:
        process = this_process()
        process.warm.drop(self._job_id)
        process.settle()
        return iter(())


class MergeFunction:
    """Merges slices of a background snapshot."""

    def __init__(self, bundle: Any) -> None:
        self._bundle = bundle

    def __call__(self, split: int, items: Iterable[bytes]) -> Iterator[bytes]:
        process = this_process()
        storage = process.bundle(self._bundle).storage
        for item in items:
            part: Slice = pickle.loads(item)
            piece: Piece | None = merge_slice(storage, part)
            yield pickle.dumps(piece, 5)
        process.settle()
