"""The keyed count with Spark's own stateful operator, ``transformWithState``, as a query over the same files."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import Row, SparkSession
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from bench.measure import Measurement, of_epochs

_PROVIDER = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


class CountProcessor(StatefulProcessor):
    """Counts records per key in one ValueState, and emits the count for each record."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._seen = handle.getValueState("seen", "n long")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803
        before = self._seen.get()
        count = 0 if before is None else before[0]
        for _ in rows:
            count += 1
            yield Row(k=key[0], n=count)
        self._seen.update((count,))

    def close(self) -> None:
        """Nothing to release."""


def measure_transform_with_state(session: SparkSession, case: str, directory: Path, partitions: int) -> Measurement:
    """Read all files, one per micro-batch. The measured time is the duration of each batch."""
    session.conf.set("spark.sql.streaming.stateStore.providerClass", _PROVIDER)
    session.conf.set("spark.sql.shuffle.partitions", str(partitions))
    checkpoint = tempfile.mkdtemp(prefix="tidemill-bench-")
    frame = (
        session.readStream.schema("k long, v long")
        .option("maxFilesPerTrigger", 1)
        .parquet(str(directory))
        .groupBy("k")
        .transformWithState(CountProcessor(), "k long, n long", "Update", "None")
    )
    query = (
        frame.writeStream.format("noop")
        .outputMode("update")
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    try:
        query.awaitTermination()
        progress = [p for p in query.recentProgress if p["numInputRows"] > 0]
    finally:
        query.stop()
        shutil.rmtree(checkpoint, ignore_errors=True)
    return of_epochs(
        case,
        "transformWithState",
        [p["numInputRows"] for p in progress],
        [p["durationMs"]["triggerExecution"] / 1000 for p in progress],
    )
