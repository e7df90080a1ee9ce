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
from collections.abc import Collection
from dataclasses import replace
from typing import Any, Final

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from tidemill.checkpoint.model import Manifest
from tidemill.checkpoint.names import spark_location
from tidemill.checkpoint.protocol import should_skip
from tidemill.common.configuration import Configuration
from tidemill.config import ExecutionOptions, StateRecoveryOptions
from tidemill.datastream.connectors.kafka.source import KafkaSource
from tidemill.datastream.sources import Source
from tidemill.errors import JobExecutionError
from tidemill.runtime.coordinator import Coordinator
from tidemill.runtime.engine import EpochInput
from tidemill.runtime.job import StopSignal
from tidemill.runtime.launch import Launch
from tidemill.runtime.rescaling import JobParallelism
from tidemill.runtime.savepoints import Savepoints
from tidemill.runtime.split_input import SplitInput
from tidemill.spark.engine import Frames
from tidemill.spark.event_time import has_event_time, with_files
from tidemill.spark.failures import summary
from tidemill.spark.frames import arrow_schema, combine, frame_of
from tidemill.spark.job_locations import SparkLocations
from tidemill.spark.kafka import KafkaPositions
from tidemill.spark.locations import layout_of, source_layout, take_over
from tidemill.spark.progress import SourceLag
from tidemill.spark.stateless import check_stateless

#: How often the job is looked at between batches: how late a processing-time timer can be.
_POLL_SECONDS: Final = 0.05


class StreamingInput:
    """The streaming sources of a job as one frame, beside its split sources."""

    def __init__(
        self, session: SparkSession, launch: Launch, sources: dict[int, Source], positioned: Collection[str]
    ) -> None:
        """``sources`` maps chains to the program's unbounded Spark sources, ``positioned`` are the uids of those that
        the job has a position for."""
        self.launch = launch
        self.configuration: Configuration = launch.configuration
        limit = self.configuration.get(ExecutionOptions.EPOCH_MAX_RECORDS)
        uids = {chain: launch.plan.chains[chain].head.uid for chain in sources}
        self._frames = {
            chain: frame_of(session, source, limit, resuming=uids[chain] in positioned)
            for chain, source in sources.items()
        }
        for chain, source in sources.items():
            check_stateless(self._frames[chain], uids[chain])
            if not isinstance(source, KafkaSource) and has_event_time(launch.plan.chains[chain], launch.operators):
                self._frames[chain] = with_files(self._frames[chain])
        self.frame = combine(self._frames)
        self.layout = source_layout(self.frame, {uids[chain]: frame for chain, frame in self._frames.items()})
        topics = {uids[chain]: source for chain, source in sources.items() if isinstance(source, KafkaSource)}
        self.kafka = KafkaPositions(session, topics, self.layout)

    def schemas(self) -> dict[int, bytes]:
        """The Arrow schema of each source, for the workers."""
        return {chain: arrow_schema(frame).serialize().to_pybytes() for chain, frame in self._frames.items()}

    def combined_schema(self) -> bytes | None:
        """The Arrow schema of the combined frame, where there is more than one source."""
        if len(self._frames) == 1:
            return None
        data: bytes = arrow_schema(self.frame).serialize().to_pybytes()
        return data

    def epoch_input(self, batch: DataFrame, spark: dict[str, Any], splits: EpochInput) -> EpochInput:
        """The input of the epoch that processes a batch: each partition is read by a subtask of every source."""
        rdd = batch._jdf.toArrowBatchRdd()
        partitions = rdd.getNumPartitions()
        return replace(
            splits,
            frames=Frames(rdd if partitions else None, tuple(self._frames)),
            partitions=dict.fromkeys(self._frames, partitions),
            spark=spark,
            last=False,
        )

    def no_input(self, spark: dict[str, Any] | None, splits: EpochInput, *, last: bool = False) -> EpochInput:
        """The input of an epoch between two batches, at the positions of the last one. With ``last`` the job ends."""
        return replace(
            splits,
            frames=Frames(None, tuple(self._frames)),
            partitions=dict.fromkeys(self._frames, 1),
            spark=spark,
            last=last,
        )


def run_streaming_job(
    inputs: StreamingInput,
    coordinator: Coordinator,
    parallelism: JobParallelism,
    savepoints: Savepoints,
    locations: SparkLocations,
    stop: StopSignal,
) -> None:
    """Run a streaming query from the last committed batch until it ends or the job is stopped."""
    with inputs.kafka.named_loss():
        _run_query(inputs, coordinator, parallelism, savepoints, locations, stop)


def _run_query(
    inputs: StreamingInput,
    coordinator: Coordinator,
    parallelism: JobParallelism,
    savepoints: Savepoints,
    locations: SparkLocations,
    stop: StopSignal,
) -> None:
    restored = coordinator.open()
    if restored is not None and restored.finished:
        return
    locations.bring(coordinator.lineage, restored)
    positions = take_over(
        locations.directory,
        coordinator.lineage,
        restored,
        inputs.layout,
        allow_non_restored=inputs.configuration.get(StateRecoveryOptions.IGNORE_UNCLAIMED_STATE),
        revise=inputs.kafka.revised,
    )
    callback = _Batches(inputs, coordinator, parallelism, savepoints, locations, positions, stop)
    query = (
        inputs.frame.writeStream.foreachBatch(callback)
        .option("checkpointLocation", f"file://{callback.location}")
        .queryName(f"tidemill-{inputs.launch.job_id}-{coordinator.lineage}")
        .start()
    )
    lag = SourceLag(query, inputs.layout, coordinator.note_pending)
    try:
        with stop.interrupting(query.stop):
            while not query.awaitTermination(_POLL_SECONDS):  # type: ignore[arg-type]
                if stop.is_set() or callback.error is not None:
                    break
                lag.look()
                if savepoints.pending and callback.take():
                    break
                callback.keep_beginning()
                if callback.due():
                    callback.run_without_input()
    except StreamingQueryException as error:
        if callback.error is not None:
            raise callback.error from None
        raise JobExecutionError(summary(error)) from error
    finally:
        query.stop()
        callback.close()
    if callback.error is not None:
        raise callback.error


class _Batches:
    """Called by Spark with each batch."""

    def __init__(
        self,
        inputs: StreamingInput,
        coordinator: Coordinator,
        parallelism: JobParallelism,
        savepoints: Savepoints,
        locations: SparkLocations,
        positions: dict[str, Any] | None,
        stop: StopSignal,
    ) -> None:
        """``positions`` are Spark's as of the head manifest, for the query as it is now."""
        self._inputs = inputs
        self._coordinator = coordinator
        self._locations = locations
        self._savepoints = savepoints
        self._positions = positions
        self._parallelism = parallelism
        self._stop = stop
        self._lock = threading.Lock()
        self._splits = SplitInput(
            inputs.launch.plan,
            inputs.launch.split_sources(),
            coordinator.head.sources,
            parallelism,
            inputs.configuration.get(ExecutionOptions.EPOCH_MAX_RECORDS),
        )
        self.location = locations.directory / spark_location(coordinator.lineage)
        self.error: BaseException | None = None
        self._over = False

    def due(self) -> bool:
        """Whether a timer, a rescale, or input of sources that are not Spark's waits for an epoch."""
        return self._coordinator.timer_due() or self._parallelism.pending or self._splits.available()

    def run_without_input(self) -> None:
        """Run an epoch that is due, unless a batch is being processed, which does as well."""
        if not self._lock.acquire(blocking=False):
            return
        try:
            if self.error is None and self.due():
                self._run_epoch(self._inputs.no_input(self._positions, self._splits.next_input()))
        except BaseException as error:
            self.error = error
        finally:
            self._lock.release()

    def keep_beginning(self) -> None:
        """Have it stored where the sources begin as soon as they know: it may be long until there is something to read.

        A source that begins at the end of a topic would begin elsewhere under the next driver.
        """
        if self._positions is not None or not self._lock.acquire(blocking=False):
            return
        try:
            if self.error is None:
                self._keep_location()
        except BaseException as error:
            self.error = error
        finally:
            self._lock.release()

    def take(self) -> bool:
        """Begin the savepoints that are asked for, once no batch is being processed; whether the job is over with one.

        Not to be called by Spark's own thread, which a cancelled query waits for.
        """
        cancelled = False

        def cancel() -> None:
            nonlocal cancelled
            cancelled = True

        with self._lock:
            try:
                if self.error is None:
                    self._over = self._savepoints.take(self._coordinator.manifests, self._drain, cancel)
            except BaseException as error:
                self.error = error
        if cancelled:
            self._stop.set()
        return self._over

    def _drain(self) -> None:
        self._run_epoch(self._inputs.no_input(self._positions, self._splits.end_of_input(), last=True))

    def _run_epoch(self, inputs: EpochInput) -> Manifest:
        """Run an epoch, whose manifest says that the job goes on from this lineage's location."""
        self._keep_location()
        manifest = self._coordinator.run_epoch(inputs)
        if not self._savepoints.pinned():
            self._locations.forget_superseded()
        return manifest

    def _keep_location(self) -> None:
        lineage, begun = self._coordinator.lineage, self._positions is not None
        self._coordinator.tolerating(lambda: self._locations.keep(lineage, begun=begun))

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
                topics = self._inputs.kafka.topics(offsets)
                if topics:
                    spark["topics"] = topics
                manifest = self._run_epoch(self._inputs.epoch_input(batch, spark, self._splits.next_input()))
                self._positions = spark
                self._inputs.kafka.committed(offsets, checkpoint=manifest.slot in manifest.checkpoints)
        except BaseException as error:
            if not self._over:
                self.error = error
            # Spark matches what we raise against a regular expression that overflows its stack on a long text.
            raise RuntimeError("the epoch failed; its own error is raised by the job") from None

    def close(self) -> None:
        self._splits.close()
