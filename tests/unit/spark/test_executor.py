"""A job that does not come to run gives back what it has taken."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tidemill.common import Configuration
from tidemill.errors import JobExecutionError
from tidemill.spark import executor
from tidemill.spark.executor import SparkExecutor


class FakeLease:
    session = SimpleNamespace(sparkContext=object())

    def __init__(self, configuration: Configuration) -> None:
        self.releases = 0

    def release(self) -> None:
        self.releases += 1

    def loss(self) -> JobExecutionError:
        return JobExecutionError("Spark is gone")


@pytest.mark.parametrize(
    ("is_lost", "told", "words"),
    [(False, ConnectionError, "does not answer"), (True, JobExecutionError, "Spark is gone")],
    ids=["another-error", "spark-died"],
)
def test_a_job_that_cannot_be_prepared_releases_its_session_and_reports_if_spark_has_died(
    monkeypatch: pytest.MonkeyPatch, is_lost: bool, told: type[Exception], words: str
) -> None:
    leases: list[FakeLease] = []

    def take(configuration: Configuration) -> FakeLease:
        leases.append(FakeLease(configuration))
        return leases[-1]

    def fail(*_: Any) -> None:
        raise ConnectionError("the JVM does not answer")

    monkeypatch.setattr(executor, "SessionLease", take)
    monkeypatch.setattr(executor, "is_lost", lambda context: is_lost)
    monkeypatch.setattr(SparkExecutor, "_prepare", fail)
    program: Any = SimpleNamespace(configuration=Configuration())
    with pytest.raises(told, match=words):
        SparkExecutor(Configuration()).execute_async(program)
    assert [lease.releases for lease in leases] == [1]
