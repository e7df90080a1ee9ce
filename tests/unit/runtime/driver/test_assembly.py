"""A job is put together in one way: what it opened is released, also if a later step of its start fails."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

import pytest

from tidemill import faults
from tidemill.checkpoint.names import SNAPSHOTS
from tidemill.common import Configuration, Types
from tidemill.common.reports.metric_value import MetricSnapshot
from tidemill.datastream import StreamExecutionEnvironment
from tidemill.errors import ConfigurationError, JobExecutionError
from tidemill.metrics.registry import MetricRegistry
from tidemill.metrics.reporter import MetricReporter
from tidemill.runtime.driver import queryable_service
from tidemill.testing import JobHarness

WITH_REPORTER = {"metrics.reporter.mine.factory.class": f"{__name__}.Open"}
WITH_QUERIES = {"queryable-state.enable": "true"}


class Open(MetricReporter):
    """A reporter that is open or not."""

    now = 0

    def open(self, registry: MetricRegistry, options: Mapping[str, str]) -> None:
        Open.now += 1

    def report(self, snapshot: MetricSnapshot) -> None:
        pass

    def close(self) -> None:
        Open.now -= 1


class Server:
    """In place of the server of queryable state."""

    running = 0

    def __init__(self, *arguments: Any, **options: Any) -> None:
        Server.running += 1

    def is_running(self) -> bool:
        return True

    def close(self) -> None:
        Server.running -= 1


@pytest.fixture(autouse=True)
def scratch(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Where jobs without a directory keep what they have."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(Open, "now", 0)
    monkeypatch.setattr(Server, "running", 0)
    monkeypatch.setattr(queryable_service, "_running", {})
    return tmp_path


def execute(**configuration: str) -> None:
    env = StreamExecutionEnvironment(Configuration.from_dict({"execution.target": "local", **configuration}))
    env.from_collection([1, 2]).print()
    env.execute()


def fail(*_: Any, **__: Any) -> NoReturn:
    raise OSError("no more processes")


def test_a_job_that_has_ended_has_released_everything(monkeypatch: pytest.MonkeyPatch, scratch: Path) -> None:
    monkeypatch.setattr(queryable_service, "QueryableService", Server)
    execute(**WITH_REPORTER, **WITH_QUERIES)
    assert (Open.now, Server.running, list(scratch.iterdir())) == (0, 0, [])


def test_reporters_are_closed_if_queryable_state_cannot_be_started(
    monkeypatch: pytest.MonkeyPatch, scratch: Path
) -> None:
    monkeypatch.setattr(queryable_service, "QueryableService", fail)
    with pytest.raises(OSError, match="no more processes"):
        execute(**WITH_REPORTER, **WITH_QUERIES)
    assert (Open.now, list(scratch.iterdir())) == (0, [])


@pytest.mark.parametrize(
    "wrong",
    [
        {"state.backend.type": "no.such.Backend"},
        {"metrics.reporter.other.factory.class": "no.such.Reporter"},
    ],
    ids=["state-backend", "reporter"],
)
def test_nothing_is_left_of_a_job_that_is_configured_wrongly(
    monkeypatch: pytest.MonkeyPatch, scratch: Path, wrong: dict[str, str]
) -> None:
    monkeypatch.setattr(queryable_service, "QueryableService", Server)
    with pytest.raises(ConfigurationError):
        execute(**WITH_REPORTER, **WITH_QUERIES, **wrong)
    assert (Open.now, Server.running, list(scratch.iterdir())) == (0, 0, [])


def test_no_server_is_started_for_a_durable_job_that_is_configured_wrongly(
    monkeypatch: pytest.MonkeyPatch, scratch: Path
) -> None:
    """The server of a job with a directory outlives the job: it would serve one that never ran."""
    monkeypatch.setattr(queryable_service, "QueryableService", Server)
    wrong = {"metrics.reporter.other.factory.class": "no.such.Reporter"}
    with pytest.raises(ConfigurationError):
        execute(**WITH_QUERIES, **wrong, **{"execution.checkpointing.dir": str(scratch / "checkpoints")})
    assert Server.running == 0


def test_the_rest_is_released_if_the_server_cannot_be_ended(monkeypatch: pytest.MonkeyPatch, scratch: Path) -> None:
    monkeypatch.setattr(queryable_service, "QueryableService", Server)
    monkeypatch.setattr(Server, "close", fail)
    execute(**WITH_REPORTER, **WITH_QUERIES)
    assert (Open.now, list(scratch.iterdir())) == (0, [])


def test_faults_of_the_environment_reach_a_job_without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEMILL_FAULTS", json.dumps([{"point": "manifest.before"}]))
    try:
        with pytest.raises((JobExecutionError, faults.InjectedFaultError), match=r"manifest\.before"):
            execute()
    finally:
        faults.install([])


def test_a_harness_merges_runs_in_the_form_that_is_configured() -> None:
    def count(env: StreamExecutionEnvironment, words: Any) -> Any:
        return words.map(lambda word: (word, 1), Types.TUPLE([Types.STRING(), Types.INT()])).key_by(0).sum(1)

    form = {"state.inline-delta-size": "0 b", "execution.runtime-mode": "STREAMING"}
    with JobHarness(count, inputs=["words"], configuration=form, merge_after=2) as job:
        for _ in range(4):
            job.epoch(words=["a", "b"])
        assert any(run.snapshot is not None for run in job.head.runs)
        assert [name for name in job.storage.list(SNAPSHOTS) if name.endswith(".tms")], "no file of its own"
