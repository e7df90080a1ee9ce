"""Event-time windows and the interval join as Tidemill programs. The number of a record determines its time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tidemill.common import Duration, Types, WatermarkStrategy
from tidemill.common.watermark_strategy import TimestampAssigner
from tidemill.datastream import AggregateFunction, DataStream
from tidemill.datastream.functions import ProcessJoinFunction
from tidemill.datastream.window import EventTimeSessionWindows, SlidingEventTimeWindows, TumblingEventTimeWindows

#: Ten records per millisecond: with 1 000 keys a window of 10 s has about 100 records of each.
RECORDS_PER_MS = 10
WINDOW_MS = 10_000
NUMBERED = Types.TUPLE([Types.LONG(), Types.LONG()])


class FromNumber(TimestampAssigner):
    """Derives the timestamp of a record from its number."""

    def extract_timestamp(self, value: tuple[int, int], record_timestamp: int) -> int:
        return value[1] // RECORDS_PER_MS


class CountAndSum(AggregateFunction):
    """Computes the number of records, and the sum of their numbers."""

    def create_accumulator(self) -> tuple[int, int]:
        return 0, 0

    def add(self, value: tuple[int, int], accumulator: tuple[int, int]) -> tuple[int, int]:
        return accumulator[0] + 1, accumulator[1] + value[1]

    def get_result(self, accumulator: tuple[int, int]) -> tuple[int, int]:
        return accumulator

    def merge(self, acc_a: tuple[int, int], acc_b: tuple[int, int]) -> tuple[int, int]:
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


class Pair(ProcessJoinFunction):
    """Emits the numbers of two records that are close in time."""

    def process_element(
        self, left: tuple[int, int], right: tuple[int, int], ctx: ProcessJoinFunction.Context
    ) -> Iterator[tuple[int, int]]:
        yield left[1], right[1]


def stamped(stream: DataStream) -> DataStream:
    """Assign event time to a stream."""
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(FromNumber())
    return stream.assign_timestamps_and_watermarks(strategy)


def tumbling(stream: DataStream) -> DataStream:
    """Count and sum per key in windows of 10 s."""
    windows = TumblingEventTimeWindows.of(Duration.of_millis(WINDOW_MS))
    return stamped(stream).key_by(0).window(windows).aggregate(CountAndSum())


def sliding(stream: DataStream) -> DataStream:
    """The same aggregation over sliding windows, ten of which overlap."""
    windows = SlidingEventTimeWindows.of(Duration.of_millis(WINDOW_MS), Duration.of_millis(WINDOW_MS // 10))
    return stamped(stream).key_by(0).window(windows).aggregate(CountAndSum())


def sessions(stream: DataStream) -> DataStream:
    """The same aggregation over sessions with a gap of 400 ms. Records of a key are 100 ms apart on average."""
    windows = EventTimeSessionWindows.with_gap(Duration.of_millis(400))
    return stamped(stream).key_by(0).window(windows).aggregate(CountAndSum())


def interval_join(stream: DataStream) -> DataStream:
    """Join records with even numbers to those with odd numbers and the same key that are at most 100 ms apart."""
    stream = stamped(stream)
    even = stream.filter(lambda value: value[1] % 2 == 0).key_by(0)
    odd = stream.filter(lambda value: value[1] % 2 == 1).key_by(0)
    near = Duration.of_millis(100)
    return even.interval_join(odd).between(Duration.of_millis(-100), near).process(Pair())


def by_columns(stream: DataStream) -> DataStream:
    """Count and sum (as their quotient) per key in windows of 10 s, with a built-in aggregate over columns."""
    windows = TumblingEventTimeWindows.of(Duration.of_millis(WINDOW_MS))
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_column(1, "us")
    timed = stream.map_batch(in_microseconds, NUMBERED, batch_format="arrow").assign_timestamps_and_watermarks(strategy)
    return timed.key_by(0).window(windows).avg(1)


def in_microseconds(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Turn the numbers of records into times: ten records per millisecond."""
    times = pc.multiply(batch.column(1), 1000 // RECORDS_PER_MS)
    return pa.RecordBatch.from_arrays([batch.column(0), times], names=batch.schema.names)


WINDOW_JOBS: dict[str, Callable[[DataStream], DataStream]] = {
    "tumbling windows": tumbling,
    "tumbling windows, built-in aggregate over columns": by_columns,
    "sliding windows, 10 overlaps": sliding,
    "session windows": sessions,
    "interval join": interval_join,
}


def window_rows(rows: list[tuple[int, int]], state: dict[Any, Any]) -> list[Any]:
    """The hand-written job: count and sum per key and window in a dict. Windows that have passed are removed."""
    windows = state.setdefault("windows", {})
    for key, number in rows:
        start = number // RECORDS_PER_MS // WINDOW_MS
        of_window = windows.get(start)
        if of_window is None:
            of_window = windows[start] = {}
        count, total = of_window.get(key, (0, 0))
        of_window[key] = (count + 1, total + number)
    # Another task may read half of the epoch, and its records arrive later.
    last = max(windows, default=0) - 20
    return [result for start in sorted(windows) if start < last for result in windows.pop(start).values()]
