"""Unbounded jobs: epochs inside one Structured Streaming query, so that every Spark source works.

Spark logs the offsets of a batch, then calls us with it; our manifest, which holds the batch id and a copy of those
offsets, is what decides whether the batch counts. Each lineage has a Spark checkpoint location of its own, built from
the last one up to the committed batch: a former driver that still runs cannot write into it. A batch that Spark replays
is skipped if the head manifest has it.

Spark calls only when there is input. Where a processing-time timer is due and no batch is running, an epoch without
input runs between two batches; its manifest repeats the positions of the last batch (docs/decisions/0008).
"""

from __future__ import annotations

import shutil
import threading
from pathlib import Path
from typing import Any, Final

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from tidemill.checkpoint.model import Manifest
from tidemill.checkpoint.names import SPARK, lineage_slot, spark_location
from tidemill.checkpoint.protocol import should_skip
from tidemill.common.configuration import Configuration
from tidemill.config import ExecutionOptions
from tidemill.datastream.sources import Source
from tidemill.errors import JobExecutionError
from tidemill.runtime.coordinator import Coordinator, EpochInput
from tidemill.runtime.job import StopSignal
from tidemill.runtime.launch import Launch
from tidemill.runtime.rescaling import JobParallelism
from tidemill.runtime.split_input import SplitInput
from tidemill.spark.engine import Frames
from tidemill.spark.failures import summary
from tidemill.spark.frames import arrow_schema, combine, frame_of

#: How often the job is looked at between batches: how late a processing-time timer can be.
_POLL_SECONDS: Final = 0.05


class StreamingInput:
    """The streaming sources of a job as one frame, beside its split sources."""

    def __init__(self, session: SparkSession, launch: Launch, sources: dict[int, Source]) -> None:
        """``sources`` maps chains to the program's unbounded Spark sources."""
        self._session = session
        self.launch = launch
        self.configuration: Configuration = launch.configuration
        limit = self.configuration.get(ExecutionOptions.EPOCH_MAX_RECORDS)
        self._frames = {chain: frame_of(session, source, limit) for chain, source in sources.items()}
        self.frame = combine(self._frames)

    def schemas(self) -> dict[int, bytes]:
        """The Arrow schema of each source, for the workers."""
        return {
            chain: arrow_schema(self._session, frame).serialize().to_pybytes() for chain, frame in self._frames.items()
        }

    def combined_schema(self) -> bytes | None:
        """The Arrow schema of the combined frame, where there is more than one source."""
        if len(self._frames) == 1:
            return None
        data: bytes = arrow_schema(self._session, self.frame).serialize().to_pybytes()
        return data

    def epoch_input(self, batch: DataFrame, spark: dict[str, Any], splits: EpochInput) -> EpochInput:
        """The input of the epoch that processes a batch: each partition is read by a subtask of every source."""
        rdd = batch._jdf.toArrowBatchRdd()
        partitions = rdd.getNumPartitions()
        return EpochInput(
            splits=splits.splits,
            frames=Frames(rdd if partitions else None, tuple(self._frames)),
            partitions=dict.fromkeys(self._frames, partitions),
            positions=splits.positions,
            spark=spark,
            ended=splits.ended,
            read=splits.read,
        )

    def no_input(self, spark: dict[str, Any] | None, splits: EpochInput) -> EpochInput:
        """The input of an epoch between two batches, at the positions of the last one."""
        return EpochInput(
            splits=splits.splits,
            frames=Frames(None, tuple(self._frames)),
            partitions=dict.fromkeys(self._frames, 1),
            positions=splits.positions,
            spark=spark,
            ended=splits.ended,
            read=splits.read,
        )


def run_streaming_job(
    inputs: StreamingInput, coordinator: Coordinator, parallelism: JobParallelism, directory: Path, stop: StopSignal
) -> None:
    """Run a streaming query from the last committed batch until it ends or the job is stopped."""
    restored = coordinator.open()
    location = directory / spark_location(coordinator.lineage)
    before = former_location(directory, coordinator.lineage, restored)
    if before is not None:
        inherit_location(before, location, None if restored is None else restored.spark)
        forget_locations(directory, coordinator.lineage, before)
    callback = _Batches(inputs, coordinator, parallelism, location, stop)
    query = (
        inputs.frame.writeStream.foreachBatch(callback)
        .option("checkpointLocation", str(location))
        .queryName(f"tidemill-{inputs.launch.job_id}-{coordinator.lineage}")
        .start()
    )
    try:
        with stop.interrupting(query.stop):
            while not query.awaitTermination(_POLL_SECONDS):  # type: ignore[arg-type]
                if stop.is_set() or callback.error is not None:
                    break
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
        location: Path,
        stop: StopSignal,
    ) -> None:
        self._inputs = inputs
        self._coordinator = coordinator
        self._location = location
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
        self.error: BaseException | None = None

    def due(self) -> bool:
        """Whether a timer, a rescale, or input of sources that are not Spark's waits for an epoch."""
        return self._coordinator.timer_due() or self._parallelism.pending or self._splits.available()

    def run_without_input(self) -> None:
        """Run an epoch that is due, unless a batch is being processed, which does as well."""
        if not self._lock.acquire(blocking=False):
            return
        try:
            if self.error is None and self.due():
                self._coordinator.run_epoch(
                    self._inputs.no_input(self._coordinator.head.spark, self._splits.next_input())
                )
        except BaseException as error:
            self.error = error
        finally:
            self._lock.release()

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        try:
            with self._lock:
                self._stop.check()
                if self.error is not None:
                    raise self.error  # an epoch between the batches has failed: Spark must not take this one as done
                offsets = (self._location / "offsets" / str(batch_id)).read_text(encoding="utf-8")
                if should_skip(self._coordinator.head, batch_id, offsets):
                    return
                spark = {"batch_id": batch_id, "offsets": offsets, "lineage": self._coordinator.lineage}
                self._coordinator.run_epoch(self._inputs.epoch_input(batch, spark, self._splits.next_input()))
        except BaseException as error:
            self.error = error
            # Spark matches what we raise against a regular expression that overflows its stack on a long text.
            raise RuntimeError("the epoch failed; its own error is raised by the job") from None

    def close(self) -> None:
        self._splits.close()


def former_location(directory: Path, lineage: str, restored: Manifest | None) -> Path | None:
    """The Spark checkpoint location to go on from: that of the last committed batch.

    Where no batch has been committed yet, it is the newest one that an earlier lineage left: it knows where the sources
    began, and how the first batch was cut.
    """
    if restored is not None and restored.spark is not None:
        return directory / spark_location(restored.spark["lineage"])
    earlier = earlier_locations(directory, lineage)
    return earlier[-1] if earlier else None


def earlier_locations(directory: Path, lineage: str) -> list[Path]:
    """The Spark checkpoint locations of earlier lineages, oldest first; those of later ones are their drivers' own."""
    own = lineage_slot(lineage) or 0
    found = [
        (slot, location)
        for location in (directory / SPARK).glob("*")
        if (slot := lineage_slot(location.name)) is not None and slot < own
    ]
    return [location for _, location in sorted(found)]


def forget_locations(directory: Path, lineage: str, needed: Path) -> None:
    """Remove the Spark checkpoint locations of earlier lineages that no start can go back to.

    The one the head manifest was committed in stays until an epoch of the new lineage is committed.
    """
    for location in earlier_locations(directory, lineage):
        if location != needed:
            shutil.rmtree(location, ignore_errors=True)


def inherit_location(old: Path, new: Path, positions: dict[str, Any] | None) -> None:
    """Build a lineage's Spark checkpoint location from its predecessor's, up to the committed batch.

    Of a batch that was begun but not committed the offsets are taken over, so that it is cut where it was cut before:
    were they chosen anew, a job that fails again and again would get a larger batch each time. No commit is forged:
    where Spark had not logged the batch's commit it replays it, and the batch is skipped by its manifest.

    Sources' own logs are copied last: they are then at least as new as the offsets that refer to them, also if the
    predecessor still runs.
    """
    last = -1 if positions is None else int(positions["batch_id"])
    new.mkdir(parents=True, exist_ok=True)
    for name in ("metadata",):
        if (old / name).exists():
            shutil.copy2(old / name, new / name)
    for log, through in (("offsets", last + 1), ("commits", last)):
        (new / log).mkdir(exist_ok=True)
        for entry in (old / log).glob("[0-9]*"):
            if int(entry.name) <= through:
                shutil.copy2(entry, new / log / entry.name)
    if positions is not None:
        # The manifest's own copy is what counts, whatever Spark kept.
        (new / "offsets" / str(last)).write_text(positions["offsets"], encoding="utf-8")
    if (old / "sources").exists():
        shutil.copytree(old / "sources", new / "sources", dirs_exist_ok=True)
