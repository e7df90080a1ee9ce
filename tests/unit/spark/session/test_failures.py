"""Spark's failures in our words."""

from __future__ import annotations

import pytest
from pyspark.errors import PySparkException

from tidemill.errors import JobExecutionError
from tidemill.spark.session.failures import summary, translated

LOST = (
    "Job aborted due to stage failure: Task 1 in stage 0.0 failed 4 times, most recent failure: Lost task 1.3 in "
    "stage 0.0 (TID 7) (10.0.0.3 executor 2): ExecutorLostFailure (executor 2 exited caused by one of the running "
    "tasks) Reason: Command exited with code 52"
)


@pytest.mark.parametrize("text", [LOST, "java.lang.OutOfMemoryError: Java heap space", "The exit code: 52"])
def test_what_helps_when_spark_runs_out_of_memory_is_said(text: str) -> None:
    with pytest.raises(JobExecutionError, match=r"spark\.driver\.memory .* spark\.executor\.memory"), translated():
        raise PySparkException(text)


@pytest.mark.parametrize("text", ["Command exited with code 1", "line 52 of the file", "code 5200"])
def test_nothing_is_said_of_memory_otherwise(text: str) -> None:
    assert "memory" not in summary(PySparkException(text))
