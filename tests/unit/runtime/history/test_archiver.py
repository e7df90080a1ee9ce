"""Jobs leave records of themselves, however they end, without secrets; and do not depend on it."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from tests.waiting import eventually
from tidemill.common import Configuration, JobStatus, RestartStrategies
from tidemill.common.job_client import JobClient
from tidemill.datastream import StreamExecutionEnvironment
from tidemill.errors import CheckpointError, ConfigurationError, JobCancelledError, UserCodeError
from tidemill.runtime.history import archiver
from tidemill.runtime.history.archive import HistoryFiles, RecordName
from tidemill.runtime.history.job_record import JobRecord

SECRET = "hunter2"  # noqa: S105


def start(
    folder: Path,
    function: Callable[[int], Any] = str,
    last: int = 10,
    settings: Mapping[str, str] = MappingProxyType({}),
) -> JobClient:
    configuration = Configuration.from_dict(
        {
            "execution.target": "local",
            "execution.checkpointing.dir": str(folder),
            "execution.job-id": "shop",
            "execution.epoch.max-records": "5",
            "history.interval": "1 s",
            "user.password": SECRET,
            "user.url": f"jdbc://me:{SECRET}@db",
            **settings,
        }
    )
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_restart_strategy(RestartStrategies.no_restart())
    env.from_sequence(1, last).uid("numbers").map(function).name(f"token={SECRET}").filter(lambda _: False).print()
    return env.execute_async(f"shop, password={SECRET}")


def records(folder: Path) -> dict[RecordName, JobRecord]:
    archive = HistoryFiles.at(str(folder / "_history"), Configuration())
    return {name: archive.read(name) for name in archive.names()}


def only(folder: Path) -> JobRecord:
    (found,) = records(folder).values()
    return found


def test_a_finished_job(tmp_path: Path) -> None:
    start(tmp_path).get_job_execution_result().result(60)
    ((name, found),) = records(tmp_path).items()  # written before the result is there
    assert (found.status, name.ended) == (JobStatus.FINISHED, found.written)
    assert [stats.epoch for stats in found.epochs] == list(range(1, found.checkpoints.completed + 1))
    assert sum(stats.records_in for stats in found.epochs) == 10
    assert found.accumulators["numbers.numRecordsOut"] == 10
    assert [chain.head.uid for chain in found.plan.chains] == ["numbers"]
    assert set(found.entered) == {JobStatus.CREATED, JobStatus.RUNNING, JobStatus.FINISHED}


def test_a_failed_job_with_its_exception(tmp_path: Path) -> None:
    def fail(number: int) -> int:
        raise ValueError(f"no {number}, password={SECRET}")

    with pytest.raises(UserCodeError):
        start(tmp_path, fail).get_job_execution_result().result(60)
    found = only(tmp_path)
    assert found.status is JobStatus.FAILED
    (entry,) = found.exceptions
    assert entry.exception == "ValueError: no 1, password=******"
    assert entry.followed_by == "the job was not started again"


def test_a_cancelled_job_even_if_its_checkpoints_are_deleted(tmp_path: Path) -> None:
    retention = {"execution.checkpointing.externalized-checkpoint-retention": "DELETE_ON_CANCELLATION"}
    job = start(tmp_path, last=10_000_000, settings=retention)
    eventually(lambda: job.get_checkpoint_history().completed > 2)
    job.cancel().result(60)
    with pytest.raises(JobCancelledError):
        job.get_job_execution_result().result(60)
    found = only(tmp_path)
    assert found.status is JobStatus.CANCELED
    assert found.checkpoints.completed > 2


def test_no_secret_is_recorded(tmp_path: Path) -> None:
    start(tmp_path).get_job_execution_result().result(60)
    (file,) = (tmp_path / "_history").rglob("*.json")
    text = file.read_text()
    assert SECRET not in text
    assert json.loads(text)["configuration"]["user.password"] == "******"
    assert "token=******" in text


def test_a_running_job_is_recorded_from_time_to_time(tmp_path: Path) -> None:
    job = start(tmp_path, last=10_000_000)
    try:
        first = eventually(lambda: list(records(tmp_path).values()))[0]
        assert first.status in (JobStatus.CREATED, JobStatus.RUNNING)
        eventually(lambda: only(tmp_path).written > first.written)
        later = only(tmp_path)
        assert later.status is JobStatus.RUNNING
        assert len(later.epochs) > 0
    finally:
        job.cancel().result(60)
    assert [name.ended is not None for name in records(tmp_path)] == [True]


def test_each_start_has_its_own_record(tmp_path: Path) -> None:
    for _ in range(2):
        start(tmp_path).get_job_execution_result().result(60)
    assert len(records(tmp_path)) == 2
    start(tmp_path, settings={"historyserver.archive.retained-jobs": "1"}).get_job_execution_result().result(60)
    assert len(records(tmp_path)) == 1


def test_where_there_is_no_place_for_it_nothing_is_written(tmp_path: Path) -> None:
    start(tmp_path, settings={"history.enabled": "false"}).get_job_execution_result().result(60)
    assert not (tmp_path / "_history").exists()


def test_the_job_does_not_depend_on_its_history(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise CheckpointError("the disk is full")

    monkeypatch.setattr(HistoryFiles, "write", fail)
    with caplog.at_level(logging.WARNING, archiver.log.name):
        start(tmp_path).get_job_execution_result().result(60)
    told = [record.getMessage() for record in caplog.records]
    assert told
    assert set(told) == {"the history of job shop cannot be written, the job continues: the disk is full"}
    assert len(told) <= 2, "the first failure, and that at the end"


def test_a_place_that_cannot_be_one_is_reported_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="scheme 'ftp'"):
        start(tmp_path, settings={"jobmanager.archive.fs.dir": "ftp://somewhere"})
