"""Late records: dropped, sent aside, or let in for a while."""

from __future__ import annotations

import logging

import pytest

from tests.own_logs import logged_here
from tests.semantics.windows import Mean, Show, dropped, joined, left, push, windows
from tidemill.common import Duration, Time
from tidemill.datastream import (
    EventTimeSessionWindows,
    GlobalWindows,
    OutputTag,
    ProcessingTimeTrigger,
    PurgingTrigger,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from tidemill.datastream.window import CountTrigger, EventTimeTrigger
from tidemill.runtime.batch.records import MAX_TIME
from tidemill.testing import KeyedHarness

LATE = OutputTag("late")
tumbling = TumblingEventTimeWindows.of
sliding = SlidingEventTimeWindows.of


def test_a_record_is_late_when_its_window_has_ended_not_when_it_is_behind_the_watermark() -> None:
    with windows(tumbling(10)) as harness:
        harness.watermark(8)
        push(harness, 3)
        harness.watermark(9)
        push(harness, 4, 9, 10)
        assert dropped(harness) == 2
        harness.watermark(100)
        assert harness.output() == [("a", 0, 10, [3]), ("a", 10, 20, [10])]


def test_dropped_records_are_counted_and_the_first_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with windows(tumbling(10)) as harness, caplog.at_level(logging.WARNING):
        harness.watermark(25)
        push(harness, 3, 4, 5)
        assert dropped(harness) == 3
        [message] = logged_here(caplog)
        for part in ("TumblingEventTimeWindows", "event time is 3", "watermark 25", "22 ms"):
            assert part in message


def test_late_records_go_to_the_side_output_with_their_timestamps() -> None:
    with windows(tumbling(10), lambda windowed: windowed.side_output_late_data(LATE).apply(Show())) as harness:
        harness.watermark(15)
        push(harness, 3, 12, 9)
        assert harness.side_output_with_timestamps(LATE) == [(("a", 3), 3), (("a", 9), 9)]
        assert dropped(harness) == 0
        harness.watermark(19)
        assert harness.output() == [("a", 10, 20, [12])]


def test_allowed_lateness_fires_again_for_each_late_record() -> None:
    with windows(tumbling(10), lambda windowed: windowed.allowed_lateness(5).apply(Show())) as harness:
        push(harness, 1)
        harness.watermark(9)
        push(harness, 2)
        harness.watermark(13)
        push(harness, 3)
        harness.watermark(14)
        push(harness, 4)
        assert harness.output_with_timestamps() == [
            (("a", 0, 10, [1]), 9),
            (("a", 0, 10, [1, 2]), 9),
            (("a", 0, 10, [1, 2, 3]), 9),
        ]
        assert dropped(harness) == 1
        assert left(harness) == 0


def test_a_late_window_that_never_was_is_made_by_its_first_late_record() -> None:
    with windows(tumbling(10), lambda windowed: windowed.allowed_lateness(5).apply(Show())) as harness:
        harness.watermark(12)
        push(harness, 1)
        assert harness.output() == [("a", 0, 10, [1])]
        harness.watermark(14)
        assert len(harness.output()) == 1
        assert left(harness) == 0


def test_a_window_is_kept_until_its_end_plus_the_lateness() -> None:
    with windows(tumbling(10), lambda windowed: windowed.allowed_lateness(5).sum(1)) as harness:
        push(harness, 1)
        assert harness.timers() == [(9, "a"), (14, "a")]
        harness.watermark(13)
        assert harness.timers() == [(14, "a")]
        assert left(harness) == 2
        harness.watermark(14)
        assert left(harness) == 0


@pytest.mark.parametrize("lateness", [Time.milliseconds(5), Duration.of_millis(5), 5])
def test_lateness_in_any_form(lateness: Time) -> None:
    with windows(tumbling(10), lambda windowed: windowed.allowed_lateness(lateness).sum(1)) as harness:
        push(harness, 1)
        assert harness.timers()[-1] == (14, "a")


def test_negative_lateness_is_refused() -> None:
    with pytest.raises(ValueError, match="must not be negative"):
        windows(tumbling(10), lambda windowed: windowed.allowed_lateness(-1).sum(1))


def test_endless_lateness_never_cleans_up() -> None:
    with windows(tumbling(10), lambda windowed: windowed.allowed_lateness(MAX_TIME).sum(1)) as harness:
        push(harness, 1)
        assert harness.timers() == [(9, "a")]
        harness.watermark(1_000_000)
        push(harness, 2)
        assert harness.output() == [("a", 1), ("a", 3)]
        assert dropped(harness) == 0


def test_a_sliding_record_is_late_only_if_all_its_windows_are() -> None:
    with windows(sliding(10, 5), lambda windowed: windowed.side_output_late_data(LATE).apply(Show())) as harness:
        push(harness, 7)
        harness.watermark(10)
        push(harness, 8)
        assert harness.side_output(LATE) == []
        harness.watermark(14)
        push(harness, 9)
        assert harness.output() == [("a", 0, 10, [7]), ("a", 5, 15, [7, 8])]
        assert harness.side_output(LATE) == [("a", 9)]


def test_sliding_windows_with_lateness_fire_the_ended_and_keep_the_open() -> None:
    with windows(sliding(10, 5), lambda windowed: windowed.allowed_lateness(3).reduce(joined)) as harness:
        push(harness, 6)
        harness.watermark(9)
        push(harness, 7)
        harness.watermark(12)
        push(harness, 8)
        harness.watermark(100)
        assert harness.output() == [("a", 6), ("a", "6,7"), ("a", "6,7,8")]
        assert left(harness) == 0


def test_a_purged_window_starts_afresh_with_late_records() -> None:
    purging = PurgingTrigger.of(EventTimeTrigger.create())
    with windows(tumbling(10), lambda windowed: windowed.trigger(purging).allowed_lateness(5).apply(Show())) as harness:
        push(harness, 1, 2)
        harness.watermark(10)
        push(harness, 3)
        assert harness.output() == [("a", 0, 10, [1, 2]), ("a", 0, 10, [3])]
        harness.watermark(14)
        assert left(harness) == 0


def test_an_aggregate_continues_with_late_records() -> None:
    with windows(tumbling(10), lambda windowed: windowed.allowed_lateness(5).aggregate(Mean())) as harness:
        push(harness, 1, 3)
        harness.watermark(10)
        push(harness, 5)
        assert harness.output() == [2.0, 3.0]


def test_lateness_survives_a_restore() -> None:
    harness = windows(tumbling(10), lambda windowed: windowed.allowed_lateness(5).sum(1))
    push(harness, 1)
    harness.watermark(11)
    snapshot = harness.snapshot()
    harness.close()
    with harness.restore(snapshot) as again:
        push(again, 2)
        assert again.output() == [("a", 3)]
        again.watermark(14)
        push(again, 4)
        assert again.output() == [("a", 3)]
        assert dropped(again) == 1
        assert left(again) == 0


def test_without_event_time_nothing_is_late() -> None:
    for assigner in (TumblingProcessingTimeWindows.of(10), GlobalWindows.create()):
        with windows(assigner, lambda windowed: windowed.trigger(CountTrigger.of(1)).sum(1)) as harness:
            harness.watermark(1000)
            push(harness, 3)
            assert harness.output() == [("a", 3)]
            assert dropped(harness) == 0


def test_a_processing_time_trigger_over_event_time_windows() -> None:
    def build(keyed: object) -> object:
        return keyed.window(tumbling(10)).trigger(ProcessingTimeTrigger.create()).sum(1)  # type: ignore[attr-defined]

    with KeyedHarness(build, key_selector=0) as harness:
        push(harness, 1)
        harness.watermark(9)  # the window is over and gone, without having fired
        harness.set_processing_time(9)
        assert harness.output() == []
        assert left(harness) == 0


def test_a_late_session_record_that_touches_an_open_session_is_not_late() -> None:
    with windows(
        EventTimeSessionWindows.with_gap(10), lambda windowed: windowed.side_output_late_data(LATE).apply(Show())
    ) as harness:
        push(harness, 20)
        harness.watermark(25)
        push(harness, 12, 1)
        assert harness.side_output(LATE) == [("a", 1)]
        harness.watermark(29)
        assert harness.output() == [("a", 12, 30, [20, 12])]
        assert left(harness) == 0
