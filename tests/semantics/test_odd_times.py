"""Times that are no times: what user code returns as a timestamp or watermark is an int of 64 bits, or an error."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest

from tidemill.common import Time, WatermarkStrategy
from tidemill.common.watermark_strategy import Watermark, WatermarkGenerator
from tidemill.datastream import DataStream, ProcessWindowFunction, StreamExecutionEnvironment
from tidemill.datastream.window import (
    EventTimeSessionWindows,
    EventTimeTrigger,
    SlidingEventTimeWindows,
    TimeWindow,
    TumblingEventTimeWindows,
    WindowAssigner,
)
from tidemill.errors import TidemillError
from tidemill.testing.job_harness import JobHarness, moving

MAX_TIME = 2**63 - 1


class Show(ProcessWindowFunction):
    def process(self, key: Any, context: Any, elements: Iterable[Any]) -> Iterable[Any]:
        window = context.window()
        yield type(window.start).__name__, window.start, window.end, sorted(elements)


def run(strategy: WatermarkStrategy, windows: Any, *epochs: list[Any]) -> list[Any]:
    def build(env: StreamExecutionEnvironment, records: DataStream) -> DataStream:
        stamped = records.assign_timestamps_and_watermarks(strategy).name("clock")
        return stamped.key_by(lambda record: 0).window(windows).process(Show())

    with JobHarness(build, inputs=["records"], parallelism=1, placement=moving(2)) as job:
        for records in epochs:
            job.epoch(records=records)
        job.end()
        return job.output()


def stamped(extract: Callable[[Any], Any]) -> WatermarkStrategy:
    return WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda value, _: extract(value))


TUMBLING = TumblingEventTimeWindows.of(Time.milliseconds(10))


@pytest.mark.parametrize("odd", [None, float("nan"), float("inf"), "12", [12]])
@pytest.mark.parametrize("at", [0, 3])
def test_a_timestamp_that_is_no_number_fails_the_job_at_its_record(odd: Any, at: int) -> None:
    """Without the check, a NaN would be in no window."""
    with pytest.raises(TidemillError) as failed:
        run(stamped(lambda value: odd if value == at else value), TUMBLING, [0, 1, 2, 3, 4, 15])
    message = str(failed.value)
    assert f"a timestamp must be an int in milliseconds, not {odd!r}" in message
    assert "extract_timestamp() of operator 'clock'" in message
    assert f"record {at}" in message
    assert "test_odd_times.py" in message


@pytest.mark.parametrize("kind", [np.int64, np.int32, np.float64, bool, lambda number: number + 0.7])
def test_other_numbers_become_ints(kind: Callable[[Any], Any]) -> None:
    """``time.time() * 1000`` is a float. As in Flink, its fraction is cut off."""
    found = run(stamped(lambda value: kind(1) if value == 3 else value), TUMBLING, [0, 1, 3, 4], [15])
    assert found == [("int", 0, 10, [0, 1, 3, 4]), ("int", 10, 20, [15])]


class Emitting(WatermarkGenerator):
    def __init__(self, timestamp: Any) -> None:
        self.timestamp = timestamp

    def on_event(self, value: Any, event_timestamp: int, output: Any) -> None:
        output.emit_watermark(Watermark(self.timestamp))

    def on_periodic_emit(self, output: Any) -> None:
        pass


def emitting(timestamp: Any) -> WatermarkStrategy:
    generator = WatermarkStrategy.for_generator(lambda: Emitting(timestamp))
    return generator.with_timestamp_assigner(lambda value, _: value)


@pytest.mark.parametrize("odd", [None, 12.5, float("nan"), "12", 2**63, -(2**63) - 1])
def test_a_watermark_that_is_no_time_fails_the_job(odd: Any) -> None:
    with pytest.raises(TidemillError, match="a watermark needs a time in milliseconds"):
        run(emitting(odd), TUMBLING, [1, 2])


@pytest.mark.parametrize("kind", [np.int64, bool])
def test_a_watermark_may_be_another_whole_number(kind: Callable[[Any], Any]) -> None:
    assert run(emitting(kind(1)), TUMBLING, [1, 2], [3]) == [("int", 0, 10, [1, 2, 3])]


@pytest.mark.parametrize("timestamp", [MAX_TIME, MAX_TIME - 1, MAX_TIME - 7])
@pytest.mark.parametrize("lateness", [0, 5])
@pytest.mark.parametrize(
    "windows",
    [
        TUMBLING,
        SlidingEventTimeWindows.of(Time.milliseconds(20), Time.milliseconds(10)),
        EventTimeSessionWindows.with_gap(Time.milliseconds(10)),
    ],
)
def test_records_at_the_end_of_time_are_in_windows_that_fire(timestamp: int, lateness: int, windows: Any) -> None:
    """A timestamp can be the greatest there is, as a mark for "never": its window ends with the input."""
    strategy = WatermarkStrategy.no_watermarks().with_timestamp_assigner(lambda value, _: value)

    def build(env: StreamExecutionEnvironment, records: DataStream) -> DataStream:
        keyed = records.assign_timestamps_and_watermarks(strategy).key_by(lambda record: 0)
        return keyed.window(windows).allowed_lateness(lateness).process(Show())

    with JobHarness(build, inputs=["records"], parallelism=1, placement=moving(2)) as job:
        job.epoch(records=[timestamp])
        job.end()
        assert {tuple(result[3]) for result in job.output()} == {(timestamp,)}
        if not isinstance(windows, SlidingEventTimeWindows):
            assert len(job.output()) == 1


def test_a_window_of_ones_own_may_end_later_than_time_does() -> None:
    class ForEver(WindowAssigner):
        def assign_windows(self, element: Any, timestamp: int, context: Any) -> list[TimeWindow]:
            return [TimeWindow(0, 2**70)]

        def get_default_trigger(self, env: Any) -> EventTimeTrigger:
            return EventTimeTrigger()

        def is_event_time(self) -> bool:
            return True

    assert run(stamped(lambda value: value), ForEver(), [1, 2], [3]) == [("int", 0, 2**70, [1, 2, 3])]
