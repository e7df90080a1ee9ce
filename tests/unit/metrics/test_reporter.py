"""Reporters: chosen by Flink's keys, run beside the job, unable to do it harm."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Mapping
from typing import ClassVar

import pytest

from tests.waiting import eventually
from tidemill.common import Configuration
from tidemill.common.reports.metric_value import MetricSnapshot
from tidemill.errors import ConfigurationError
from tidemill.metrics import reporter as reporters
from tidemill.metrics.registry import MetricPlace, MetricRegistry
from tidemill.metrics.reporter import MetricReporter, start_reporters


class Noting(MetricReporter):
    made: ClassVar[list[Noting]] = []

    def __init__(self) -> None:
        Noting.made.append(self)
        self.told: list[float] = []
        self.closed = False

    def open(self, registry: MetricRegistry, options: Mapping[str, str]) -> None:
        self.options = dict(options)

    def report(self, snapshot: MetricSnapshot) -> None:
        self.told.append(snapshot.total("numEpochs"))

    def close(self) -> None:
        self.closed = True


class Failing(Noting):
    def report(self, snapshot: MetricSnapshot) -> None:
        super().report(snapshot)
        raise OSError("nobody listens")


class Unopened(Noting):
    def open(self, registry: MetricRegistry, options: Mapping[str, str]) -> None:
        raise OSError("no such host")


class Endless(Noting):
    gate = threading.Event()

    def report(self, snapshot: MetricSnapshot) -> None:
        self.gate.wait(120)


@pytest.fixture(autouse=True)
def forget(monkeypatch: pytest.MonkeyPatch) -> None:
    Noting.made.clear()
    monkeypatch.setattr(reporters, "_LAST_SECONDS", 60.0)


def configured(**keys: str) -> Configuration:
    configuration = Configuration()
    for key, value in keys.items():
        configuration.set_string("metrics." + key.replace("__", "."), value)
    return configuration


def class_of(reporter: type[MetricReporter]) -> str:
    return f"{reporter.__module__}.{reporter.__qualname__}"


@pytest.fixture
def registry() -> MetricRegistry:
    registry = MetricRegistry("id", "job")
    registry.count(MetricPlace(), "numEpochs", 3)
    return registry


def test_a_reporter_is_called_every_interval_and_at_the_end(registry: MetricRegistry) -> None:
    keys = {"reporter__mine__factory.class": class_of(Noting), "reporter__mine__url": "x"}
    running = start_reporters(configured(**keys, reporter__mine__interval="10 ms"), registry)
    (mine,) = Noting.made
    assert mine.options == {"factory.class": class_of(Noting), "url": "x", "interval": "10 ms"}
    eventually(lambda: len(mine.told) > 2)
    registry.count(MetricPlace(), "numEpochs", 1)
    running.close()
    assert mine.told[-1] == 4, "the last values are reported, however short the job was"
    assert mine.closed


def test_those_that_are_named_are_started_else_all(registry: MetricRegistry) -> None:
    keys = {f"reporter__{name}__factory.class": class_of(Noting) for name in ("a", "b")}
    start_reporters(configured(**keys), registry).close()
    assert len(Noting.made) == 2
    start_reporters(configured(**keys, reporters="b"), registry).close()
    assert len(Noting.made) == 3
    start_reporters(Configuration(), registry).close()
    assert len(Noting.made) == 3


def test_one_that_fails_is_called_again_and_logged_once(
    registry: MetricRegistry, caplog: pytest.LogCaptureFixture
) -> None:
    keys = {"reporter__bad__factory.class": class_of(Failing)}
    running = start_reporters(configured(**keys, reporter__bad__interval="5 ms"), registry)
    (bad,) = Noting.made
    eventually(lambda: len(bad.told) > 3)
    running.close()
    assert [record.getMessage() for record in caplog.records if record.name == reporters.log.name] == [
        "metric reporter 'bad' failed and will be called again: nobody listens"
    ]


def test_a_job_runs_without_one_that_cannot_be_opened(
    registry: MetricRegistry, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        start_reporters(configured(**{"reporter__bad__factory.class": class_of(Unopened)}), registry).close()
    assert "the job runs without metric reporter 'bad': no such host" in caplog.text


def test_the_end_of_a_job_does_not_wait_for_one_that_hangs(
    registry: MetricRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reporters, "_LAST_SECONDS", 0.05)
    keys = {"reporter__slow__factory.class": class_of(Endless)}
    running = start_reporters(configured(**keys, reporter__slow__interval="1 ms"), registry)
    running.close()
    assert all(thread.is_alive() for thread in running._threads), "it is left behind"
    Endless.gate.set()


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"reporters": "mine"}, r"'mine' has no class: set metrics\.reporter\.mine\.factory\.class"),
        (
            {"reporter__mine__factory.class": "no.such.Module"},
            "cannot be created from no.such.Module.*No module named 'no'",
        ),
        ({"reporter__mine__factory.class": "json.JSONDecoder"}, "is not a MetricReporter"),
        (
            {"reporter__mine__factory.class": class_of(Noting), "reporter__mine__interval": "often"},
            r"'often' for configuration key 'metrics\.reporter\.mine\.interval'",
        ),
    ],
)
def test_wrong_configuration_is_reported_before_the_job_starts(
    registry: MetricRegistry, keys: dict[str, str], message: str
) -> None:
    with pytest.raises(ConfigurationError, match=message):
        start_reporters(configured(**keys), registry)


def test_flinks_own_class_of_the_prometheus_reporter_is_ours(registry: MetricRegistry) -> None:
    name = "org.apache.flink.metrics.prometheus.PrometheusReporterFactory"
    keys = {"reporter__p__factory.class": name, "reporter__p__port": "nowhere"}
    with pytest.raises(ConfigurationError, match=r"'nowhere' for configuration key 'metrics\.reporter\.prom\.port'"):
        start_reporters(configured(**keys), registry)


def test_without_the_extra_the_error_names_what_to_install(
    registry: MetricRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.startswith(("prometheus_client", "tidemill.ops.prometheus"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    with pytest.raises(ConfigurationError, match=r"Install tidemill\[ops\]"):
        start_reporters(configured(reporter__prom__port="0"), registry)
