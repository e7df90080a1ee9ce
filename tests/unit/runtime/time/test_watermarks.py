"""The clock over the partitions of a source."""

from __future__ import annotations

from tidemill.common import Watermark, WatermarkStrategy
from tidemill.runtime.batch.records import MIN_TIME
from tidemill.runtime.time.watermarks import Timekeeper


def two_partitions(first: int, second: int) -> Timekeeper:
    time = Timekeeper(WatermarkStrategy.for_monotonous_timestamps(), lambda: 0)
    for name, watermark in (("first", first), ("second", second)):
        time.partition(name).emit_watermark(Watermark(watermark))
    return time


def test_the_slowest_partition_holds_time_back() -> None:
    assert two_partitions(20, 5).combine() == 5


def test_a_partition_that_was_idle_counts_at_once_when_it_is_back() -> None:
    time = two_partitions(20, 5)
    time.partition("second").mark_idle()
    assert time.combine() == 20
    time.partition("second").mark_active()
    time.partition("first").emit_watermark(Watermark(30))
    assert time.combine() is None
    time.partition("second").emit_watermark(Watermark(25))
    assert time.combine() == 25


def test_where_all_partitions_are_idle_the_greatest_time_counts() -> None:
    time = two_partitions(20, 5)
    assert time.combine() == 5
    time.partition("first").mark_idle()
    assert time.combine() is None
    time.partition("second").mark_idle()
    assert time.combine() == 20
    assert time.idle


def test_who_has_no_partition_is_idle_without_a_time() -> None:
    time = Timekeeper(WatermarkStrategy.for_monotonous_timestamps(), lambda: 0)
    assert time.combine() is None
    assert (time.idle, time.watermark) == (True, MIN_TIME)
