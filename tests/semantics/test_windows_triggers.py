"""Triggers and evictors: when a window is evaluated, and on which of its records."""

from __future__ import annotations

from typing import Any

import pytest

from tests.semantics.windows import Mean, Numbers, Show, joined, left, push, windows
from tidemill.common import Time, Types
from tidemill.datastream import (
    CountEvictor,
    DeltaEvictor,
    EventTimeSessionWindows,
    Evictor,
    GlobalWindows,
    ReducingStateDescriptor,
    SlidingEventTimeWindows,
    TimeDomain,
    TimeEvictor,
    Trigger,
    TriggerResult,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    WindowAssigner,
)
from tidemill.datastream.window import (
    ContinuousEventTimeTrigger,
    ContinuousProcessingTimeTrigger,
    CountTrigger,
    DeltaFunction,
    EventTimeTrigger,
    NeverTrigger,
    ProcessingTimeoutTrigger,
    ProcessingTimeTrigger,
    PurgingTrigger,
    TimestampedValue,
)
from tidemill.errors import TidemillError, UserCodeError
from tidemill.testing import KeyedHarness

tumbling = TumblingEventTimeWindows.of


def triggered(trigger: Trigger, assigner: WindowAssigner | None = None) -> KeyedHarness:
    return windows(assigner or tumbling(100), lambda windowed: windowed.trigger(trigger).apply(Numbers()))


@pytest.mark.parametrize(
    ("result", "fires", "purges"),
    [
        (TriggerResult.CONTINUE, False, False),
        (TriggerResult.FIRE, True, False),
        (TriggerResult.PURGE, False, True),
        (TriggerResult.FIRE_AND_PURGE, True, True),
    ],
)
def test_trigger_results(result: TriggerResult, fires: bool, purges: bool) -> None:
    assert (result.is_fire(), result.is_purge()) == (fires, purges)


def test_a_count_trigger_keeps_the_records_and_counts_from_the_start() -> None:
    with triggered(CountTrigger.of(2)) as harness:
        push(harness, 1, 2, 3, 4, 5)
        assert harness.output() == [[1, 2], [1, 2, 3, 4]]
        harness.watermark(99)
        assert len(harness.output()) == 2  # no trigger by time
        assert left(harness) == 0


def test_a_purging_count_trigger() -> None:
    with triggered(PurgingTrigger.of(CountTrigger.of(2))) as harness:
        push(harness, 1, 2, 3, 4, 5)
        assert harness.output() == [[1, 2], [3, 4]]
        harness.watermark(99)
        assert left(harness) == 0


def test_a_count_trigger_counts_each_window_and_key() -> None:
    with triggered(CountTrigger.of(2), SlidingEventTimeWindows.of(10, 5)) as harness:
        push(harness, 1, 7)
        push(harness, 8, key="b")
        assert harness.output() == [[1, 7]]
        push(harness, 12)
        assert harness.output() == [[1, 7], [7, 12]]


def test_the_count_survives_a_restore() -> None:
    harness = triggered(CountTrigger.of(3))
    push(harness, 1, 2)
    snapshot = harness.snapshot()
    harness.close()
    with harness.restore(snapshot) as again:
        push(again, 3)
        assert again.output() == [[1, 2, 3]]


def test_a_continuous_event_time_trigger_fires_at_multiples_and_at_the_end() -> None:
    with triggered(ContinuousEventTimeTrigger.of(Time.milliseconds(30))) as harness:
        push(harness, 5)
        assert harness.timers() == [(30, "a"), (99, "a")]
        harness.watermark(29)
        assert harness.output() == []
        harness.watermark(30)
        push(harness, 40)
        harness.watermark(60)
        harness.watermark(95)
        harness.watermark(99)
        assert harness.output() == [[5], [5, 40], [5, 40], [5, 40]]
        assert left(harness) == 0


def test_a_continuous_event_time_trigger_with_lateness() -> None:
    with windows(
        tumbling(20),
        lambda windowed: windowed.trigger(ContinuousEventTimeTrigger.of(15)).allowed_lateness(5).apply(Numbers()),
    ) as harness:
        push(harness, 1)
        harness.watermark(20)
        push(harness, 2)
        assert harness.output() == [[1], [1], [1, 2]]
        harness.watermark(24)
        assert left(harness) == 0


def test_a_continuous_processing_time_trigger() -> None:
    with triggered(ContinuousProcessingTimeTrigger.of(30), TumblingProcessingTimeWindows.of(100)) as harness:
        harness.set_processing_time(5)
        harness.process(("a", 1))
        assert harness.timers(TimeDomain.PROCESSING_TIME) == [(30, "a"), (99, "a")]
        harness.set_processing_time(30)
        harness.process(("a", 2))
        harness.set_processing_time(65)
        harness.set_processing_time(99)
        assert harness.output() == [[1], [1, 2], [1, 2], [1, 2]]
        assert left(harness) == 0


@pytest.mark.parametrize("interval", [0, -1])
def test_bad_intervals_are_refused(interval: int) -> None:
    for trigger in (ContinuousEventTimeTrigger, ContinuousProcessingTimeTrigger):
        with pytest.raises(ValueError, match="above 0"):
            trigger.of(interval)


def test_a_never_trigger_lets_windows_end_in_silence() -> None:
    with triggered(NeverTrigger()) as harness:
        push(harness, 1)
        harness.watermark(99)
        assert harness.output() == []
        assert left(harness) == 0


def test_an_event_time_trigger_over_global_windows_fires_at_the_end_of_time() -> None:
    with triggered(EventTimeTrigger.create(), GlobalWindows.create()) as harness:
        push(harness, 1)
        harness.watermark(1000)
        assert harness.output() == []
        harness.end_input()
        assert harness.output() == [[1]]


def test_a_timeout_fires_what_a_count_has_not() -> None:
    trigger = ProcessingTimeoutTrigger.of(PurgingTrigger.of(CountTrigger.of(3)), 50)
    with triggered(trigger, GlobalWindows.create()) as harness:
        harness.process(("a", 1))
        harness.set_processing_time(40)
        harness.process(("a", 2))
        harness.set_processing_time(50)
        assert harness.output() == [[1, 2]]
        harness.process(("a", 3))
        harness.process(("a", 4))
        harness.process(("a", 5))  # a timeout resets the count, and does not purge
        assert harness.output()[1:] == [[1, 2, 3, 4, 5]]
        assert harness.timers(TimeDomain.PROCESSING_TIME) == []
        assert left(harness) == 0


def test_a_timeout_from_the_last_record() -> None:
    trigger = ProcessingTimeoutTrigger.of(CountTrigger.of(100), 50, reset_timer_on_new_record=True)
    with triggered(trigger, GlobalWindows.create()) as harness:
        harness.process(("a", 1))
        harness.set_processing_time(40)
        harness.process(("a", 2))
        assert harness.timers(TimeDomain.PROCESSING_TIME) == [(90, "a")]
        harness.set_processing_time(89)
        assert harness.output() == []
        harness.set_processing_time(90)
        assert harness.output() == [[1, 2]]


def test_a_timeout_that_does_not_reset_the_count() -> None:
    trigger = ProcessingTimeoutTrigger.of(CountTrigger.of(3), 50, should_clear_on_timeout=False)
    with triggered(trigger, GlobalWindows.create()) as harness:
        harness.process(("a", 1))
        harness.process(("a", 2))
        harness.set_processing_time(50)
        harness.process(("a", 3))
        assert harness.output() == [[1, 2], [1, 2, 3]]


def test_a_processing_time_trigger_fires_each_window_once() -> None:
    with triggered(ProcessingTimeTrigger.create(), TumblingProcessingTimeWindows.of(10)) as harness:
        harness.process(("a", 1))
        harness.set_processing_time(10)
        harness.process(("a", 2))
        harness.set_processing_time(100)
        assert harness.output() == [[1], [2]]


class Custom(Trigger):
    """Fires at every number that is a sum so far of 10 or more, purges at 100; sets a timer and takes it back."""

    total = ReducingStateDescriptor("total", lambda a, b: a + b, Types.LONG())

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        total = ctx.get_partitioned_state(self.total)
        total.add(element[1])
        ctx.register_event_time_timer(timestamp + 5)
        ctx.register_processing_time_timer(1000)
        if element[1] == 100:
            return TriggerResult.PURGE
        if total.get() >= 10:
            ctx.delete_event_time_timer(timestamp + 5)
            total.clear()
            return TriggerResult.FIRE
        return TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        assert (time, ctx.get_current_processing_time()) == (1000, 1001)
        return TriggerResult.FIRE_AND_PURGE

    def on_event_time(self, time: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        ctx.get_metric_group().counter("timers").inc()
        return TriggerResult.FIRE if ctx.get_current_watermark() == time else TriggerResult.CONTINUE

    def clear(self, window: Any, ctx: Trigger.TriggerContext) -> None:
        ctx.get_partitioned_state(self.total).clear()
        ctx.delete_processing_time_timer(1000)


def test_a_custom_trigger_has_state_and_timers_of_both_kinds() -> None:
    with triggered(Custom()) as harness:
        push(harness, 4, 6)  # 4 leaves a timer at 9, 6 none
        assert harness.output() == [[4, 6]]
        assert harness.timers() == [(9, "a"), (99, "a")]
        harness.watermark(9)
        assert harness.output()[1:] == [[4, 6]]
        harness.process(("a", 100), timestamp=20)  # purged: nothing to fire at 25
        harness.watermark(25)
        assert len(harness.output()) == 2
        push(harness, 30)
        assert harness.output()[2:] == [[30]]
        harness.set_processing_time(1001)
        assert harness.output()[3:] == [[30]]
        push(harness, 31)
        assert harness.output()[4:] == [[31]]
        harness.watermark(99)
        assert left(harness) == 0
        assert harness._chain.operators[0].context.metrics.counters["timers"].count >= 2


def test_a_failing_trigger_is_the_users_error() -> None:
    class Broken(NeverTrigger):
        def on_event_time(self, time: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
            raise LookupError("broken")

    with triggered(Broken()) as harness:
        push(harness, 1)
        with pytest.raises(UserCodeError, match=r"(?s)broken.*key 'a'"):
            harness.watermark(99)


# --- evictors


def evicting(evictor: Evictor, trigger: Trigger | None = None, size: int = 100) -> KeyedHarness:
    def build(windowed: Any) -> Any:
        windowed = windowed.evictor(evictor)
        return (windowed if trigger is None else windowed.trigger(trigger)).apply(Numbers())

    return windows(tumbling(size), build)


def test_a_count_evictor_keeps_the_last_records() -> None:
    with evicting(CountEvictor.of(2)) as harness:
        push(harness, 1, 2, 3)
        harness.watermark(99)
        assert harness.output() == [[2, 3]]
        assert left(harness) == 0


def test_what_is_evicted_is_gone_for_good() -> None:
    with evicting(CountEvictor.of(2), CountTrigger.of(3)) as harness:
        push(harness, 1, 2, 3, 4, 5, 6)
        assert harness.output() == [[2, 3], [5, 6]]
        harness.checkpoint()
        push(harness, 7, 8, 9)
        assert harness.output()[2:] == [[8, 9]]


def test_evict_after_lets_the_function_see_all() -> None:
    with evicting(CountEvictor.of(1, True), CountTrigger.of(3)) as harness:
        push(harness, 1, 2, 3, 4, 5, 6)
        assert harness.output() == [[1, 2, 3], [3, 4, 5, 6]]


def test_a_time_evictor_counts_back_from_the_latest_record() -> None:
    with evicting(TimeEvictor.of(Time.milliseconds(10))) as harness:
        push(harness, 5, 30, 21, 20, 25)
        harness.watermark(99)
        assert harness.output() == [[30, 21, 25]]


def test_a_time_evictor_after_the_function() -> None:
    with evicting(TimeEvictor.of(10, True), CountTrigger.of(2)) as harness:
        push(harness, 1, 20, 21, 22)
        assert harness.output() == [[1, 20], [20, 21, 22]]


def test_a_time_evictor_keeps_records_without_timestamps() -> None:
    def build(keyed: Any) -> Any:
        return (
            keyed.window(GlobalWindows.create()).trigger(CountTrigger.of(3)).evictor(TimeEvictor.of(1)).apply(Numbers())
        )

    with KeyedHarness(build, key_selector=0) as harness:
        for number in (1, 2, 3):
            harness.process(("a", number))
        assert harness.output() == [[1, 2, 3]]


def test_a_time_evictor_needs_the_timestamps_of_all_records_if_the_first_one_has_one() -> None:
    """As in Flink. A record without a timestamp is not dropped in silence."""

    def build(keyed: Any) -> Any:
        return (
            keyed.window(GlobalWindows.create()).trigger(CountTrigger.of(3)).evictor(TimeEvictor.of(9)).apply(Numbers())
        )

    with KeyedHarness(build, key_selector=0) as harness:
        harness.process(("a", 1), timestamp=5)
        harness.process(("a", 2))
        with pytest.raises(TidemillError, match=r"a TimeEvictor needs the timestamp of \('a', 2\), which has none"):
            harness.process(("a", 3), timestamp=7)
    with KeyedHarness(build, key_selector=0) as harness:
        harness.process(("a", 1))
        harness.process(("a", 2), timestamp=5)
        harness.process(("a", 3), timestamp=50)
        assert harness.output() == [[1, 2, 3]]


def test_an_evictor_that_replaces_records_changes_the_window() -> None:
    class Doubling(Evictor):
        def evict_before(self, elements: list[TimestampedValue], size: int, window: Any, evictor_context: Any) -> None:
            elements[:] = [TimestampedValue((key, 2 * number), time) for (key, number), time in elements]

        def evict_after(self, elements: list[TimestampedValue], size: int, window: Any, evictor_context: Any) -> None:
            pass

    with evicting(Doubling(), CountTrigger.of(2)) as harness:
        push(harness, 1, 2, 3, 4)
        assert harness.output() == [[2, 4], [4, 8, 6, 8]]


def test_a_delta_evictor() -> None:
    class Distance(DeltaFunction):
        def get_delta(self, old_data_point: Any, new_data_point: Any) -> float:
            return float(abs(old_data_point[1] - new_data_point[1]))

    for delta in (Distance(), lambda old, new: abs(old[1] - new[1])):
        with evicting(DeltaEvictor.of(5, delta)) as harness:
            push(harness, 1, 14, 9, 6, 10)
            harness.watermark(99)
            assert harness.output() == [[14, 9, 6, 10]]


def test_a_custom_evictor_before_and_after() -> None:
    class OddOut(Evictor):
        def evict_before(self, elements: Any, size: int, window: Any, evictor_context: Any) -> None:
            assert (size, window.start) in {(3, 0), (4, 0)}
            assert evictor_context.get_current_watermark() < 0
            assert evictor_context.get_current_processing_time() == 0
            elements[:] = [element for element in elements if element.get_value()[1] % 2 == 0]

        def evict_after(self, elements: list[TimestampedValue], size: int, window: Any, evictor_context: Any) -> None:
            assert all(element.has_timestamp() for element in elements)
            del elements[0]

    with evicting(OddOut(), CountTrigger.of(3)) as harness:
        push(harness, 1, 2, 4, 5, 6, 8)
        assert harness.output() == [[2, 4], [4, 6, 8]]


@pytest.mark.parametrize(("function", "expected"), [(joined, ("a", "2,3")), (Mean(), 2.5)], ids=["reduce", "aggregate"])
def test_an_evictor_with_an_incremental_function_combines_what_is_left(function: Any, expected: Any) -> None:
    def then(windowed: Any) -> Any:
        windowed = windowed.evictor(CountEvictor.of(2))
        return windowed.aggregate(function) if isinstance(function, Mean) else windowed.reduce(function)

    with windows(tumbling(100), then) as harness:
        push(harness, 1, 2, 3)
        harness.watermark(99)
        assert harness.output() == [expected]
        assert left(harness) == 0


def test_an_evictor_that_leaves_nothing() -> None:
    with evicting(CountEvictor.of(0)) as harness:
        push(harness, 1)
        harness.watermark(99)
        assert harness.output() == [[]]
    with windows(tumbling(10), lambda windowed: windowed.evictor(CountEvictor.of(0)).sum(1)) as harness:
        push(harness, 1)
        harness.watermark(99)
        assert harness.output() == []


def test_an_evictor_over_sessions_that_merge() -> None:
    with windows(
        EventTimeSessionWindows.with_gap(10), lambda windowed: windowed.evictor(CountEvictor.of(2)).apply(Show())
    ) as harness:
        push(harness, 0, 15, 8)
        harness.watermark(100)
        assert harness.output() == [("a", 0, 25, [15, 8])]
        assert left(harness) == 0


def test_only_triggers_and_evictors_are_taken() -> None:
    with pytest.raises(TypeError, match="Trigger"):
        windows(tumbling(10), lambda windowed: windowed.trigger(5).sum(1))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="Evictor"):
        windows(tumbling(10), lambda windowed: windowed.evictor(5).sum(1))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="negative"):
        CountEvictor.of(-1)
