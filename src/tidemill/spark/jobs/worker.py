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

import pyarrow as pa
from pyspark import TaskContext

from tidemill import faults
from tidemill.checkpoint.model import Piece
from tidemill.runtime.driver.commits import OpenCommitters, run_commit
from tidemill.runtime.driver.snapshots import Slice, merge_slice
from tidemill.runtime.epoch import EpochContext, Layout
from tidemill.runtime.task.job_bundle import JobBundle
from tidemill.runtime.task.main_classes import install_main_classes
from tidemill.runtime.task.task import execute_subtask
from tidemill.runtime.task.warm import WarmChains
from tidemill.spark.frames.frames import take_apart
from tidemill.state.keys.key_groups import Subtask

#: The Spark local property that carries the epoch's context to the tasks of its job.
EPOCH_PROPERTY: Final = "tidemill.epoch"

_pack_key: Final = struct.Struct("!q").pack


class WorkerProcess:
    """The state of this Python worker process: warm chains, and the job bundles it has unpacked."""

    def __init__(self) -> None:
        faults.install_from_environment()
        self.warm = WarmChains()
        self.committers = OpenCommitters()
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
            found.logs.set_up_worker()
            install_main_classes(found.main_classes)
            self.warm.budget = found.cache_size
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
        inputs = (item for item in items if item)
        bundle, context = process.bundle(self._bundle), epoch_context()
        output = execute_subtask(bundle, context, self._level, self._partitions[split], process.warm, inputs)
        yield from delivered(output, self._last)
        process.settle()


class FramesFunction:
    """Runs the subtasks that read one partition of Spark's batch: one per streaming source of the job.

    With several sources the batches are combined ones (see ``spark.frames``), of which each chain gets its own rows.
    """

    def __init__(
        self,
        bundle: Any,
        chains: tuple[int, ...],
        subtasks: tuple[int, ...],
        combined_schema: bytes | None,
        last: bool,
    ) -> None:
        self._bundle = bundle
        self._chains = chains
        self._subtasks = subtasks
        self._combined_schema = combined_schema
        self._last = last

    def __call__(self, split: int, items: Iterable[bytes]) -> Iterator[bytes]:
        process = this_process()
        bundle, context = process.bundle(self._bundle), epoch_context()
        layout = Layout(bundle.plan, context.parallelism)
        for chain, inputs in self._inputs(items):
            partition = layout.partition(chain, Subtask(self._subtasks[split]))
            output = execute_subtask(bundle, context, 0, partition, process.warm, inputs)
            yield from delivered(output, self._last)
        process.settle()

    def _inputs(self, items: Iterable[bytes]) -> Iterator[tuple[int, Iterator[Any]]]:
        items = (item for item in items if item)
        if self._combined_schema is None:
            yield self._chains[0], iter(items)
            return
        schema = pa.ipc.read_schema(pa.py_buffer(self._combined_schema))
        by_source = take_apart(pa.ipc.read_record_batch(pa.py_buffer(item), schema) for item in items)
        for chain in self._chains:
            yield chain, iter(by_source.get(chain, ()))


def epoch_context() -> EpochContext:
    """The context of the epoch whose job this task belongs to."""
    task = TaskContext.get()
    if task is None:
        raise RuntimeError("a level runs only inside a Spark task")
    return EpochContext.from_json(str(task.getLocalProperty(EPOCH_PROPERTY)))


def delivered(output: Iterator[tuple[int, bytes]], last: bool) -> Iterator[bytes]:
    """What a subtask sends, in the form Spark takes it: keys and parcels in turn, or parcels only for the driver."""
    if last:
        for _, parcel in output:
            yield parcel
    else:
        for key, parcel in output:
            yield _pack_key(key)
            yield parcel


class RetireFunction:
    """Closes what a job has in a slot whose subtasks are gone, or run elsewhere from now on.

    What they have on local disk stays for those that run elsewhere, which may be a worker of the same host.
    """

    def __init__(self, job_id: str) -> None:
        self._job_id = job_id

    def __call__(self, split: int, items: Iterable[bytes]) -> Iterator[bytes]:
        process = this_process()
        process.warm.retire(self._job_id, epoch_context())
        process.warm.drop(self._job_id, forget=False)
        process.committers.drop(self._job_id)
        process.settle()
        return iter(())


class DropFunction:
    """Closes a job's warm chains, and its committers, in whatever workers it runs."""

    def __init__(self, job_id: str) -> None:
        self._job_id = job_id

    def __call__(self, split: int, items: Iterable[bytes]) -> Iterator[bytes]:
        process = this_process()
        process.warm.drop(self._job_id)
        process.committers.drop(self._job_id)
        process.settle()
        return iter(())


class CommitFunction:
    """Commits what subtasks of sinks wrote."""

    def __init__(self, bundle: Any) -> None:
        self._bundle = bundle

    def __call__(self, split: int, items: Iterable[bytes]) -> Iterator[bytes]:
        process = this_process()
        bundle = process.bundle(self._bundle)
        for item in items:
            yield run_commit(bundle, process.committers, item)
        process.settle()


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
