"""Metrics in a worker: what functions register, and what an instance reports at the end of an epoch."""

from __future__ import annotations

import pytest

from tests.own_logs import logged_here
from tidemill.runtime.observe.metrics import MOST_METRICS, OperatorMetrics


@pytest.fixture
def metrics() -> OperatorMetrics:
    return OperatorMetrics("operator 'o'")


def test_a_report_has_what_was_counted_since_the_last_one(metrics: OperatorMetrics) -> None:
    counter = metrics.group.counter("hits")
    meter = metrics.group.meter("events", 5)
    counter.inc(4)
    counter.dec()
    meter.mark_event()
    first = metrics.report("uid")
    assert (first.uid, first.counts, first.spans) == ("uid", {"hits": 3, "events": 1}, {"events": 5})
    counter.inc()
    meter.mark_event(2)
    assert metrics.report("uid").counts == {"hits": 1, "events": 2}
    assert (counter.get_count(), meter.get_count()) == (4, 3)


def test_values_are_summed_up_from_one_report_to_the_next(metrics: OperatorMetrics) -> None:
    sizes, times = metrics.group.distribution("sizes"), metrics.group.histogram("times")
    for value in (3, 1, 8):
        sizes.update(value)
        times.update(value)
    report = metrics.report("uid")
    assert [report.summaries[name][:4] for name in ("sizes", "times")] == [(3, 12.0, 1, 8)] * 2
    assert report.summaries["sizes"][4] is None
    assert sum((report.summaries["times"][4] or {}).values()) == 3
    assert report.committed() == {"sizes_count": 3, "sizes_sum": 12, "times_count": 3, "times_sum": 12}
    assert metrics.report("uid").summaries == {}, "nothing came since"
    times.update(1)
    assert times.get_count() == 4


def test_groups_put_names_before_and_make_variables(metrics: OperatorMetrics) -> None:
    group = metrics.group.add_group("shop").add_group("country", "fr")
    group.counter("orders").inc()
    group.gauge("open", lambda: 2)
    report = metrics.report("uid")
    assert report.counts == {"shop.country.fr.orders": 1}
    assert report.gauges == {"shop.country.fr.open": 2.0}
    assert report.variables["shop.country.fr.orders"] == ("shop.country.orders", (("country", "fr"),))


def test_a_name_requested_twice_is_one_metric(metrics: OperatorMetrics) -> None:
    assert metrics.group.counter("a") is metrics.group.counter("a")
    assert metrics.group.meter("m") is metrics.group.meter("m", 5)
    assert metrics.group.add_group("g").histogram("h") is metrics.group.add_group("g").histogram("h")
    metrics.group.gauge("g", lambda: 1)
    metrics.group.gauge("g", lambda: 2)
    assert metrics.report("uid").gauges == {"g": 2.0}


def test_a_gauge_that_raises_is_left_out_and_reported_once(
    metrics: OperatorMetrics, caplog: pytest.LogCaptureFixture
) -> None:
    metrics.group.gauge("bad", lambda: 1 // 0)
    metrics.group.gauge("word", lambda: "x")  # type: ignore[arg-type, return-value]
    metrics.group.gauge("good", lambda: 1)
    for _ in range(3):
        assert metrics.report("uid").gauges == {"good": 1.0}
    told = logged_here(caplog)
    assert told[0].startswith("operator 'o': metric 'bad' is not reported: its function raised ZeroDivisionError")
    assert len(told) == 2


@pytest.mark.parametrize("name", ["numRecordsIn", "numRecordsInPerSecond", "stateEntries", "numLateRecordsDropped"])
def test_a_function_cannot_count_in_place_of_the_operator(
    metrics: OperatorMetrics, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    late = metrics.counter("numLateRecordsDropped")
    late.inc()
    mine = metrics.group.counter(name)
    mine.inc(100)
    assert mine.get_count() == 100, "the function may go on using it"
    assert metrics.report("uid").counts == {"numLateRecordsDropped": 1}
    assert f"metric {name!r} is not reported: the operator itself has a metric with this name" in caplog.text


def test_one_name_is_of_one_kind(metrics: OperatorMetrics, caplog: pytest.LogCaptureFixture) -> None:
    metrics.group.counter("x").inc()
    metrics.group.meter("x").mark_event(50)
    assert metrics.report("uid").counts == {"x": 1}
    assert "a metric of another kind has the same name" in caplog.text


def test_the_number_of_metrics_is_bounded(metrics: OperatorMetrics, caplog: pytest.LogCaptureFixture) -> None:
    """A group for each user, by mistake: the job continues, the driver's memory does not grow."""
    for user in range(3 * MOST_METRICS):
        metrics.group.add_group("user", str(user)).counter("clicks").inc()
    report = metrics.report("uid")
    assert len(report.counts) == len(report.variables) == MOST_METRICS
    assert len(logged_here(caplog)) == 1
    assert "must not contain a key, a user or a time" in caplog.text


def test_what_was_counted_can_be_taken_back(metrics: OperatorMetrics) -> None:
    counter, times = metrics.group.counter("c"), metrics.group.histogram("h")
    counter.inc()
    times.update(5)
    undo = metrics.undo_point()
    counter.inc(10)
    times.update(50)
    undo()
    report = metrics.report("uid")
    assert report.counts == {"c": 1}
    assert report.summaries["h"][:4] == (1, 5.0, 5.0, 5.0)
