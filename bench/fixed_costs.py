"""The cost of an epoch without records, compared with an empty Spark job of the same shape."""

from __future__ import annotations

import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from bench.jobs import DiscardingSink, keyed_count
from bench.measure import Measurement
from tidemill.common import Configuration, Types
from tidemill.common.watermark_strategy import WatermarkStrategy
from tidemill.connectors.sources import Position, RecordBatch, Split, SplitEnumerator, SplitSource
from tidemill.datastream import StreamExecutionEnvironment

EPOCHS = 60
_TYPE = Types.TUPLE([Types.LONG(), Types.LONG()])


class EmptySource(SplitSource):
    """Produces ``epochs`` epochs without any records."""

    def __init__(self, epochs: int) -> None:
        self.epochs = epochs

    def create_enumerator(self, position: Position | None) -> SplitEnumerator:
        return _EmptyEnumerator(self.epochs, position or 0)

    def read(self, split: Split) -> Iterator[RecordBatch]:
        yield RecordBatch([])


class _EmptyEnumerator(SplitEnumerator):
    def __init__(self, epochs: int, done: int) -> None:
        self._epochs = epochs
        self._done = done

    def next_splits(self, parallelism: int, max_records: int) -> Sequence[Split]:
        self._done += 1
        return [Split(None, 0)]

    def position(self) -> Position:
        return self._done

    @property
    def finished(self) -> bool:
        return self._done >= self._epochs


def _summary(case: str, contender: str, seconds: list[float]) -> Measurement:
    steady = seconds[len(seconds) // 3 :]
    return Measurement(case, contender, 0.0, statistics.median(steady), {"epochs": len(seconds)})


def measure_empty_epochs(checkpoints: Path | None) -> Measurement:
    """Run a two-level job with empty bounded input, with durable checkpoints if a directory is given."""
    configuration = Configuration()
    if checkpoints is not None:
        configuration.set_string("execution.checkpointing.dir", str(checkpoints))
    environment = StreamExecutionEnvironment.get_execution_environment(configuration)
    stream = environment.from_source(EmptySource(EPOCHS), WatermarkStrategy.no_watermarks(), "nothing")
    keyed_count(stream).sink_to(DiscardingSink())
    client: Any = environment.execute_async("empty")
    client.get_job_execution_result().result()
    return _summary("empty epoch", "tidemill", [epoch.seconds for epoch in client.epochs])


def measure_empty_jobs(session: SparkSession, partitions: int) -> Measurement:
    """Run an empty two-stage RDD job: the time that Spark itself needs for that shape."""
    context = session.sparkContext

    def first(split: int, items: Any) -> Iterator[tuple[int, bytes]]:
        yield split, b""

    def second(items: Any) -> Iterator[int]:
        yield len(list(items))

    seconds = []
    for _ in range(EPOCHS):
        started = time.perf_counter()
        source = context.parallelize([b""] * partitions, partitions).mapPartitionsWithIndex(first)
        source.partitionBy(partitions).mapPartitions(second).collect()
        seconds.append(time.perf_counter() - started)
    return _summary("empty epoch", "by hand", seconds)


def write_tiny_files(directory: Path, count: int) -> Path:
    """Write files with one row each, for a stream whose batches contain almost nothing."""
    directory.mkdir(parents=True)
    for number in range(count):
        (directory / f"{number:04d}.csv").write_text(f"{number},1\n", encoding="utf-8")
    return directory


def _stream(session: SparkSession, directory: Path) -> DataFrame:
    return session.readStream.schema("k long, v long").option("maxFilesPerTrigger", 1).csv(str(directory))


def measure_empty_batches(session: SparkSession, directory: Path, partitions: int, batches: int) -> Measurement:
    """Run ``foreachBatch`` with an empty two-stage job."""

    def first(split: int, items: Any) -> Iterator[tuple[int, bytes]]:
        yield split, b""

    def second(items: Any) -> Iterator[int]:
        yield len(list(items))

    def run(batch: DataFrame, number: int) -> None:
        batch.rdd.mapPartitionsWithIndex(first).partitionBy(partitions).mapPartitions(second).collect()

    checkpoint = tempfile.mkdtemp(prefix="tidemill-bench-")
    query = (
        _stream(session, directory)
        .writeStream.foreachBatch(run)
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    try:
        query.awaitTermination()
        seconds = [p["durationMs"]["triggerExecution"] / 1000 for p in query.recentProgress if p["numInputRows"] > 0]
    finally:
        query.stop()
        shutil.rmtree(checkpoint, ignore_errors=True)
    return _summary("empty foreachBatch", "by hand", seconds[:batches])


def measure_empty_stream_epochs(session: SparkSession, directory: Path, batches: int) -> Measurement:
    """Run the same stream as a Tidemill job."""
    environment = StreamExecutionEnvironment.get_execution_environment(Configuration())
    keyed_count(environment.from_dataframe(_stream(session, directory), _TYPE)).sink_to(DiscardingSink())
    client: Any = environment.execute_async("empty stream")
    deadline = time.monotonic() + 120
    while len(client.epochs) < batches and time.monotonic() < deadline:
        time.sleep(0.05)
    progress: list[Any] = [p for q in session.streams.active for p in q.recentProgress]
    client.cancel().result(60)
    seconds = [p["durationMs"]["triggerExecution"] / 1000 for p in progress if p["numInputRows"] > 0]
    return _summary("empty foreachBatch", "tidemill", seconds[:batches])
