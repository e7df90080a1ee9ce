"""The code that runs inside Spark's Python workers: the functions of tasks, the warm chains, and garbage collection.

Spark keeps Python workers alive and sends them one task after the other. The chains of a subtask stay in the worker
until the next epoch. Spark also runs a full garbage collection after every task, whose cost would grow with the size of
the state. Objects that survive an epoch are therefore frozen, that is, excluded from garbage collection, and checked
again only from time to time.
"""

from __future__ import annotations

import gc
import os
import pickle
import struct
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyspark import TaskContext

from tidemill import faults
from tidemill.checkpoint.model import Piece
from tidemill.runtime.epoch import EpochContext, Layout
from tidemill.runtime.task.commit_task import OpenCommitters, run_commit
from tidemill.runtime.task.job_bundle import JobBundle
from tidemill.runtime.task.main_classes import install_main_classes
from tidemill.runtime.task.merge_task import Slice, merge_slice
from tidemill.runtime.task.task import execute_subtask
from tidemill.runtime.task.warm import WarmChains
from tidemill.spark.frames.frames import split_by_source
from tidemill.spark.session.dependencies import STARTED_IN, import_from_anywhere, installed_here
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
        self._directories: dict[str, Path] = {}
        self._directory = STARTED_IN
        self._swept = time.monotonic()
        self._sweep_seconds = 0.0
        # With the default threshold of 700, the collector would run thousands of times per epoch and find nothing.
        gc.set_threshold(100_000, 50, 100)

    def bundle(self, broadcast: Any) -> JobBundle:
        """Return the job bundle of a broadcast, which is unpacked once, and enter the directory of its archives."""
        name = str(broadcast.value[0])
        found = self._bundles.get(name)
        if found is None:
            # A worker usually runs one job at a time, rarely two. Discarded bundles can be unpacked again.
            if len(self._bundles) >= 8:
                self._bundles.clear()
                self._directories.clear()
            found = pickle.loads(broadcast.value[1])
            installed = installed_here(found.dependencies)
            import_from_anywhere()
            self._bundles[name] = found
            installed.use()
            self._directories[name] = installed.directory or STARTED_IN
            found.logs.set_up_worker()
            install_main_classes(found.main_classes)
            self.warm.budget = found.cache_size
        if self._directory != self._directories[name]:
            self._directory = self._directories[name]
            os.chdir(self._directory)
        return found

    def settle(self) -> None:
        """Freeze the objects that this task leaves in memory, so that Spark's collection after it has nothing to do."""
        now = time.monotonic()
        if now - self._swept > 100 * self._sweep_seconds + 1:
            # This finds frozen objects that became cyclic garbage. It takes at most about 1% of the time.
            gc.unfreeze()
            gc.collect()
            self._swept = time.monotonic()
            self._sweep_seconds = self._swept - now
        else:
            gc.collect(0)
        gc.freeze()


_process: WorkerProcess | None = None


def this_process() -> WorkerProcess:
    """Return the state of this worker process, which is created on first use."""
    global _process
    if _process is None:
        _process = WorkerProcess()
    return _process


class LevelFunction:
    """Runs subtasks of one level: a function of (split index, iterator of byte strings) that all epochs share.

    ``partitions`` maps split indexes to partitions of the level. Between levels it yields the sort key and the parcel
    of each pair alternately, as Spark's pairwise shuffle expects. On the last level it yields only parcels, for the
    driver.
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

    With several sources, the batches are combined (see ``spark.frames``), and each chain gets the rows of its source.
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
        by_source = split_by_source(pa.ipc.read_record_batch(pa.py_buffer(item), schema) for item in items)
        for chain in self._chains:
            yield chain, iter(by_source.get(chain, ()))


def epoch_context() -> EpochContext:
    """Return the context of the epoch whose job this task belongs to."""
    task = TaskContext.get()
    if task is None:
        raise RuntimeError("a level runs only inside a Spark task")
    return EpochContext.from_json(str(task.getLocalProperty(EPOCH_PROPERTY)))


def delivered(output: Iterator[tuple[int, bytes]], last: bool) -> Iterator[bytes]:
    """Convert the output of a subtask for Spark: alternating keys and parcels, or only parcels for the driver."""
    if last:
        for _, parcel in output:
            yield parcel
    else:
        for key, parcel in output:
            yield _pack_key(key)
            yield parcel


class RetireFunction:
    """Closes everything of a job in a lane whose subtasks no longer exist, or have moved to another lane.

    Files on the local disk stay, because the subtasks may have moved to another worker on the same host.
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
    """Closes a job's warm chains and committers in the worker that runs it."""

    def __init__(self, job_id: str) -> None:
        self._job_id = job_id

    def __call__(self, split: int, items: Iterable[bytes]) -> Iterator[bytes]:
        process = this_process()
        process.warm.drop(self._job_id)
        process.committers.drop(self._job_id)
        process.settle()
        return iter(())


class CommitFunction:
    """Commits the results that subtasks of sinks have written."""

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
