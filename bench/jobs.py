"""The benchmark jobs as Tidemill programs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from bench.measure import Measurement, of_epochs
from tidemill.common import Configuration, Types
from tidemill.common.watermark_strategy import WatermarkStrategy
from tidemill.connectors.sinks import Sink, SinkWriter
from tidemill.connectors.sources import Source
from tidemill.datastream import DataStream, StreamExecutionEnvironment
from tidemill.datastream.functions import KeyedProcessFunction
from tidemill.datastream.state import ValueState, ValueStateDescriptor
from tidemill.runtime.observe.epoch_stats import EpochStats


class DiscardingWriter(SinkWriter):
    """Counts records, and discards them."""

    def __init__(self) -> None:
        self.records = 0

    def write(self, values: list[Any], timestamps: list[int] | None) -> None:
        self.records += len(values)

    def write_columns(self, columns: pa.RecordBatch, timestamps: pa.Int64Array | None) -> bool:
        self.records += columns.num_rows
        return True


class DiscardingSink(Sink):
    """Discards all records."""

    guarantee = "exactly-once"
    takes_columns = True

    def create_writer(self, subtask: int, parallelism: int) -> SinkWriter:
        return DiscardingWriter()


class Count(KeyedProcessFunction):
    """Counts records per key in one ValueState, and emits the count for each record."""

    seen: ValueState[int]

    def open(self, runtime_context: Any) -> None:
        self.seen = runtime_context.get_state(ValueStateDescriptor("seen", Types.LONG()))

    def process_element(self, value: tuple[int, int], ctx: KeyedProcessFunction.Context) -> Iterator[tuple[int, int]]:
        count = (self.seen.value() or 0) + 1
        self.seen.update(count)
        yield value[0], count


def keyed_count(stream: DataStream) -> DataStream:
    """A stateful process function after one exchange."""
    return stream.key_by(0).process(Count())


def rolling_reduce(stream: DataStream) -> DataStream:
    """A rolling reduce after one exchange."""
    return stream.key_by(0).reduce(lambda a, b: (a[0], a[1] + b[1]))


def map_filter(stream: DataStream) -> DataStream:
    """A stateless job, without an exchange."""
    return stream.map(lambda v: (v[0], v[1] * 3 + 1)).filter(lambda v: v[1] % 2 == 0)


def two_exchanges(stream: DataStream) -> DataStream:
    """Two consecutive keyed counts. The second counts the results of the first."""
    return stream.key_by(0).process(Count()).key_by(1).process(Count())


def rolling_sum(stream: DataStream) -> DataStream:
    """A built-in rolling sum after one exchange: by columns."""
    return stream.key_by(0).sum(1)


JOBS: dict[str, Callable[[DataStream], DataStream]] = {
    "keyed count": keyed_count,
    "rolling reduce": rolling_reduce,
    "rolling sum": rolling_sum,
    "map + filter": map_filter,
    "two exchanges": two_exchanges,
}


def run_job(
    source: Source, build: Callable[[DataStream], DataStream], per_epoch: int, backend: str = "hashmap"
) -> list[EpochStats]:
    """Run one job over a source in the active session, and return its epochs."""
    configuration = Configuration()
    configuration.set_string("state.backend.type", backend)
    configuration.set_string("execution.epoch.max-records", str(per_epoch))
    configuration.set_string("execution.epoch.max-duration", "0 ms")  # the comparison needs epochs of equal size
    environment = StreamExecutionEnvironment.get_execution_environment(configuration)
    stream = environment.from_source(source, WatermarkStrategy.no_watermarks(), "input")
    build(stream).sink_to(DiscardingSink())
    client: Any = environment.execute_async("bench")
    client.get_job_execution_result().result()
    epochs: list[EpochStats] = client.epochs
    return epochs


def measure_job(
    case: str,
    source: Source,
    build: Callable[[DataStream], DataStream],
    per_epoch: int,
    *,
    backend: str = "hashmap",
) -> Measurement:
    """Run one job, and summarize its epochs."""
    epochs = run_job(source, build, per_epoch, backend)
    return of_epochs(
        case,
        "tidemill",
        [epoch.records_in for epoch in epochs],
        [epoch.seconds for epoch in epochs],
        delta_bytes=epochs[-2 if len(epochs) > 1 else -1].delta_bytes,  # the last epoch may have few records
    )
