"""Session windows: what merges, what fires, and that nothing is left of what has merged."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from tests.semantics.windows import Mean, Show, ShowProcess, dropped, joined, left, push, windows
from tidemill.datastream import (
    DynamicEventTimeSessionWindows,
    EventTimeSessionWindows,
    MergingWindowAssigner,
    ProcessingTimeSessionWindows,
    ProcessWindowFunction,
    SessionWindowTimeGapExtractor,
    TimeDomain,
    TimeWindow,
    Trigger,
    TriggerResult,
    ValueStateDescriptor,
    WindowAssigner,
)
from tidemill.datastream.window import (
    ContinuousEventTimeTrigger,
    ContinuousProcessingTimeTrigger,
    CountTrigger,
    EventTimeTrigger,
    ProcessingTimeoutTrigger,
    PurgingTrigger,
)
from tidemill.errors import GraphError, StateError, UserCodeError

sessions = EventTimeSessionWindows.with_gap


def test_records_within_the_gap_are_one_session() -> None:
    with windows(sessions(10)) as harness:
        push(harness, 0, 9, 30)
        harness.watermark(18)
        assert harness.output_with_timestamps() == [(("a", 0, 19, [0, 9]), 18)]
        harness.watermark(39)
        assert harness.output()[1:] == [("a", 30, 40, [30])]
        assert left(harness) == 0


def test_sessions_that_touch_are_one() -> None:
    with windows(sessions(10)) as harness:
        push(harness, 0, 10, 21)
        harness.watermark(100)
        assert harness.output() == [("a", 0, 20, [0, 10]), ("a", 21, 31, [21])]


def test_a_record_bridges_two_sessions() -> None:
    with windows(sessions(10)) as harness:
        push(harness, 0, 15)
        assert len(harness.state("merging-window-set", "a")) == 2
        push(harness, 8)
        assert list(harness.state("merging-window-set", "a")) == [TimeWindow(0, 25)]
        assert harness.timers() == [(24, "a")]
        harness.watermark(100)
        assert [(start, end, sorted(numbers)) for _, start, end, numbers in harness.output()] == [(0, 25, [0, 8, 15])]
        assert left(harness) == 0


def test_a_record_inside_a_session_changes_nothing_but_its_contents() -> None:
    with windows(DynamicEventTimeSessionWindows.with_dynamic_gap(lambda pair: 30 if pair[1] == 0 else 5)) as harness:
        push(harness, 0, 3)
        assert harness.state("merging-window-set", "a") == {TimeWindow(0, 30): TimeWindow(0, 30)}
        harness.watermark(100)
        assert harness.output() == [("a", 0, 30, [0, 3])]
        assert left(harness) == 0


def test_records_of_one_time_are_one_session() -> None:
    with windows(sessions(10)) as harness:
        push(harness, 5, 5)
        harness.watermark(100)
        assert harness.output() == [("a", 5, 15, [5, 5])]
        assert left(harness) == 0


def test_a_record_whose_window_is_just_a_merged_session_keeps_its_contents() -> None:
    with windows(EventTimeSessionWindows.with_dynamic_gap(lambda pair: pair[1])) as harness:
        harness.process(("a", 10), timestamp=50)
        harness.process(("a", 11), timestamp=45)
        assert harness.state("merging-window-set", "a") == {TimeWindow(45, 60): TimeWindow(50, 60)}
        harness.process(("a", 15), timestamp=45)
        harness.watermark(100)
        assert harness.output() == [("a", 45, 60, [10, 11, 15])]
        assert left(harness) == 0


def test_sessions_of_keys_are_apart() -> None:
    with windows(sessions(10)) as harness:
        push(harness, 0)
        push(harness, 5, key="b")
        harness.watermark(100)
        assert sorted(harness.output()) == [("a", 0, 10, [0]), ("b", 5, 15, [5])]


@pytest.mark.parametrize("order", [(0, 8, 15), (15, 8, 0), (8, 0, 15), (0, 15, 8), (15, 0, 8)])
def test_the_order_of_records_does_not_change_a_session(order: tuple[int, ...]) -> None:
    with windows(sessions(10), lambda windowed: windowed.sum(1)) as harness:
        push(harness, *order)
        harness.watermark(100)
        assert harness.output_with_timestamps() == [(("a", 23), 24)]
        assert left(harness) == 0


def test_contents_merge_for_reduce_and_aggregate() -> None:
    with windows(sessions(10), lambda windowed: windowed.reduce(joined)) as harness:
        push(harness, 0, 15, 8)
        harness.watermark(100)
        assert harness.output() == [("a", "0,15,8")]
    with windows(sessions(10), lambda windowed: windowed.aggregate(Mean())) as harness:
        push(harness, 0, 15, 9)
        harness.watermark(100)
        assert harness.output() == [8.0]


def test_growing_a_session_moves_no_contents() -> None:
    with windows(sessions(10)) as harness:
        push(harness, 50, 45, 40)
        assert harness.state("merging-window-set", "a") == {TimeWindow(40, 60): TimeWindow(50, 60)}
        assert harness.state("window-contents", "a", TimeWindow(50, 60)) == [("a", 50), ("a", 45), ("a", 40)]


def test_a_merge_across_epochs_and_a_restore() -> None:
    harness = windows(sessions(10))
    push(harness, 0)
    harness.checkpoint()
    push(harness, 15)
    snapshot = harness.snapshot()
    harness.close()
    with harness.restore(snapshot) as again:
        push(again, 8)
        again.checkpoint()
        again.watermark(100)
        assert again.output() == [("a", 0, 25, [0, 15, 8])]
        assert left(again) == 0


def test_a_late_record_bridges_two_sessions_that_have_fired() -> None:
    with windows(sessions(10), lambda windowed: windowed.allowed_lateness(50).apply(Show())) as harness:
        push(harness, 0, 15)
        harness.watermark(30)
        assert harness.output() == [("a", 0, 10, [0]), ("a", 15, 25, [15])]
        push(harness, 8)
        assert harness.output()[2:] == [("a", 0, 25, [0, 15, 8])]
        harness.watermark(74)
        assert len(harness.output()) == 3
        assert left(harness) == 0


def test_merged_sessions_leave_no_timers() -> None:
    with windows(sessions(10), lambda windowed: windowed.allowed_lateness(50).apply(Show())) as harness:
        push(harness, 0, 15)
        assert harness.timers() == [(9, "a"), (24, "a"), (59, "a"), (74, "a")]
        push(harness, 8)
        assert harness.timers() == [(24, "a"), (74, "a")]


def test_an_epoch_that_does_not_count_leaves_no_sessions() -> None:
    with windows(sessions(10)) as harness:
        push(harness, 0)
        committed = harness.snapshot()
        push(harness, 8)
    with harness.restore(committed) as again:
        push(again, 3)
        again.watermark(100)
        assert again.output() == [("a", 0, 13, [0, 3])]
        assert left(again) == 0


def test_a_fired_session_that_grows_past_the_watermark_fires_again_at_its_new_end() -> None:
    with windows(sessions(10), lambda windowed: windowed.allowed_lateness(50).apply(Show())) as harness:
        push(harness, 0)
        harness.watermark(12)
        push(harness, 9)
        assert harness.output() == [("a", 0, 10, [0])]
        harness.watermark(18)
        assert harness.output()[1:] == [("a", 0, 19, [0, 9])]


def test_a_session_whose_time_is_over_is_not_merged_with() -> None:
    with windows(sessions(10)) as harness:
        push(harness, 0)
        harness.watermark(9)
        push(harness, 9)
        harness.watermark(100)
        assert harness.output() == [("a", 0, 10, [0]), ("a", 9, 19, [9])]


def test_a_late_record_without_an_open_session_is_dropped() -> None:
    with windows(sessions(10)) as harness:
        harness.watermark(50)
        push(harness, 3)
        assert dropped(harness) == 1
        assert left(harness) == 0


def test_dynamic_gaps() -> None:
    class Second(SessionWindowTimeGapExtractor):
        def extract(self, element: Any) -> int:
            return 5 if element[1] < 10 else 50

    for assigner in (
        DynamicEventTimeSessionWindows.with_dynamic_gap(Second()),
        EventTimeSessionWindows.with_dynamic_gap(Second()),
    ):
        with windows(assigner) as harness:
            push(harness, 0, 6, 11, 40)
            harness.watermark(1000)
            assert harness.output() == [("a", 0, 5, [0]), ("a", 6, 90, [6, 11, 40])]


def test_bad_gaps_are_refused() -> None:
    for gap in (0, -5):
        with pytest.raises(ValueError, match="parameters must satisfy 0 < size"):
            sessions(gap)
        with pytest.raises(ValueError, match="parameters must satisfy 0 < size"):
            ProcessingTimeSessionWindows.with_gap(gap)
    with (
        windows(EventTimeSessionWindows.with_dynamic_gap(lambda pair: 0)) as harness,
        pytest.raises(UserCodeError, match="above 0"),
    ):
        push(harness, 1)
    with pytest.raises(TypeError, match="SessionWindowTimeGapExtractor"):
        EventTimeSessionWindows.with_dynamic_gap(5)  # type: ignore[arg-type]


def test_processing_time_sessions() -> None:
    with windows(ProcessingTimeSessionWindows.with_gap(10)) as harness:
        harness.process(("a", 1))
        harness.set_processing_time(8)
        harness.process(("a", 2))
        harness.set_processing_time(12)
        assert harness.output() == []
        assert harness.timers(TimeDomain.PROCESSING_TIME) == [(17, "a")]
        harness.set_processing_time(30)
        assert harness.output_with_timestamps() == [(("a", 0, 18, [1, 2]), 17)]
        harness.process(("a", 3))
        harness.set_processing_time(39)
        assert harness.output()[1:] == [("a", 30, 40, [3])]
        assert left(harness) == 0


def test_processing_time_sessions_with_dynamic_gap() -> None:
    with windows(ProcessingTimeSessionWindows.with_dynamic_gap(lambda pair: pair[1])) as harness:
        harness.process(("a", 5))
        harness.process(("a", 20))
        harness.set_processing_time(19)
        assert harness.output() == [("a", 0, 20, [5, 20])]


# --- triggers


def test_a_trigger_that_cannot_merge_is_refused() -> None:
    trigger = ProcessingTimeoutTrigger.of(EventTimeTrigger.create(), 5)
    with pytest.raises(GraphError, match="does not support merging"):
        windows(sessions(10), lambda windowed: windowed.trigger(trigger).sum(1))


def test_the_count_of_merged_sessions_adds_up() -> None:
    trigger = PurgingTrigger.of(CountTrigger.of(4))
    with windows(sessions(10), lambda windowed: windowed.trigger(trigger).apply(Show())) as harness:
        push(harness, 0, 15, 16)
        assert harness.output() == []
        push(harness, 8)
        assert harness.output() == [("a", 0, 26, [0, 15, 16, 8])]
        push(harness, 9)
        harness.watermark(100)
        assert len(harness.output()) == 1
        assert left(harness) == 0


def test_a_record_inside_a_session_keeps_the_state_of_its_trigger() -> None:
    assigner = EventTimeSessionWindows.with_dynamic_gap(lambda pair: 30 if pair[1] == 0 else 5)
    with windows(assigner, lambda windowed: windowed.trigger(CountTrigger.of(2)).apply(Show())) as harness:
        push(harness, 0, 3)
        assert harness.output() == [("a", 0, 30, [0, 3])]


def test_the_earliest_fire_time_of_merged_sessions_stays() -> None:
    trigger = ContinuousEventTimeTrigger.of(10)
    with windows(sessions(20), lambda windowed: windowed.trigger(trigger).apply(Show())) as harness:
        push(harness, 5, 31, 18)
        harness.watermark(10)
        harness.watermark(11)
        assert [record[3] for record in harness.output()] == [[5, 31, 18]]
        harness.watermark(100)
        assert left(harness) == 0


def test_continuous_processing_time_sessions() -> None:
    trigger = ContinuousProcessingTimeTrigger.of(10)
    with windows(
        ProcessingTimeSessionWindows.with_gap(15), lambda windowed: windowed.trigger(trigger).apply(Show())
    ) as harness:
        harness.process(("a", 1))
        harness.set_processing_time(10)
        harness.process(("a", 2))
        harness.set_processing_time(24)
        assert [(record[1], record[2], record[3]) for record in harness.output()] == [
            (0, 15, [1]),
            (0, 25, [1, 2]),
            (0, 25, [1, 2]),
        ]
        assert left(harness) == 0


class Remember(Trigger):
    """Fires at the end of input only; keeps value state, which cannot be merged."""

    last = ValueStateDescriptor("last")

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        ctx.get_partitioned_state(self.last).update(timestamp)
        return TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def can_merge(self) -> bool:
        return True

    def on_merge(self, window: Any, ctx: Trigger.OnMergeContext) -> None:
        ctx.merge_partitioned_state(self.last)

    def clear(self, window: Any, ctx: Trigger.TriggerContext) -> None:
        ctx.get_partitioned_state(self.last).clear()


def test_value_state_of_a_trigger_cannot_be_merged() -> None:
    with windows(sessions(10), lambda windowed: windowed.trigger(Remember()).sum(1)) as harness:
        push(harness, 0)
        with pytest.raises(StateError, match=r"'last'.*cannot be merged"):
            push(harness, 5)


# --- functions


def test_a_process_function_over_sessions_has_no_window_state() -> None:
    class Keeps(ProcessWindowFunction):
        def process(self, key: Any, context: ProcessWindowFunction.Context, elements: Iterable[Any]) -> Iterable[Any]:
            context.window_state().get_state(ValueStateDescriptor("seen"))
            yield key

    with windows(sessions(10), lambda windowed: windowed.process(Keeps())) as harness:
        push(harness, 1)
        with pytest.raises(StateError, match="windows that merge"):
            harness.watermark(100)
    with windows(sessions(10), lambda windowed: windowed.process(ShowProcess())) as harness:
        push(harness, 1, 5)
        harness.watermark(100)
        assert harness.output() == [("a", 1, 15, [1, 5])]


# --- custom merging assigners


class Shrinking(MergingWindowAssigner):
    """Two windows become one that has long ended."""

    def assign_windows(self, element: Any, timestamp: int, context: WindowAssigner.WindowAssignerContext) -> Any:
        return [TimeWindow(timestamp, timestamp + 100)]

    def merge_windows(self, windows: Iterable[Any], callback: MergingWindowAssigner.MergeCallback[Any]) -> None:
        found = sorted(windows)
        if len(found) > 1:
            callback.merge(found, TimeWindow(0, 1))

    def get_default_trigger(self, env: Any) -> Trigger:
        return EventTimeTrigger()

    def is_event_time(self) -> bool:
        return True


def test_a_merge_into_a_window_that_is_over_is_an_error() -> None:
    with windows(Shrinking()) as harness:
        push(harness, 10)
        harness.watermark(50)
        with pytest.raises(StateError, match=r"cannot end earlier by merging.*watermark is 50"):
            push(harness, 20)


def test_many_sessions_leave_nothing() -> None:
    with windows(sessions(3)) as harness:
        for time in range(0, 200, 4):
            push(harness, time)
            harness.checkpoint()
            harness.watermark(time - 10)
        harness.watermark(1000)
        assert len(harness.output()) == 50
        assert left(harness) == 0


def test_a_record_whose_window_is_exactly_an_open_session_joins_it() -> None:
    """Flink forgets here what the session held: it looks for windows to merge, finds but one, and begins it anew."""
    with windows(EventTimeSessionWindows.with_dynamic_gap(lambda pair: pair[1])) as harness:
        for timestamp, gap in ((0, 4), (2, 5), (0, 7)):
            harness.process(("a", gap), timestamp=timestamp)
        harness.watermark(6)
        assert harness.output() == [("a", 0, 7, [4, 5, 7])]
        assert left(harness) == 0
