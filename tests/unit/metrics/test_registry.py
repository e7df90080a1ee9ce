"""The registry: what is counted, set and seen, as a snapshot shows it."""

from __future__ import annotations

import threading

import pytest

from tests.own_logs import logged_here
from tidemill.common.reports.metric_value import HistogramValue, MetricKind, MetricScope
from tidemill.metrics.registry import OTHER, MetricPlace, MetricRegistry
from tidemill.metrics.summary import Summary


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def registry(clock: Clock) -> MetricRegistry:
    return MetricRegistry("id", "job", most_subtasks=3, clock=clock, wall_clock=lambda: 77)


def at(subtask: int | None, operator: str = "count") -> MetricPlace:
    return MetricPlace(MetricScope.OPERATOR, operator, subtask)


def test_counts_are_added_up_and_can_go_down(registry: MetricRegistry) -> None:
    for increment in (5, -2, 4):
        registry.count(at(0), "open", increment)
    registry.count(at(1), "open", 1)
    snapshot = registry.snapshot()
    assert (snapshot.job_id, snapshot.job_name, snapshot.timestamp) == ("id", "job", 77)
    assert snapshot.get("open", subtask=0) == 7
    assert snapshot.total("open") == 8


def test_a_system_counter_has_its_rate_beside_it(registry: MetricRegistry, clock: Clock) -> None:
    for _ in range(20):
        clock.now += 1
        registry.count(at(0), "numRecordsIn", 10)
        registry.count(at(0), "users", 10)
    snapshot = registry.snapshot()
    assert snapshot.get("numRecordsIn") == 200
    assert snapshot.get("numRecordsInPerSecond") == pytest.approx(10)
    assert not snapshot.find("usersPerSecond")


def test_a_rate_is_that_of_the_last_minute(registry: MetricRegistry, clock: Clock) -> None:
    """Ten minutes at 100 a second, then a minute at 10, then nothing."""
    for records, seconds in ((100, 600), (10, 60)):
        for _ in range(seconds):
            clock.now += 1
            registry.count(at(0), "numRecordsIn", records)
    rate = registry.snapshot().total("numRecordsInPerSecond")
    assert 10 <= rate < 20, "but for a twelfth of the minute, by which the window is late"
    clock.now += 90
    assert registry.snapshot().get("numRecordsInPerSecond") == 0


def test_a_meter_shows_its_rate_over_its_own_span(registry: MetricRegistry, clock: Clock) -> None:
    meter = registry.series(at(0), "events", span=10)
    for _ in range(30):
        clock.now += 1
        meter.add(2)
    (shown,) = registry.snapshot().find("events")
    assert (shown.kind, shown.events) == (MetricKind.METER, 60)
    assert shown.value == pytest.approx(2, rel=0.1)


def test_a_gauge_is_what_it_was_set_to_or_says_now(registry: MetricRegistry) -> None:
    registry.gauge(at(0), "depth", 3)
    registry.gauge(at(0), "depth", 4)
    answers: list[float | None] = [None, 9.0]
    registry.gauge(MetricPlace(), "uptime", lambda: answers.pop(0))
    snapshot = registry.snapshot()
    assert snapshot.get("depth") == 4
    assert not snapshot.find("uptime"), "there was nothing to say"
    assert registry.snapshot().get("uptime") == 9


def test_variables_distinguish_metrics_of_one_name(registry: MetricRegistry) -> None:
    for state, entries in (("a", 1), ("b", 2)):
        registry.gauge(at(0), "stateEntries", entries, (("state", state),))
    snapshot = registry.snapshot()
    assert snapshot.get("stateEntries", variables={"state": "b"}) == 2
    assert snapshot.total("stateEntries") == 3
    with pytest.raises(KeyError, match="2 metrics are called 'stateEntries'"):
        snapshot.get("stateEntries")


def test_subtasks_beyond_the_bound_are_counted_together_and_have_no_gauges(registry: MetricRegistry) -> None:
    for subtask in range(1000):
        registry.count(at(subtask), "open", 1)
        registry.gauge(at(subtask), "depth", subtask)
    snapshot = registry.snapshot()
    assert {value.subtask: value.value for value in snapshot.find("open")} == {0: 1, 1: 1, 2: 1, OTHER: 997}
    assert [value.subtask for value in snapshot.find("depth")] == [0, 1, 2]
    assert snapshot.total("open") == 1000


def test_gauges_of_subtasks_that_are_gone_are_forgotten_and_their_counts_are_not(registry: MetricRegistry) -> None:
    for subtask in range(3):
        registry.count(at(subtask), "open", 1)
        registry.gauge(at(subtask), "depth", 1)
        registry.gauge(at(subtask, "other"), "depth", 1)
    registry.forget_gauges(frozenset({"count"}), width=1)
    snapshot = registry.snapshot()
    assert [value.subtask for value in snapshot.find("depth", operator="count")] == [0]
    assert snapshot.total("depth", operator="other") == 3
    assert snapshot.total("open") == 3


def test_values_of_several_are_summed_up(registry: MetricRegistry) -> None:
    for values in ((1.0, 2.0), (300.0,)):
        seen = Summary(spread=True)
        for value in values:
            seen.update(value)
        registry.summary(at(None), "size", seen.packed())
    found = registry.snapshot().get("size")
    assert isinstance(found, HistogramValue)
    assert (found.count, found.sum, found.min, found.max) == (3, 303.0, 1.0, 300.0)


def test_the_number_of_metrics_is_bounded(
    registry: MetricRegistry, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("tidemill.metrics.registry._MOST", 10)
    for day in range(100):
        registry.count(at(0), f"day-{day}", 1)
        registry.gauge(at(0), f"depth-{day}", 1)
        registry.observe(at(None), f"size-{day}", 1)
    assert len(registry.snapshot().values) == 10
    assert len(logged_here(caplog)) == 1
    registry.count(at(0), "day-0", 1)
    assert registry.snapshot().get("day-0") == 2, "those that are known go on"


def test_an_update_is_seen_whole_or_not_at_all(registry: MetricRegistry) -> None:
    in_the_middle, seen = threading.Event(), threading.Event()
    found: list[float] = []

    def look() -> None:
        assert in_the_middle.wait(60)
        seen.set()
        found.append(registry.snapshot().total("open"))

    thread = threading.Thread(target=look)
    thread.start()
    with registry.update():
        registry.count(at(0), "open", 1)
        in_the_middle.set()
        assert seen.wait(60)
        registry.count(at(1), "open", 1)
    thread.join()
    assert found == [2]


def test_frequent_readers_request_some_names_only() -> None:
    registry = MetricRegistry("id", "job")
    asked: list[str] = []

    def slow() -> float:
        asked.append("slow")
        return 1.0

    registry.count(MetricPlace(MetricScope.TASK, "count", 0), "numRecordsIn", 5)
    registry.gauge(MetricPlace(), "currentEpoch", 7)
    registry.gauge(MetricPlace(), "slow", slow)
    registry.observe(MetricPlace(), "epochDuration", 3.0)
    some = registry.snapshot({"numRecordsInPerSecond", "currentEpoch"})
    assert sorted(value.name for value in some) == ["currentEpoch", "numRecordsInPerSecond"]
    assert not asked, "a function that is not wanted is not asked"
    assert {value.name for value in some} < {value.name for value in registry.snapshot()}
