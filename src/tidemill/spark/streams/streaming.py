"""Unbounded jobs: epochs inside one Structured Streaming query, so that every Spark source works.

Spark logs the offsets of a batch, then calls us with it; our manifest, which holds the batch id and a copy of those
offsets, is what decides whether the batch counts. Each lineage has a Spark checkpoint location of its own, built from
the last one up to the committed batch: a former driver that still runs cannot write into it. A batch that Spark replays
is skipped if the head manifest has it.

Spark calls only when there is input. Where a processing-time timer is due and no batch is running, an epoch without
input runs between two batches; its manifest repeats the positions of the last batch (docs/decisions/0008).
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
from tidemill.spark.frames.event_time import has_event_time, with_files
from tidemill.spark.frames.frames import arrow_schema, combine
from tidemill.spark.frames.source_reader import SourceReader
from tidemill.spark.frames.stateless import check_stateless
from tidemill.spark.jobs.engine import SourceFrames
from tidemill.spark.locations.job_locations import SparkLocations
from tidemill.spark.locations.locations import layout_of, source_layout, take_over
from tidemill.spark.session.failures import summary
from tidemill.spark.streams.batch_limit import BatchLimit
from tidemill.spark.streams.progress import SourceLag
from tidemill.spark.streams.query_positions import QueryPositions

#: How often the job is looked at between batches: how late a processing-time timer can be.
_POLL_SECONDS: Final = 0.05


class StreamingInput:
    """The streaming sources of a job as one frame, beside its split sources."""

    def __init__(
        self,
        session: SparkSession,
        launch: Launch,
        readers: Mapping[int, SourceReader[Any]],
        positioned: Collection[str],
        limit: EpochLimit,
    ) -> None:
        """``readers`` are those of the sources that the query reads, by chain; ``positioned`` are the uids of those
        that the job has a position for."""
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
        self.layout = source_layout(self.frame, {uids[chain]: frame for chain, frame in self._frames.items()})
        self._combined_schema: bytes | None = None
        if len(self._frames) > 1:
            self._combined_schema = arrow_schema(self.frame).serialize().to_pybytes()
        trackers = {uids[chain]: reader.tracker(session) for chain, reader in readers.items()}
        self.positions = QueryPositions({uid: one for uid, one in trackers.items() if one is not None}, self.layout)
        self.batch_limit = BatchLimit(session, limit, {uids[chain]: reader for chain, reader in readers.items()})

    def schemas(self) -> dict[int, bytes]:
        """The Arrow schema of each source, for the workers."""
        return {chain: arrow_schema(frame).serialize().to_pybytes() for chain, frame in self._frames.items()}

    def _batch(self, rdd: Any) -> SourceFrames:
        """A batch of all sources; with more than one, its rows are combined."""
        return SourceFrames(rdd, tuple(self._frames), self._combined_schema)

    def epoch_input(self, batch: DataFrame, spark: dict[str, Any], splits: EpochInput) -> EpochInput:
        """The input of the epoch that processes a batch: each partition is read by a subtask of every source."""
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
        """The input of an epoch between two batches, at the positions of the last one. With ``last`` the job ends."""
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

    ``open_input`` makes the input that is read beside it, from what :class:`SplitInput` takes; ``elsewhere`` are the
    uids of sources that had a position in the query and have it there now.
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
    watched = sorted(inputs.layout.keys() & {uid for uid, at in coordinator.head.sources.items() if is_of_files(at)})
    if watched:
        raise GraphError(
            f"the source with uid {watched[0]!r} was stored with the position of watched files, and is now a stream of "
            "Spark's: give the new source another uid"
        )
    locations.bring(coordinator.lineage, restored)
    positions = take_over(
        locations.directory,
        coordinator.lineage,
        restored,
        inputs.layout,
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
    """Have Spark hand over batches until the query ends; between them, run the epochs that are due without one."""
    writer = (
        inputs.frame.writeStream.foreachBatch(batches)
        .option("checkpointLocation", f"file://{batches.location}")
        .queryName(f"tidemill-{inputs.launch.job_id}-{batches.lineage}")
    )
    if batches.pause:
        writer = writer.trigger(processingTime=f"{1000 * batches.pause:.0f} milliseconds")
    query = writer.start()
    inputs.batch_limit.attach(query, inputs.layout)
    lag = SourceLag(query, inputs.layout, batches.note_pending)
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
    """Called by Spark with each batch."""

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
        """``positions`` are Spark's as of the head manifest, for the query as it is now."""
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
        """Run an epoch if one is due, unless a batch is being processed, which does as well."""

        def run() -> None:
            if self._loop.due():
                self._committed(self._loop.step(self._without_batch))

        if self._loop.seconds_to_rest <= 0 and self._loop.due():
            self._between_batches(run)

    def keep_beginning(self) -> None:
        """Have it stored where the sources begin as soon as they know: it may be long until there is something to read.

        A source that begins at the end of a topic would begin elsewhere under the next driver.
        """
        if self._positions is None:
            self._between_batches(self._keep_location)

    def check_owner(self) -> None:
        """Find out if the job is another driver's by now."""
        self._between_batches(self._coordinator.check_owner)

    def _between_batches(self, act: Callable[[], object]) -> None:
        """Do something unless a batch is being processed; what it raises ends the job."""
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
        """Begin the savepoints that are asked for, once no batch is being processed; whether the job is over with one.

        Not to be called by Spark's own thread, which a cancelled query waits for.
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
        """The input of an epoch whose manifest names this lineage's location and records its logs."""
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
                    raise RuntimeError("nothing runs after the savepoint that a job ends with")
                self._stop.check()
                if self.error is not None:
                    raise self.error  # an epoch between the batches has failed: Spark must not take this one as done
                offsets = (self.location / "offsets" / str(batch_id)).read_text(encoding="utf-8")
                if should_skip(replace(self._coordinator.head, spark=self._positions), batch_id, offsets):
                    return
                spark = {
                    "batch_id": batch_id,
                    "offsets": offsets,
                    "lineage": self._coordinator.lineage,
                    "sources": layout_of(offsets, self._inputs.layout),
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
            # Spark matches what we raise against a regular expression that overflows its stack on a long text.
            raise RuntimeError("the epoch failed; its own error is raised by the job") from None
