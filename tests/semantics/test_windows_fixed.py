"""Tumbling, sliding, global and count windows: which records are in which window, and when windows fire."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from tests.semantics.windows import Numbers, Show, dropped, joined, left, push, windows
from tidemill.common import Duration, Time
from tidemill.datastream import (
    CountSlidingWindowAssigner,
    CountTumblingWindowAssigner,
    CountWindow,
    DataStream,
    GlobalWindow,
    GlobalWindows,
    KeyedStream,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TimeDomain,
    TimeWindow,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    WindowAssigner,
)
from tidemill.errors import GraphError, UserCodeError
from tidemill.runtime.batch.records import MAX_TIME
from tidemill.testing import KeyedHarness

tumbling = TumblingEventTimeWindows.of
sliding = SlidingEventTimeWindows.of


@pytest.mark.parametrize(
    ("assigner", "timestamp", "expected"),
    [
        (tumbling(10), 0, [(0, 10)]),
        (tumbling(10), 9, [(0, 10)]),
        (tumbling(10), 10, [(10, 20)]),
        (tumbling(10), -1, [(-10, 0)]),
        (tumbling(10), -10, [(-10, 0)]),
        (tumbling(10), -11, [(-20, -10)]),
        (tumbling(10, 3), 2, [(-7, 3)]),
        (tumbling(10, 3), 3, [(3, 13)]),
        (tumbling(10, -3), 6, [(-3, 7)]),
        (tumbling(10, -3), 7, [(7, 17)]),
        (tumbling(Time.days(1), Time.hours(-8)), 16 * 3_600_000, [(57_600_000, 144_000_000)]),
        (sliding(10, 5), 7, [(5, 15), (0, 10)]),
        (sliding(10, 5), 5, [(5, 15), (0, 10)]),
        (sliding(10, 5), -1, [(-5, 5), (-10, 0)]),
        (sliding(10, 5, 2), 7, [(7, 17), (2, 12)]),
        (sliding(10, 5, -2), 7, [(3, 13), (-2, 8)]),
        (sliding(10, 4), 9, [(8, 18), (4, 14), (0, 10)]),
        (sliding(10, 4), 11, [(8, 18), (4, 14)]),
        (sliding(5, 10), 3, [(0, 5)]),
        (sliding(5, 10), 7, []),
    ],
)
def test_the_windows_of_a_timestamp(assigner: Any, timestamp: int, expected: list[tuple[int, int]]) -> None:
    assert assigner.assign_windows(None, timestamp, None) == [TimeWindow(*extent) for extent in expected]


def test_windows_that_touch_intersect_from_both_sides() -> None:
    first, second, third = TimeWindow(0, 5), TimeWindow(5, 9), TimeWindow(10, 12)
    assert first.intersects(second)
    assert second.intersects(first)
    assert not second.intersects(third)
    assert not third.intersects(second)
    assert third.cover(first) == first.cover(third) == TimeWindow(0, 12)


@pytest.mark.parametrize("length", [Time.seconds(2), Duration.of_seconds(2), timedelta(seconds=2), 2000])
def test_lengths_of_time_in_any_form(length: Any) -> None:
    assert tumbling(length).size == 2000
    assert TumblingProcessingTimeWindows.of(length, 0).size == 2000
    assert sliding(length, length).slide == 2000
    assert SlidingProcessingTimeWindows.of(length, length, 1).offset == 1


@pytest.mark.parametrize(
    "make",
    [
        lambda: tumbling(0),
        lambda: tumbling(-1),
        lambda: tumbling(10, 10),
        lambda: tumbling(10, -10),
        lambda: TumblingProcessingTimeWindows.of(5, 5),
        lambda: sliding(10, 0),
        lambda: sliding(10, -5),
        lambda: sliding(0, 5),
        lambda: sliding(10, 5, 5),
        lambda: SlidingProcessingTimeWindows.of(10, 5, -5),
        lambda: CountTumblingWindowAssigner.of(0),
        lambda: CountSlidingWindowAssigner.of(2, 0),
    ],
)
def test_impossible_windows_are_refused(make: Any) -> None:
    with pytest.raises(ValueError, match=r"Windows parameters must satisfy|WindowAssigner: size"):
        make()


def test_a_window_fires_when_the_watermark_passes_its_last_millisecond() -> None:
    with windows(tumbling(10)) as harness:
        push(harness, 3, 9, 10)
        harness.watermark(8)
        assert harness.output() == []
        harness.watermark(9)
        assert harness.output_with_timestamps() == [(("a", 0, 10, [3, 9]), 9)]
        harness.watermark(100)
        assert harness.output_with_timestamps()[1:] == [(("a", 10, 20, [10]), 19)]
        assert left(harness) == 0


def test_windows_without_records_do_not_exist() -> None:
    with windows(tumbling(10)) as harness:
        push(harness, 3, 53)
        harness.watermark(1000)
        assert harness.output() == [("a", 0, 10, [3]), ("a", 50, 60, [53])]


def test_records_before_1970() -> None:
    with windows(tumbling(10, 2)) as harness:
        push(harness, -9, -8, -1, 1)
        harness.watermark(1)
        assert harness.output() == [("a", -18, -8, [-9]), ("a", -8, 2, [-8, -1, 1])]


def test_each_key_has_its_own_windows_and_they_fire_by_time() -> None:
    with windows(tumbling(10)) as harness:
        for key in ("a", "b", "c"):
            push(harness, 1, 11, key=key)
        harness.watermark(50)
        assert [record[1] for record in harness.output()] == [0, 0, 0, 10, 10, 10]
        first, second = harness.output()[:3], harness.output()[3:]
        assert [record[0] for record in first] == [record[0] for record in second]
        assert sorted(record[0] for record in first) == ["a", "b", "c"]


def test_a_record_is_in_all_sliding_windows_it_belongs_to() -> None:
    with windows(sliding(10, 5)) as harness:
        push(harness, 3, 7)
        harness.watermark(MAX_TIME)
        assert harness.output_with_timestamps() == [
            (("a", -5, 5, [3]), 4),
            (("a", 0, 10, [3, 7]), 9),
            (("a", 5, 15, [7]), 14),
        ]
        assert left(harness) == 0


def test_a_record_between_hopping_windows_is_in_none_and_is_not_late() -> None:
    with windows(sliding(5, 10)) as harness:
        push(harness, 3, 7, 12)
        harness.watermark(16)
        push(harness, 17)
        assert dropped(harness) == 0
        push(harness, 16)
        assert dropped(harness) == 1
        assert harness.output() == [("a", 0, 5, [3]), ("a", 10, 15, [12])]


def test_the_end_of_input_fires_all_event_time_windows() -> None:
    with windows(tumbling(10)) as harness:
        push(harness, 3, 33)
        harness.end_input()
        assert [record[1] for record in harness.output()] == [0, 30]
        assert left(harness) == 0


def test_reduce_sees_records_in_their_order() -> None:
    with windows(sliding(10, 5), lambda windowed: windowed.reduce(joined)) as harness:
        for number in (7, 3, 5):
            harness.process(("a", number), timestamp=number)
        harness.watermark(100)
        assert harness.output() == [("a", 3), ("a", "7,3,5"), ("a", "7,5")]


def test_windows_go_on_after_a_restore_at_another_parallelism() -> None:
    harness = windows(sliding(10, 5), lambda windowed: windowed.reduce(joined))
    push(harness, 3, 7)
    snapshot = harness.snapshot()
    harness.close()
    outputs = []
    for subtask in range(2):
        with harness.restore(snapshot, parallelism=2, subtask=subtask) as part:
            part.watermark(100)
            outputs += part.output()
            assert left(part) == 0
    assert outputs == [("a", 3), ("a", "3,7"), ("a", 7)]


def test_processing_time_windows_go_by_the_clock_and_need_no_timestamps() -> None:
    with windows(TumblingProcessingTimeWindows.of(10), processing_time=5) as harness:
        harness.process(("a", 1))
        harness.set_processing_time(8)
        harness.process(("a", 2))
        assert harness.timers(TimeDomain.PROCESSING_TIME) == [(9, "a")]
        harness.set_processing_time(9)
        assert harness.output_with_timestamps() == [(("a", 0, 10, [1, 2]), 9)]
        assert left(harness) == 0


def test_sliding_processing_time_windows_with_offset() -> None:
    with windows(SlidingProcessingTimeWindows.of(10, 5, 1), processing_time=7) as harness:
        harness.process(("a", 1))
        harness.set_processing_time(100)
        assert harness.output() == [("a", 1, 11, [1]), ("a", 6, 16, [1])]
        assert left(harness) == 0


def test_processing_time_windows_do_not_fire_at_the_end_of_a_stream() -> None:
    with windows(TumblingProcessingTimeWindows.of(10)) as harness:
        harness.process(("a", 1))
        harness.end_input()
        assert harness.output() == []


def test_event_time_windows_need_timestamps() -> None:
    with windows(tumbling(10)) as harness:
        with pytest.raises(GraphError) as caught:
            harness.process(("a", 1))
        assert "TumblingEventTimeWindows" in str(caught.value)
        assert "assign_timestamps_and_watermarks" in str(caught.value)
        assert "test_windows_fixed.py" not in str(caught.value).split("defined at")[0]


def test_an_error_of_a_reduce_function_names_record_key_and_operator() -> None:
    with windows(tumbling(10), lambda windowed: windowed.reduce(lambda a, b: a[1] / 0)) as harness:
        push(harness, 1)
        with pytest.raises(UserCodeError) as caught:
            push(harness, 2)
        for part in ("ZeroDivisionError", "record ('a', 2)", "key 'a'", "TumblingEventTimeWindows"):
            assert part in str(caught.value)


# --- global and count windows


def test_global_windows_never_fire_of_themselves() -> None:
    with windows(GlobalWindows.create(), lambda windowed: windowed.apply(Numbers())) as harness:
        push(harness, 1, 2)
        harness.end_input()
        assert harness.output() == []
        assert harness.state("window-contents", "a", GlobalWindow()) == [("a", 1), ("a", 2)]


def test_global_windows_can_fire_at_the_end_of_input() -> None:
    assigner = GlobalWindows.create_with_end_of_stream_trigger()
    with windows(assigner, lambda windowed: windowed.apply(Numbers())) as harness:
        push(harness, 1, 2)
        harness.end_input()
        assert harness.output_with_timestamps() == [([1, 2], MAX_TIME)]
        assert left(harness) == 0


def counted(size: int, slide: int = 0) -> KeyedHarness:
    return KeyedHarness(lambda keyed: keyed.count_window(size, slide).apply(Numbers()), key_selector=0)


@pytest.mark.parametrize(
    ("size", "slide", "expected"),
    [
        (2, 0, [[0, 1], [2, 3], [4, 5]]),
        (3, 0, [[0, 1, 2], [3, 4, 5]]),
        (1, 0, [[0], [1], [2], [3], [4], [5], [6]]),
        (3, 2, [[0, 1], [1, 2, 3], [3, 4, 5]]),
        (4, 1, [[0], [0, 1], [0, 1, 2], [0, 1, 2, 3], [1, 2, 3, 4], [2, 3, 4, 5], [3, 4, 5, 6]]),
        (2, 3, [[1, 2], [4, 5]]),
    ],
)
def test_count_windows(size: int, slide: int, expected: list[list[int]]) -> None:
    with counted(size, slide) as harness:
        for number in range(7):
            harness.process(("a", number))
        assert harness.output() == expected


def test_count_windows_count_each_key_and_leave_nothing_when_full() -> None:
    with counted(2) as harness:
        for key, number in (("a", 1), ("b", 2), ("b", 3), ("a", 4)):
            harness.process((key, number))
        assert harness.output() == [[2, 3], [1, 4]]
        assert left(harness) == 0


@pytest.mark.parametrize(("slide", "expected"), [(0, [3]), (1, [0, 1, 3, 6, 9]), (2, [1, 6])])
def test_count_windows_reduce_with_and_without_slide(slide: int, expected: list[int]) -> None:
    with KeyedHarness(lambda keyed: keyed.count_window(3, slide).sum(1), key_selector=0) as harness:
        for number in range(5):
            harness.process(("a", number))
        assert harness.output() == [("a", number) for number in expected]


@pytest.mark.parametrize("count", [0, -1])
def test_count_windows_of_no_records_are_refused(count: int) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        counted(count)


def test_numbered_count_windows_fire_only_when_full() -> None:
    with windows(CountSlidingWindowAssigner.of(4, 2), lambda windowed: windowed.apply(Numbers())) as harness:
        for number in range(8):
            harness.process(("a", number))
        assert harness.output() == [[0, 1, 2, 3], [2, 3, 4, 5], [4, 5, 6, 7]]
        assert harness.state("window-contents", "a", CountWindow(3)) == [("a", 6), ("a", 7)]
    with windows(CountTumblingWindowAssigner.of(3), lambda windowed: windowed.apply(Numbers())) as harness:
        for number in range(7):
            harness.process(("a", number))
        assert harness.output() == [[0, 1, 2], [3, 4, 5]]


# --- custom assigners


class Halves(WindowAssigner):
    """Even numbers into one window, odd ones into another; zero into none."""

    def assign_windows(self, element: Any, timestamp: int, context: WindowAssigner.WindowAssignerContext) -> Any:
        number = element[1]
        return [] if number == 0 else [TimeWindow(number % 2, 100 + number % 2)]

    def get_default_trigger(self, env: Any) -> Any:
        return tumbling(1).get_default_trigger(env)

    def is_event_time(self) -> bool:
        return True


def test_a_custom_assigner() -> None:
    with windows(Halves()) as harness:
        push(harness, 4, 3, 0, 2)
        harness.watermark(99)
        harness.watermark(100)
        assert harness.output() == [("a", 0, 100, [4, 2]), ("a", 1, 101, [3])]
        assert left(harness) == 0


def test_only_assigners_are_taken() -> None:
    with pytest.raises(TypeError, match="WindowAssigner"):
        KeyedHarness(lambda keyed: keyed.window(5), key_selector=0)


# --- windows over the whole stream


def test_window_all_has_one_subtask_and_no_key() -> None:
    def build(stream: DataStream) -> DataStream:
        return stream.window_all(tumbling(10)).reduce(lambda a, b: a + b)

    def check(keyed: KeyedStream) -> DataStream:
        result = build(keyed)
        assert result._operator("test").parallelism == 1
        return result

    with KeyedHarness(check, key_selector=lambda n: n) as harness:
        for number in (1, 2, 13):
            harness.process(number, timestamp=number)
        harness.watermark(100)
        assert harness.output_with_timestamps() == [(3, 9), (13, 19)]
        assert left(harness) == 0


def test_show_is_a_window_function_for_keyed_windows_only() -> None:
    with pytest.raises(TypeError, match="AllWindowFunction"):
        KeyedHarness(lambda keyed: keyed.window_all(tumbling(10)).apply(Show()), key_selector=0)
