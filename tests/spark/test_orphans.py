"""Nothing outlives a job: no process, no thread, no temporary directory, nothing inside Spark."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark.jobs import environment
from tests.spark.processes import Family, run, start, tail
from tests.spark.test_sources_and_sinks import Nowhere
from tests.waiting import eventually
from tidemill.datastream import DataStream, StreamExecutionEnvironment
from tidemill.errors import JobCancelledError, UserCodeError


def temporary(folder: Path) -> list[str]:
    return [path.name for path in folder.glob("tidemill-*")]


def ends(env: StreamExecutionEnvironment, stream: DataStream) -> None:
    stream.add_sink(Nowhere())
    env.execute("ends")


def fails(env: StreamExecutionEnvironment, stream: DataStream) -> None:
    stream.map(lambda n: 1 // (n - 5)).add_sink(Nowhere())
    with pytest.raises(UserCodeError):
        env.execute("fails")


def is_cancelled(env: StreamExecutionEnvironment, stream: DataStream) -> None:
    stream.add_sink(Nowhere())
    client = env.execute_async("is cancelled")
    eventually(lambda: bool(client.get_accumulators().result()))
    client.cancel().result(60)
    with pytest.raises(JobCancelledError):
        client.get_job_execution_result().result(60)


@pytest.mark.parametrize("way", [ends, fails, is_cancelled])
def test_a_job_leaves_nothing_in_its_process(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    way: Callable[[StreamExecutionEnvironment, DataStream], None],
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    context = spark.sparkContext
    env = environment({"execution.epoch.max-records": "20"})
    length = 100_000 if way is is_cancelled else 100
    way(env, env.from_sequence(1, length).key_by(lambda n: n % 3).map(lambda n: n))
    assert temporary(tmp_path) == []
    eventually(lambda: not [t.name for t in threading.enumerate() if t.name.startswith("tidemill-")], seconds=60)
    eventually(lambda: not context.statusTracker().getActiveJobsIds(), seconds=60)
    assert not spark.streams.active
    assert context._jsc.getPersistentRDDs().size() == 0


@pytest.mark.timeout(300)
def test_a_killed_driver_takes_everything_with_it_and_the_next_one_sweeps_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    log = tmp_path / "log"
    driver = start("endless_job.py", "stream", log=log)
    family = Family(driver.pid)
    try:
        eventually(lambda: "RUNNING" in tail(log), seconds=120)
        family.look()
    finally:
        driver.kill()
        driver.wait()
    family.wait_until_gone(log)
    assert len(temporary(tmp_path / "tmp")) == 2  # of the job, and Spark's own
    ended = run("endless_job.py", "loop", log=tmp_path / "log2")
    assert ended.code == 0, ended.text[-3000:]
    assert "CANCELLED" in ended.text
    assert temporary(tmp_path / "tmp") == []
