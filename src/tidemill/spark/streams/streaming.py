"""Runs unbounded jobs: epochs run inside one Structured Streaming query, so that every Spark source works.

Spark logs the offsets of a batch, and then calls Tidemill with the batch. The manifest contains the batch id and a copy
of the offsets, and decides whether the batch is committed. Each lineage has its own Spark checkpoint location, built
from the previous one up to the committed batch, so a former driver that still runs cannot write to it. A batch that
Spark replays is skipped if the head manifest contains it.

Spark calls Tidemill only if there is input. If a processing-time timer is due and no batch is running, an epoch without
input runs between two batches. Its manifest repeats the positions of the last batch (docs/decisions/0008).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from tidemill.checkpoint.model import Manifest
from tidemill.checkpoint.names import spark_location
from tidemill.checkpoint.protocol import should_skip
from tidemill.checkpoint.spark_logs import LogEntry, with_logs
from tidemill.common.configuration import Configuration
from tidemill.config import StateRecoveryOptions
from tidemill.errors import GraphError, JobExecutionError
from tidemill.runtime.driver.assembly import JobAssembly
from tidemill.runtime.driver.coordinator import Coordinator
from tidemill.runtime.driver.engine import EpochInput
from tidemill.runtime.driver.epoch_limit import EpochLimit
from tidemill.runtime.driver.epoch_loop import EpochLoop
from tidemill.runtime.driver.files_read import is_of_files
from tidemill.runtime.driver.job import StopSignal
from tidemill.runtime.driver.launch import Launch
from tidemill.runtime.driver.savepoints import Savepoints
from tidemill.runtime.driver.split_input import SplitInput
from tidemill.runtime.operators.source import has_event_time
from tidemill.runtime.start.spark_positions import numbers_for
from tidemill.spark.frames.event_time import with_files
from tidemill.spark.frames.frames import arrow_schema, combine
from tidemill.spark.frames.source_reader import SourceReader
from tidemill.spark.frames.stateless import check_stateless
from tidemill.spark.jobs.engine import SourceFrames
from tidemill.spark.locations.job_locations import SparkLocations
from tidemill.spark.locations.locations import source_numbers, take_over
from tidemill.spark.session.failures import summary
from tidemill.spark.streams.batch_limit import BatchLimit
from tidemill.spark.streams.progress import SourceLag
from tidemill.spark.streams.query_positions import QueryPositions

#: The interval of checks between batches, which is the maximum delay of a processing-time timer.
_POLL_SECONDS: Final = 0.05


class StreamingInput:
    """The streaming sources of a job as one frame, in addition to its split sources."""

    def __init__(
        self,
        session: SparkSession,
        launch: Launch,
        readers: Mapping[int, SourceReader[Any]],
        positioned: Collection[str],
        limit: EpochLimit,
    ) -> None:
        """``readers`` are the readers of the query's sources, by chain; ``positioned`` are the uids of the sources that
        the job has a position for."""
        self.launch = launch
        self.configuration: Configuration = launch.configuration
        self.limit = limit
        uids = {chain: launch.plan.chains[chain].head.uid for chain in readers}
        self._frames = {
            chain: reader.frame(session, reader.max_records(limit), resuming=uids[chain] in positioned)
            for chain, reader in readers.items()
        }
        for chain, reader in readers.items():
            check_stateless(self._frames[chain], uids[chain])
            if reader.has_files and has_event_time(launch.plan.chains[chain], launch.operators):
                self._frames[chain] = with_files(self._frames[chain])
        self.frame = combine(self._frames)
        self.source_numbers = source_numbers(self.frame, {uids[chain]: frame for chain, frame in self._frames.items()})
        self._combined_schema: bytes | None = None
        if len(self._frames) > 1:
            self._combined_schema = arrow_schema(self.frame).serialize().to_pybytes()
        trackers = {uids[chain]: reader.tracker(session) for chain, reader in readers.items()}
        self.positions = QueryPositions(
            {uid: one for uid, one in trackers.items() if one is not None}, self.source_numbers
        )
        self.batch_limit = BatchLimit(session, limit, {uids[chain]: reader for chain, reader in readers.items()})

    def schemas(self) -> dict[int, bytes]:
        """Return the Arrow schema of each source, for the workers."""
        return {chain: arrow_schema(frame).serialize().to_pybytes() for chain, frame in self._frames.items()}

    def _batch(self, rdd: Any) -> SourceFrames:
        """Return a batch of all sources. If there are several sources, its rows are combined."""
        return SourceFrames(rdd, tuple(self._frames), self._combined_schema)

    def epoch_input(self, batch: DataFrame, spark: dict[str, Any], splits: EpochInput) -> EpochInput:
        """Return the input of the epoch that processes a batch: a subtask of every source reads each partition."""
        rdd = batch._jdf.toArrowBatchRdd()
        partitions = rdd.getNumPartitions()
        return replace(
            splits,
            frames=(*splits.frames, self._batch(rdd if partitions else None)),
            partitions={**splits.partitions, **dict.fromkeys(self._frames, partitions)},
            spark=spark,
            last=False,
        )

    def no_input(self, spark: dict[str, Any] | None, splits: EpochInput, *, last: bool = False) -> EpochInput:
        """Return the input of an epoch between batches, at the positions of the last batch; ``last`` ends the job."""
        return replace(
            splits,
            frames=(*splits.frames, self._batch(None)),
            partitions={**splits.partitions, **dict.fromkeys(self._frames, 1)},
            spark=spark,
            last=last,
        )


def run_streaming_job(
    inputs: StreamingInput,
    job: JobAssembly,
    coordinator: Coordinator,
    locations: SparkLocations,
    stop: StopSignal,
    open_input: Callable[..., SplitInput],
    elsewhere: Collection[str],
) -> None:
    """Run a streaming query from the last committed batch until it ends or the job is stopped.

    ``open_input`` creates the input that is read in addition to the query, from the arguments of :class:`SplitInput`.
    ``elsewhere`` are the uids of sources that had a position in the query and now have it in that input.
    """
    with inputs.positions.named_loss():
        _run_query(inputs, job, coordinator, locations, stop, open_input, elsewhere)


def _run_query(
    inputs: StreamingInput,
    job: JobAssembly,
    coordinator: Coordinator,
    locations: SparkLocations,
    stop: StopSignal,
    open_input: Callable[..., SplitInput],
    elsewhere: Collection[str],
) -> None:
    restored = coordinator.open()
    if restored is not None and restored.finished:
        return
    watched = sorted(
        inputs.source_numbers.keys() & {uid for uid, at in coordinator.head.sources.items() if is_of_files(at)}
    )
    if watched:
        raise GraphError(
            f"the stored position of the source with uid {watched[0]!r} belongs to watched files, but the source is "
            "now a Spark stream: give the new source another uid"
        )
    locations.bring(coordinator.lineage, restored)
    positions = take_over(
        locations.directory,
        coordinator.lineage,
        restored,
        inputs.source_numbers,
        allow_non_restored=inputs.configuration.get(StateRecoveryOptions.IGNORE_UNCLAIMED_STATE),
        revise=inputs.positions.revised,
        sealed=locations.sealed,
        durable=locations.durable,
        elsewhere=frozenset(elsewhere),
    )
    loop = job.open_loop(coordinator, inputs.launch, open_input)
    try:
        _run_batches(_Batches(inputs, loop, job.savepoints, coordinator, locations, positions, stop), inputs, stop)
    finally:
        loop.close()


def _run_batches(batches: _Batches, inputs: StreamingInput, stop: StopSignal) -> None:
    """Process Spark's batches until the query ends. Between batches, run epochs without input that are due."""
    writer = (
        inputs.frame.writeStream.foreachBatch(batches)
        .option("checkpointLocation", f"file://{batches.location}")
        .queryName(f"tidemill-{inputs.launch.job_id}-{batches.lineage}")
    )
    if batches.pause:
        writer = writer.trigger(processingTime=f"{1000 * batches.pause:.0f} milliseconds")
    query = writer.start()
    inputs.batch_limit.attach(query, inputs.source_numbers)
    lag = SourceLag(query, inputs.source_numbers, batches.note_pending)
    try:
        with stop.interrupting(query.stop):
            while not query.awaitTermination(_POLL_SECONDS):  # type: ignore[arg-type]
                if stop.is_set() or batches.error is not None:
                    break
                lag.look()
                if batches.take_savepoints():
                    break
                batches.keep_beginning()
                batches.check_owner()
                batches.run_without_input()
    except StreamingQueryException as error:
        if batches.error is not None:
            raise batches.error from None
        raise JobExecutionError(summary(error)) from error
    finally:
        query.stop()
    if batches.error is not None:
        raise batches.error


class _Batches:
    """The callback that Spark calls with each batch."""

    def __init__(
        self,
        inputs: StreamingInput,
        loop: EpochLoop,
        savepoints: Savepoints,
        coordinator: Coordinator,
        locations: SparkLocations,
        positions: dict[str, Any] | None,
        stop: StopSignal,
    ) -> None:
        """``positions`` are Spark's positions in the head manifest, arranged for the current query."""
        self._inputs = inputs
        self._loop = loop
        self._savepoints = savepoints
        self._coordinator = coordinator
        self._locations = locations
        self._positions = positions
        self._stop = stop
        self._lock = threading.Lock()
        self.lineage = coordinator.lineage
        self.location = locations.directory / spark_location(self.lineage)
        self.pause = loop.pause
        self.note_pending = coordinator.note_pending
        self.error: BaseException | None = None
        self._over = False

    def run_without_input(self) -> None:
        """Run an epoch if one is due, unless a batch is being processed, which has the same effect."""

        def run() -> None:
            if self._loop.due():
                self._committed(self._loop.step(self._without_batch))

        if self._loop.seconds_to_rest <= 0 and self._loop.due():
            self._between_batches(run)

    def keep_beginning(self) -> None:
        """Store the starting positions of the sources as soon as they are known: the first input may arrive much later.

        Otherwise, a source that starts at the end of a topic would start at another position with the next driver.
        """
        if self._positions is None:
            self._between_batches(self._keep_location)

    def check_owner(self) -> None:
        """Check whether another driver has taken over the job."""
        self._between_batches(self._coordinator.check_owner)

    def _between_batches(self, act: Callable[[], object]) -> None:
        """Call ``act`` unless a batch is being processed. An exception ends the job."""
        if not self._lock.acquire(blocking=False):
            return
        try:
            if self.error is None:
                act()
        except BaseException as error:
            self.error = error
        finally:
            self._lock.release()

    def take_savepoints(self) -> bool:
        """Start the requested savepoints when no batch is being processed. Returns whether one of them ends the job.

        Must not be called by Spark's own thread, because a cancelled query waits for that thread.
        """
        if not self._savepoints.pending:
            return False
        cancelled = False

        def cancel() -> None:
            nonlocal cancelled
            cancelled = True

        with self._lock:
            try:
                if self.error is None:
                    self._over = self._loop.take_savepoints(cancel, self._drain)
            except BaseException as error:
                self.error = error
        if cancelled:
            self._stop.set()
        return self._over

    def _drain(self) -> None:
        self._committed(self._loop.drain(partial(self._without_batch, last=True)))

    def _without_batch(self, splits: EpochInput, *, last: bool = False) -> EpochInput:
        return self._with_logs(self._inputs.no_input(self._positions, splits, last=last))

    def _with_logs(self, inputs: EpochInput) -> EpochInput:
        """Add this lineage's location and the record of its logs to the input of an epoch, for its manifest."""
        logs = self._keep_location()
        return inputs if inputs.spark is None else replace(inputs, spark=with_logs(inputs.spark, self.lineage, logs))

    def _committed(self, manifest: Manifest | None) -> Manifest:
        if manifest is None:
            raise RuntimeError("a streaming query runs an epoch for each batch")
        if not self._savepoints.pinned():
            self._locations.forget_superseded()
        return manifest

    def _keep_location(self) -> list[LogEntry]:
        lineage, begun = self._coordinator.lineage, self._positions is not None
        return self._coordinator.tolerating(lambda: self._locations.keep(lineage, begun=begun))

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        try:
            with self._lock:
                if self._over:
                    raise RuntimeError("no batch may run after the savepoint that ends the job")
                self._stop.check()
                if self.error is not None:
                    raise self.error  # an epoch between the batches has failed: Spark must not commit this batch
                offsets = (self.location / "offsets" / str(batch_id)).read_text(encoding="utf-8")
                if should_skip(replace(self._coordinator.head, spark=self._positions), batch_id, offsets):
                    return
                spark = {
                    "batch_id": batch_id,
                    "offsets": offsets,
                    "lineage": self._coordinator.lineage,
                    "sources": numbers_for(offsets, self._inputs.source_numbers),
                }
                topics = self._inputs.positions.topics(offsets)
                if topics:
                    spark["topics"] = topics

                def with_batch(splits: EpochInput) -> EpochInput:
                    return self._with_logs(self._inputs.epoch_input(batch, spark, splits))

                manifest = self._committed(self._loop.step(with_batch))
                self._positions = spark
                self._inputs.batch_limit.adapt()
                self._inputs.positions.committed(offsets, checkpoint=manifest.slot in manifest.checkpoints)
        except BaseException as error:
            if not self._over:
                self.error = error
            # Spark matches the error against a regular expression, whose stack overflows on a long text.
            raise RuntimeError("the epoch failed; the job raises the original error") from None
