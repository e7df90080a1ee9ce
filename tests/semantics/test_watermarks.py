"""Watermarks of one operator: every strategy, in band, record by record."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any

import pytest

from tests.semantics.partitions import MAX_TIME, MIN_TIME, EveryThird, OnMarker, TellTime
from tidemill.common import (
    AssignerWithPeriodicWatermarksWrapper,
    Duration,
    TimestampAssigner,
    Watermark,
    WatermarkGenerator,
    WatermarkOutput,
    WatermarkStrategy,
)
from tidemill.datastream import CoProcessFunction, DataStream, StreamExecutionEnvironment, TimeCharacteristic
from tidemill.datastream.program.ingestion_time import ingestion_time_strategy
from tidemill.errors import TidemillError
from tidemill.testing import JobHarness, OperatorHarness


class Second(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        time: int = value[1]
        return time


def stamped(strategy: WatermarkStrategy) -> WatermarkStrategy:
    return strategy.with_timestamp_assigner(Second())


def harness(strategy: WatermarkStrategy, **options: Any) -> OperatorHarness:
    return OperatorHarness(lambda stream: stream.assign_timestamps_and_watermarks(strategy), **options)


def is_idle(under_test: OperatorHarness) -> bool:
    return under_test.is_idle


def watermarks_of(strategy: WatermarkStrategy, *times: int) -> list[int]:
    with harness(stamped(strategy)) as under_test:
        for time in times:
            under_test.process(("a", time))
        return under_test.watermarks()


# --- the built-in strategies


@pytest.mark.parametrize(
    ("strategy", "times", "expected"),
    [
        (WatermarkStrategy.for_monotonous_timestamps(), [5], [4]),
        (WatermarkStrategy.for_monotonous_timestamps(), [5, 5, 7], [4, 6]),
        (WatermarkStrategy.for_monotonous_timestamps(), [7, 5, 6, 8], [6, 7]),
        (WatermarkStrategy.for_monotonous_timestamps(), [-10, -5], [-11, -6]),
        (WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(3)), [10], [6]),
        (WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(3)), [10, 8, 9, 12], [6, 8]),
        (WatermarkStrategy.for_bounded_out_of_orderness(0), [10, 11], [9, 10]),
        (WatermarkStrategy.for_bounded_out_of_orderness(3), [MIN_TIME], []),
        (WatermarkStrategy.no_watermarks(), [1, 2, 3], []),
        (WatermarkStrategy.for_generator(EveryThird), [1, 9, 5, 20, 21, 22], [9, 22]),
        (WatermarkStrategy.for_generator(lambda context: EveryThird()), [3, 2, 1], [3]),
    ],
)
def test_watermarks_follow_the_timestamps(strategy: WatermarkStrategy, times: list[int], expected: list[int]) -> None:
    assert watermarks_of(strategy, *times) == expected


def test_the_assigner_gives_the_timestamps() -> None:
    with harness(stamped(WatermarkStrategy.no_watermarks())) as under_test:
        under_test.process(("a", 5), timestamp=99)
        assert under_test.output_with_timestamps() == [(("a", 5), 5)]


def test_an_assigner_sees_the_timestamp_that_was_there() -> None:
    strategy = WatermarkStrategy.no_watermarks().with_timestamp_assigner(lambda value, before: before + 1)
    with harness(strategy) as under_test:
        under_test.process("a", timestamp=7)
        under_test.process("b")
        assert under_test.output_with_timestamps() == [("a", 8), ("b", MIN_TIME + 1)]


def test_without_an_assigner_timestamps_stay() -> None:
    with harness(WatermarkStrategy.for_monotonous_timestamps()) as under_test:
        under_test.process("a", timestamp=7)
        assert under_test.output_with_timestamps() == [("a", 7)]
        assert under_test.watermarks() == [6]


def test_the_watermarks_of_the_input_are_replaced() -> None:
    with harness(stamped(WatermarkStrategy.for_monotonous_timestamps())) as under_test:
        under_test.watermark(1000)
        under_test.process(("a", 5))
        assert under_test.watermarks() == [4]


def test_the_end_of_time_is_passed_on() -> None:
    with harness(WatermarkStrategy.no_watermarks()) as under_test:
        under_test.process("a")
        under_test.end_input()
        assert under_test.watermarks() == [MAX_TIME]


def test_a_second_assigner_takes_the_place_of_the_first() -> None:
    def twice(stream: DataStream) -> DataStream:
        first = stream.assign_timestamps_and_watermarks(stamped(WatermarkStrategy.for_monotonous_timestamps()))
        later = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda value, before: 10 * before)
        return first.assign_timestamps_and_watermarks(later)

    with OperatorHarness(twice) as under_test:
        under_test.process(("a", 5))
        assert under_test.output_with_timestamps() == [(("a", 5), 50)]
        assert under_test.watermarks() == [49]


def test_alignment_is_accepted_and_changes_nothing() -> None:
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_watermark_alignment("group", Duration.of_seconds(1))
    assert watermarks_of(strategy, 5, 6) == [4, 5]


# --- generators of one's own


def test_a_punctuated_watermark_counts_from_the_next_record_on() -> None:
    def timed(stream: DataStream) -> DataStream:
        strategy = stamped(WatermarkStrategy.for_generator(OnMarker))
        return stream.assign_timestamps_and_watermarks(strategy).process(TellTime())

    with JobHarness(lambda env, events: timed(events), inputs=["events"], parallelism=1) as job:
        job.epoch(events=[("a", 1), ("mark", 5), ("b", 2), ("mark", 3), ("c", 4), ("mark", 6), ("d", 9)])
        assert [(record[0], time) for record, _, time in job.output()] == [
            ("a", "min"),
            ("mark", "min"),
            ("b", 5),
            ("mark", 5),
            ("c", 5),
            ("mark", 5),
            ("d", 6),
        ]


def test_watermarks_that_go_back_are_ignored() -> None:
    with harness(stamped(WatermarkStrategy.for_generator(OnMarker))) as under_test:
        for time in (10, 5, 10, 11):
            under_test.process(("mark", time))
        assert under_test.watermarks() == [10, 11]


def test_a_periodic_generator_is_called_after_each_batch_and_when_time_passes() -> None:
    class Asked(WatermarkGenerator):
        def __init__(self) -> None:
            self.times = 0

        def on_event(self, event: Any, event_timestamp: int, output: WatermarkOutput) -> None:
            pass

        def on_periodic_emit(self, output: WatermarkOutput) -> None:
            self.times += 1
            output.emit_watermark(Watermark(self.times))

    with harness(WatermarkStrategy.for_generator(Asked)) as under_test:
        under_test.process("a")
        under_test.process("b")
        under_test.set_processing_time(200)
        under_test.checkpoint()
        assert under_test.watermarks() == [1, 2, 3, 4]


def test_a_generator_may_be_any_object_with_the_two_methods() -> None:
    class Duck:
        def on_event(self, event: Any, event_timestamp: int, output: WatermarkOutput) -> None:
            output.emit_watermark(Watermark(event_timestamp))

        def on_periodic_emit(self, output: WatermarkOutput) -> None:
            pass

    strategy = WatermarkStrategy.for_generator(Duck)  # type: ignore[arg-type]
    assert watermarks_of(strategy, 3, 4) == [3, 4]
    assert watermarks_of(strategy.with_idleness(10), 3, 4) == [3, 4]


class Older:
    """An assigner of Flink's older interface: lags two behind."""

    def __init__(self) -> None:
        self.greatest = 0

    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        self.greatest = max(self.greatest, value[1])
        time: int = value[1]
        return time

    def get_current_watermark(self) -> Watermark:
        return Watermark(self.greatest - 2)


def test_the_older_periodic_assigner() -> None:
    with harness(AssignerWithPeriodicWatermarksWrapper(Older()).to_watermark_strategy()) as under_test:
        under_test.process(("a", 5))
        under_test.process(("b", 4))
        under_test.process(("c", 9))
        assert under_test.watermarks() == [3, 7]


@pytest.mark.parametrize("method", ["on_event", "on_periodic_emit", "extract_timestamp", "create_watermark_generator"])
def test_what_the_users_code_raises_names_the_method(method: str) -> None:
    class Failing(WatermarkGenerator, TimestampAssigner):
        def on_event(self, event: Any, event_timestamp: int, output: WatermarkOutput) -> None:
            if method == "on_event":
                raise ValueError("no")

        def on_periodic_emit(self, output: WatermarkOutput) -> None:
            if method == "on_periodic_emit":
                raise ValueError("no")

        def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
            if method == "extract_timestamp":
                raise ValueError("no")
            return 0

    def supply() -> WatermarkGenerator:
        if method == "create_watermark_generator":
            raise ValueError("no")
        return Failing()

    strategy = WatermarkStrategy.for_generator(supply).with_timestamp_assigner(Failing())
    with pytest.raises(TidemillError, match=rf"{method}\(\) of operator"), harness(strategy) as under_test:
        under_test.process("a")


def test_with_an_interval_of_0_no_generator_is_called_periodically() -> None:
    def build(env: StreamExecutionEnvironment, events: DataStream) -> dict[str, DataStream]:
        env.get_config().set_auto_watermark_interval(0)
        periodic = stamped(WatermarkStrategy.for_monotonous_timestamps().with_idleness(1))
        punctuated = stamped(WatermarkStrategy.for_generator(OnMarker))
        return {
            "periodic": events.assign_timestamps_and_watermarks(periodic).uid("periodic").set_parallelism(1),
            "punctuated": events.assign_timestamps_and_watermarks(punctuated).uid("punctuated").set_parallelism(1),
        }

    with JobHarness(build, inputs=["events"]) as job:
        job.epoch(events=[("mark", 5), ("a", 7)])
        assert (job.head.watermarks["periodic"], job.head.watermarks["punctuated"]) == ((MIN_TIME,), (5,))
        assert job.head.next_timer is None


def test_time_moves_on_within_a_large_epoch() -> None:
    def build(env: StreamExecutionEnvironment, events: DataStream) -> DataStream:
        strategy = stamped(WatermarkStrategy.for_monotonous_timestamps())
        return events.assign_timestamps_and_watermarks(strategy).process(TellTime())

    with JobHarness(build, inputs=["events"], parallelism=1) as job:
        job.epoch(events=[("a", time) for time in range(20_000)])
        assert sorted({str(time) for _, _, time in job.output()}) == ["16382", "8190", "min"]


def test_in_batch_mode_time_does_not_move_until_the_end() -> None:
    with harness(
        stamped(WatermarkStrategy.for_monotonous_timestamps().with_idleness(1)), runtime_mode="BATCH"
    ) as under_test:
        under_test.process(("a", 5))
        under_test.set_processing_time(1000)
        assert (under_test.watermarks(), is_idle(under_test)) == ([], False)
        under_test.end_input()
        assert under_test.watermarks() == [MAX_TIME]


# --- idleness of one operator


def test_idle_after_longer_than_the_timeout_without_records() -> None:
    with harness(stamped(WatermarkStrategy.for_monotonous_timestamps().with_idleness(100))) as under_test:
        under_test.process(("a", 5))
        under_test.set_processing_time(10)  # the first look that sees no record
        under_test.set_processing_time(110)
        assert not is_idle(under_test)
        under_test.set_processing_time(111)
        assert is_idle(under_test)
        assert under_test.watermarks() == [4]


def test_a_record_ends_idleness() -> None:
    with harness(stamped(WatermarkStrategy.for_monotonous_timestamps().with_idleness(100))) as under_test:
        under_test.process(("a", 5))
        for now in (0, 101):
            under_test.set_processing_time(now)
        assert is_idle(under_test)
        under_test.process(("a", 3))
        assert not is_idle(under_test)
        assert under_test.watermarks() == [4]


def test_records_in_time_keep_it_active() -> None:
    with harness(stamped(WatermarkStrategy.for_monotonous_timestamps().with_idleness(100))) as under_test:
        for now in range(0, 1000, 90):
            under_test.set_processing_time(now)
            under_test.process(("a", now))
            assert not is_idle(under_test)


def test_idle_without_any_record() -> None:
    with harness(WatermarkStrategy.no_watermarks().with_idleness(100)) as under_test:
        under_test.set_processing_time(5)
        under_test.set_processing_time(105)
        assert not is_idle(under_test)
        under_test.set_processing_time(106)
        assert is_idle(under_test)


def test_a_generator_says_itself_that_it_is_idle_and_active() -> None:
    with harness(stamped(WatermarkStrategy.for_generator(OnMarker))) as under_test:
        under_test.process(("mark", 5))
        under_test.process(("idle", 6))
        assert is_idle(under_test)
        under_test.process(("a", 7))  # a record alone changes nothing
        assert is_idle(under_test)
        under_test.process(("active", 8))
        assert not is_idle(under_test)
        under_test.process(("idle", 9))
        under_test.process(("mark", 10))  # a watermark does
        assert not is_idle(under_test)
        assert under_test.watermarks() == [5, 10]


def test_the_end_of_time_ends_idleness() -> None:
    with harness(stamped(WatermarkStrategy.for_generator(OnMarker))) as under_test:
        under_test.process(("idle", 6))
        under_test.end_input()
        assert not is_idle(under_test)
        assert under_test.watermarks() == [MAX_TIME]


def test_idleness_of_the_input_is_not_passed_on() -> None:
    with harness(stamped(WatermarkStrategy.for_monotonous_timestamps())) as under_test:
        under_test.mark_idle()
        assert not is_idle(under_test)


# --- two inputs


class Both(CoProcessFunction):
    def process_element1(self, value: Any, ctx: CoProcessFunction.Context) -> Iterable[Any]:
        yield value, ctx.timer_service().current_watermark()

    process_element2 = process_element1


def test_the_slower_of_two_inputs_counts() -> None:
    with OperatorHarness(Both()) as under_test:
        under_test.watermark(10, stream=1)
        under_test.watermark(5, stream=2)
        under_test.watermark(20, stream=1)
        under_test.watermark(15, stream=2)
        under_test.watermark(12, stream=2)
        assert under_test.watermarks() == [5, 15]


def test_an_idle_input_is_not_waited_for() -> None:
    with OperatorHarness(Both()) as under_test:
        under_test.watermark(10, stream=1)
        under_test.watermark(5, stream=2)
        under_test.mark_idle(stream=2)
        under_test.watermark(30, stream=1)
        assert (under_test.watermarks(), is_idle(under_test)) == ([5, 10, 30], False)


def test_an_input_that_comes_back_counts_again_and_does_not_turn_time_back() -> None:
    with OperatorHarness(Both()) as under_test:
        under_test.watermark(5, stream=2)
        under_test.mark_idle(stream=2)
        under_test.watermark(30, stream=1)
        under_test.mark_active(stream=2)
        under_test.watermark(40, stream=1)
        under_test.watermark(20, stream=2)
        under_test.process("late", stream=2)
        assert under_test.output() == [("late", 30)]
        under_test.watermark(35, stream=2)
        under_test.watermark(60, stream=2)
        assert under_test.watermarks() == [30, 35, 40]


@pytest.mark.parametrize("order", [(1, 2), (2, 1)])
def test_where_all_inputs_are_idle_so_is_the_operator_at_the_greatest_time(order: tuple[int, int]) -> None:
    with OperatorHarness(Both()) as under_test:
        under_test.watermark(10, stream=1)
        under_test.watermark(5, stream=2)
        under_test.mark_idle(stream=order[0])
        assert not is_idle(under_test)
        under_test.mark_idle(stream=order[1])
        assert (under_test.watermarks(), is_idle(under_test)) == ([5, 10], True)


def test_one_active_input_ends_the_idleness_of_the_operator() -> None:
    with OperatorHarness(Both()) as under_test:
        under_test.watermark(10)
        under_test.mark_idle()
        assert is_idle(under_test)
        under_test.mark_active(stream=2)
        assert not is_idle(under_test)
        under_test.watermark(12, stream=2)
        assert under_test.watermarks() == [10, 12]


def test_an_input_that_was_idle_from_the_start() -> None:
    with OperatorHarness(Both()) as under_test:
        under_test.mark_idle(stream=1)
        under_test.watermark(7, stream=2)
        assert under_test.watermarks() == [7]


# --- ingestion time


def test_ingestion_time_is_the_clock_of_the_epoch() -> None:
    with harness(ingestion_time_strategy(), processing_time=100) as under_test:
        under_test.process("a", timestamp=5)
        under_test.set_processing_time(150)
        under_test.process("b")
        assert under_test.output_with_timestamps() == [("a", 100), ("b", 150)]
        assert under_test.watermarks() == [99, 149]


def test_the_legacy_characteristic_stamps_what_sources_read() -> None:
    def build(env: StreamExecutionEnvironment) -> DataStream:
        env.set_stream_time_characteristic(TimeCharacteristic.IngestionTime)
        return env.from_collection([1, 2, 3]).process(TellTime()).set_parallelism(1)

    with JobHarness(build, max_records=1, processing_time=1000) as job:
        for clock in (1000, 2000, 2000):
            job.set_processing_time(clock)
            job.epoch()
        assert job.output() == [(1, 1000, "min"), (2, 2000, 999), (3, 2000, 1999)]


def test_the_legacy_characteristic_of_processing_time_turns_watermarks_off() -> None:
    def build(env: StreamExecutionEnvironment, events: DataStream) -> DataStream:
        env.set_stream_time_characteristic(TimeCharacteristic.ProcessingTime)
        strategy = stamped(WatermarkStrategy.for_monotonous_timestamps())
        return events.assign_timestamps_and_watermarks(strategy).process(TellTime()).set_parallelism(1)

    with JobHarness(build, inputs=["events"]) as job:
        job.epoch(events=[("a", 5)])
        job.epoch(events=[("a", 6)])
        assert [time for _, _, time in job.output()] == ["min", "min"]


# --- what a generator remembers


def test_a_lock_in_a_generator_is_made_anew() -> None:
    class Locked(EveryThird):
        def __init__(self) -> None:
            super().__init__()
            self.lock = threading.Lock()

    def build(env: StreamExecutionEnvironment, events: DataStream) -> DataStream:
        strategy = stamped(WatermarkStrategy.for_generator(Locked))
        return events.assign_timestamps_and_watermarks(strategy).uid("stamps").set_parallelism(1)

    with JobHarness(build, inputs=["events"]) as job:
        for time in (1, 2, 3):
            job.epoch(events=[("a", time)])
        assert job.head.watermarks["stamps"] == (3,)


def test_a_field_that_cannot_be_kept_is_named() -> None:
    class Changing(EveryThird):
        def on_periodic_emit(self, output: WatermarkOutput) -> None:
            self.connection = threading.Lock()

    def build(env: StreamExecutionEnvironment, events: DataStream) -> DataStream:
        return events.assign_timestamps_and_watermarks(stamped(WatermarkStrategy.for_generator(Changing)))

    with (
        JobHarness(build, inputs=["events"]) as job,
        pytest.raises(TidemillError, match=r"field 'connection' of Changing cannot be kept.*__getstate__"),
    ):
        job.epoch(events=[("a", 1)])
