"""Watermark strategies and generators, with Flink's semantics."""

from __future__ import annotations

import pickle
from functools import partial
from typing import Any

import pytest

from tidemill.common import Duration, Watermark, WatermarkGenerator, WatermarkOutput, WatermarkStrategy
from tidemill.common.constants import MAX_LONG_VALUE, MIN_LONG_VALUE
from tidemill.common.watermark_strategy import (
    AssignerWithPeriodicWatermarksWrapper,
    BoundedOutOfOrdernessWatermarks,
    TimestampAssigner,
    WatermarkAlignment,
)


class Recorder(WatermarkOutput):
    def __init__(self) -> None:
        self.seen: list[int | str] = []

    def emit_watermark(self, watermark: Watermark) -> None:
        self.seen.append(watermark.timestamp)

    def mark_idle(self) -> None:
        self.seen.append("idle")

    def mark_active(self) -> None:
        self.seen.append("active")


class OnMarker(WatermarkGenerator):
    def on_event(self, event: Any, event_timestamp: int, output: WatermarkOutput) -> None:
        if event == "marker":
            output.emit_watermark(Watermark(event_timestamp))

    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        pass


class OfPair(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return int(value[1])


def emitted(generator: WatermarkGenerator, timestamps: list[int]) -> list[int | str]:
    output = Recorder()
    for timestamp in timestamps:
        generator.on_event(None, timestamp, output)
        generator.on_periodic_emit(output)
    return output.seen


def test_bounded_out_of_orderness_lags_by_the_bound_and_one() -> None:
    generator = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(5)).create_watermark_generator()
    assert emitted(generator, [10, 7, 20, 3]) == [4, 4, 14, 14]


def test_monotonous_lags_by_one() -> None:
    generator = WatermarkStrategy.for_monotonous_timestamps().create_watermark_generator()
    assert emitted(generator, [10, 20]) == [9, 19]


def test_the_first_watermark_is_the_least_and_does_not_underflow() -> None:
    for bound in (0, 5, 10**12):
        output = Recorder()
        BoundedOutOfOrdernessWatermarks(bound).on_periodic_emit(output)
        assert output.seen == [MIN_LONG_VALUE]


def test_no_watermarks() -> None:
    assert emitted(WatermarkStrategy.no_watermarks().create_watermark_generator(), [1, 2]) == []


@pytest.mark.parametrize(
    "strategy",
    [
        WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(2)),
        WatermarkStrategy.for_monotonous_timestamps(),
        WatermarkStrategy.no_watermarks(),
        WatermarkStrategy.for_generator(OnMarker),
        WatermarkStrategy.for_monotonous_timestamps().with_idleness(10),
    ],
)
def test_a_batch_does_what_its_records_do(strategy: WatermarkStrategy) -> None:
    events, timestamps = ["a", "marker", "b", "marker"], [5, 9, 2, 4]
    one_by_one, at_once = Recorder(), Recorder()
    generator, other = strategy.create_watermark_generator(), strategy.create_watermark_generator()
    for event, timestamp in zip(events, timestamps, strict=True):
        generator.on_event(event, timestamp, one_by_one)
    other.on_batch(events, timestamps, at_once)
    other.on_batch([], [], at_once)
    generator.on_periodic_emit(one_by_one)
    other.on_periodic_emit(at_once)
    assert at_once.seen == one_by_one.seen
    assert generator.emits_on_event or one_by_one.seen[:-1] == []


@pytest.mark.parametrize("supplier", [OnMarker, partial(OnMarker), lambda ctx: OnMarker()])
def test_generators_of_the_user(supplier: Any) -> None:
    strategy = WatermarkStrategy.for_generator(supplier)
    first, second = strategy.create_watermark_generator(), strategy.create_watermark_generator()
    assert isinstance(first, OnMarker)
    assert first is not second, "each split has its own"


def test_what_is_no_generator_is_refused() -> None:
    with pytest.raises(TypeError, match="for_generator"):
        WatermarkStrategy.for_generator(OnMarker())  # type: ignore[arg-type]
    strategy = WatermarkStrategy.for_generator(lambda: 5)  # type: ignore[arg-type, return-value]
    with pytest.raises(TypeError, match="not a WatermarkGenerator"):
        strategy.create_watermark_generator()


def test_idleness_is_marked_once_and_ends_with_a_record() -> None:
    now = 0
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_idleness(Duration.of_millis(100))
    generator = strategy.create_watermark_generator(lambda: now)
    output = Recorder()
    generator.on_event(None, 10, output)
    generator.on_periodic_emit(output)  # saw a record
    generator.on_periodic_emit(output)  # first without: the time starts here
    now = 100
    generator.on_periodic_emit(output)  # not longer than the timeout
    assert output.seen == [9, 9, 9]
    now = 101
    generator.on_periodic_emit(output)
    generator.on_periodic_emit(output)
    assert output.seen == [9, 9, 9, "idle"]
    generator.on_batch([None], [20], output)
    generator.on_periodic_emit(output)
    assert output.seen == [9, 9, 9, "idle", 19]
    now = 250
    generator.on_periodic_emit(output)
    now = 351
    generator.on_periodic_emit(output)
    assert output.seen == [9, 9, 9, "idle", 19, 19, "idle"]


def test_each_with_keeps_the_others() -> None:
    base = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(1))
    full = (
        base.with_timestamp_assigner(OfPair())
        .with_watermark_alignment("g", Duration.of_seconds(20))
        .with_idleness(Duration.of_minutes(1))
    )
    assert isinstance(full.timestamp_assigner, OfPair)
    assert full.idle_timeout_millis == 60_000
    assert full.alignment == WatermarkAlignment("g", 20_000, 1000)
    assert base.timestamp_assigner is None
    assert base.idle_timeout_millis is None


def test_timestamps_from_objects_and_functions() -> None:
    base = WatermarkStrategy.no_watermarks()
    assert base.get_timestamp_extractor() is None
    for assigner in (OfPair(), lambda value, previous: value[1]):
        extract = base.with_timestamp_assigner(assigner).get_timestamp_extractor()
        assert extract is not None
        assert extract(("a", 7), -1) == 7
    for wrong in (5, OfPair):
        with pytest.raises(TypeError, match="not a TimestampAssigner"):
            base.with_timestamp_assigner(wrong)  # type: ignore[arg-type]


def test_built_in_strategies_compare_and_pickle() -> None:
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(1)).with_idleness(5)
    assert strategy == WatermarkStrategy.for_bounded_out_of_orderness(1000).with_idleness(5)
    assert pickle.loads(pickle.dumps(strategy)) == strategy


def test_impossible_lengths_are_refused() -> None:
    with pytest.raises(ValueError, match="negative"):
        WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(-1))
    with pytest.raises(ValueError, match="positive"):
        WatermarkStrategy.no_watermarks().with_idleness(0)


def test_watermarks_are_ordered() -> None:
    assert Watermark.UNINITIALIZED < Watermark(0) < Watermark.MAX_WATERMARK
    assert Watermark.MAX_WATERMARK.get_timestamp() == MAX_LONG_VALUE


def test_an_assigner_of_the_older_interface() -> None:
    class Periodic:
        newest = 0

        def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
            self.newest = max(self.newest, value)
            return int(value)

        def get_current_watermark(self) -> int | None:
            return self.newest - 1 if self.newest else None

    strategy = AssignerWithPeriodicWatermarksWrapper(Periodic()).to_watermark_strategy()
    generator, extract, output = strategy.create_watermark_generator(), strategy.get_timestamp_extractor(), Recorder()
    assert extract is not None
    generator.on_periodic_emit(output)
    assert extract(7, -1) == 7
    generator.on_periodic_emit(output)
    assert output.seen == [6]
