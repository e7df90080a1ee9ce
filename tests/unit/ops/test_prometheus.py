"""The Prometheus endpoint: real requests over loopback, and scrapers that behave badly."""

from __future__ import annotations

import math
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_open
from prometheus_client.parser import text_string_to_metric_families as parse

from tests.waiting import eventually
from tidemill.common.reports.metric_value import MetricScope
from tidemill.errors import ConfigurationError
from tidemill.metrics.registry import MetricPlace, MetricRegistry
from tidemill.metrics.summary import COARSE_BOUNDS, Summary
from tidemill.ops import prometheus
from tidemill.ops.prometheus import PrometheusReporter
from tidemill.ops.prometheus_format import families_of

FREE = "0"  # the system chooses


@pytest.fixture
def registry() -> MetricRegistry:
    registry = MetricRegistry("id-1", 'a "quoted" job')
    registry.name(MetricScope.OPERATOR, "uid", "Count")
    place = MetricPlace(MetricScope.OPERATOR, "uid", 2)
    registry.count(place, "numRecordsIn", 5)
    registry.series(place, "orders.too-late").add(-1)
    registry.series(place, "seen", span=60).add(8)
    registry.gauge(place, "stateEntries", 7, (("state", "kept"),))
    registry.gauge(place, "open", 1, (("job_id", "mine"), ("1st", "x")))
    seen = Summary(spread=True)
    for value in (0.5, 3, 3, 4000):
        seen.update(value)
    registry.summary(place._replace(subtask=None), "size", seen.packed())
    few = Summary(spread=False)
    few.update(4)
    registry.summary(place._replace(subtask=None), "few", few.packed())
    registry.gauge(MetricPlace(), "currentEpoch", 9)
    return registry


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prometheus, "_FRESH", 0.0)


@pytest.fixture
def reporter(registry: MetricRegistry) -> Iterator[PrometheusReporter]:
    made = PrometheusReporter()
    made.open(registry, {"port": FREE})
    yield made
    made.close()


def get(port: int, path: str = "/metrics", headers: Mapping[str, str] | None = None) -> tuple[int, str]:
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", headers=dict(headers or {}))
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310 - of this machine
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, ""


def samples(text: str) -> dict[str, list[tuple[dict[str, str], float]]]:
    found: dict[str, list[tuple[dict[str, str], float]]] = {}
    for family in parse(text):
        for sample in family.samples:
            found.setdefault(sample.name, []).append((sample.labels, sample.value))
    return found


def test_what_a_job_measures_can_be_scraped(reporter: PrometheusReporter) -> None:
    status, text = get(reporter.port)
    assert status == 200
    found = samples(text)
    labels = {
        "job_id": "id-1",
        "job_name": 'a "quoted" job',
        "operator_id": "uid",
        "operator_name": "Count",
        "subtask_index": "2",
    }
    assert found["tidemill_operator_numRecordsIn_total"] == [(labels, 5.0)]
    assert found["tidemill_operator_orders_too_late"] == [(labels, -1.0)], "a user's counter may go down"
    assert found["tidemill_operator_seen_events_total"] == [(labels, 8.0)]
    assert found["tidemill_operator_stateEntries"] == [({**labels, "state": "kept"}, 7.0)]
    assert found["tidemill_operator_open"] == [({**labels, "user_job_id": "mine", "user_1st": "x"}, 1.0)]
    assert found["tidemill_job_currentEpoch"] == [({"job_id": "id-1", "job_name": 'a "quoted" job'}, 9.0)]
    assert "process_resident_memory_bytes" in found
    assert "HELP tidemill_operator_numRecordsIn_total records received; for a source, records read" in text


def test_a_histogram_has_the_same_buckets_whatever_was_seen(reporter: PrometheusReporter) -> None:
    found = samples(get(reporter.port)[1])
    counts = {float(labels["le"]): count for labels, count in found["tidemill_operator_size_bucket"]}
    assert set(counts) == {*COARSE_BOUNDS, math.inf}
    assert [counts[bound] for bound in (0.2, 0.5, 2, 5, 2000, 5000, math.inf)] == [0, 1, 1, 3, 3, 4, 4]
    assert found["tidemill_operator_size_count"][0][1] == 4
    assert found["tidemill_operator_size_max"][0][1] == 4000
    assert found["tidemill_operator_few_sum"][0][1] == 4
    assert "subtask_index" not in found["tidemill_operator_few_min"][0][0]


def test_open_metrics_are_spoken_too(reporter: PrometheusReporter) -> None:
    _, text = get(reporter.port, headers={"Accept": "application/openmetrics-text; version=1.0.0"})
    assert text.endswith("# EOF\n")
    assert "tidemill_operator_numRecordsIn" in {family.name for family in parse_open(text)}  # type: ignore[no-untyped-call]


def test_names_that_are_equal_for_prometheus_do_not_break_it(registry: MetricRegistry) -> None:
    place = MetricPlace(MetricScope.OPERATOR, "uid", 0)
    registry.count(place, "a.b", 1)
    registry.series(place, "a-b", span=60).add(1)
    names = [family.name for family in families_of([registry.snapshot()])]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(("path", "status"), [("/", 200), ("/metrics?name[]=x", 200), ("/etc/passwd", 404)])
def test_there_is_one_page(reporter: PrometheusReporter, path: str, status: int) -> None:
    assert get(reporter.port, path)[0] == status


@pytest.mark.parametrize(
    ("host", "status"),
    [("localhost:1", 200), ("127.0.0.1", 200), ("[::1]:9249", 200), ("evil.example.org", 403), ("10.0.0.1:80", 403)],
)
def test_on_loopback_it_answers_to_no_other_name(reporter: PrometheusReporter, host: str, status: int) -> None:
    assert get(reporter.port, headers={"Host": host})[0] == status


def test_with_a_token_only_who_has_it_is_answered(registry: MetricRegistry, tmp_path: Path) -> None:
    secret = tmp_path / "token"
    secret.write_text("s3cret\n")
    secret.chmod(0o600)
    reporter = PrometheusReporter()
    reporter.open(registry, {"port": FREE, "token": f"file:{secret}"})
    try:
        assert get(reporter.port)[0] == 401
        assert get(reporter.port, headers={"Authorization": "Bearer wrong"})[0] == 401
        assert get(reporter.port, headers={"Authorization": "Bearer s3cret"})[0] == 200
    finally:
        reporter.close()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"host": "192.0.2.1"}, r"can be reached from other machines: set metrics\.reporter\.prom\.token"),
        ({"port": "70000"}, "'70000' for configuration key 'metrics.reporter.prom.port'"),
        ({"port": "9-1"}, "it must be a port, or a range"),
        ({"token": "env:TIDEMILL_NO_SUCH_VARIABLE"}, "there is no environment variable TIDEMILL_NO_SUCH_VARIABLE"),
        ({"token": "file:/no/such/file"}, "token cannot be found"),
        ({"token": "s3cret"}, "must specify where the token is stored"),
    ],
)
def test_options_that_cannot_be_are_refused(registry: MetricRegistry, options: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        PrometheusReporter().open(registry, options)


def test_jobs_of_one_process_share_an_address(reporter: PrometheusReporter, registry: MetricRegistry) -> None:
    other, job = PrometheusReporter(), MetricRegistry("id-2", "other")
    job.gauge(MetricPlace(), "currentEpoch", 1)
    other.open(job, {"port": FREE})
    assert other.port == reporter.port
    epochs = samples(get(reporter.port)[1])["tidemill_job_currentEpoch"]
    assert {labels["job_id"]: value for labels, value in epochs} == {"id-1": 9, "id-2": 1}
    other.close()
    assert len(samples(get(reporter.port)[1])["tidemill_job_currentEpoch"]) == 1


def test_the_first_free_port_of_a_range_is_taken(registry: MetricRegistry) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(OSError, match=f"cannot listen on any port of {port} on 127.0.0.1"):
            PrometheusReporter().open(registry, {"port": str(port)})
        reporter = PrometheusReporter()
        reporter.open(registry, {"port": f"{port}-{min(port + 20, 65535)}"})
        assert reporter.port > port
        reporter.close()


def test_scrapers_that_hang_are_disconnected_and_hold_up_no_other(
    registry: MetricRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    reporter = PrometheusReporter()
    reporter.open(registry, {"port": FREE})

    def silent() -> socket.socket:
        return stack.enter_context(socket.create_connection(("127.0.0.1", reporter.port), timeout=60))

    try:
        with ExitStack() as stack:
            monkeypatch.setattr(prometheus._Handler, "timeout", 600.0)
            for _ in range(prometheus._MOST_AT_ONCE):
                silent()
            # They are taken in the order in which they came, before who asks now.
            assert get(reporter.port)[0] == 503, "all places are taken by those who say nothing"
            registry.count(MetricPlace(), "numEpochs", 1)  # nor does a job wait for them
        eventually(lambda: get(reporter.port)[0] == 200)
        with ExitStack() as stack:
            monkeypatch.setattr(prometheus._Handler, "timeout", 0.05)
            eventually(lambda: silent().recv(1) == b"")  # at first it may find no place
            monkeypatch.setattr(prometheus._Handler, "timeout", 600.0)
            eventually(lambda: get(reporter.port)[0] == 200)
    finally:
        reporter.close()


def test_many_scrapes_cost_one_look_a_second(
    reporter: PrometheusReporter, registry: MetricRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prometheus, "_FRESH", 60.0)
    before = get(reporter.port)[1]
    registry.gauge(MetricPlace(), "currentEpoch", 10)
    assert get(reporter.port)[1] == before
