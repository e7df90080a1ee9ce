"""What a job reports before its engine starts."""

from __future__ import annotations

import errno
import os
import re
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.waiting import eventually
from tidemill.common import Configuration, Types, WatermarkStrategy
from tidemill.common.reports.exit_codes import ExitCode, exit_code_of
from tidemill.datastream import StreamExecutionEnvironment
from tidemill.datastream.connectors.datagen import DataGeneratorSource, RateLimiterStrategy
from tidemill.errors import CheckpointError, ConfigurationError, FencedError, NoSavepointError
from tidemill.runtime.driver.job import RunningJob
from tidemill.runtime.start.before_engine import check_before_engine


def configured(directory: Path, **more: str) -> Configuration:
    settings = {"execution.checkpointing.dir": str(directory), "execution.job-id": "shop", "execution.target": "local"}
    return Configuration.from_dict({**settings, **more})


def test_a_directory_that_cannot_be_written_is_a_configuration_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with ExitStack() as held, pytest.raises(ConfigurationError) as caught:
        check_before_engine(configured(tmp_path / "file"), held)
    assert f"{tmp_path}/file" in str(caught.value)
    assert "Set execution.checkpointing.dir to a directory that this user can write to" in str(caught.value)
    assert exit_code_of(caught.value) == ExitCode.UNFIT


def test_a_full_disk_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def write(handle: int, data: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("tidemill.checkpoint.storage.local.os.write", write)
    with ExitStack() as held, pytest.raises(CheckpointError) as caught:
        check_before_engine(configured(tmp_path), held)
    assert exit_code_of(caught.value) == ExitCode.FAILED, "it may have space again later"


@pytest.mark.parametrize("directory", [None, "checkpoints"])
def test_a_savepoint_that_is_not_there_is_found_and_nothing_is_created(tmp_path: Path, directory: str | None) -> None:
    configuration = configured(tmp_path / "checkpoints", **{"execution.state-recovery.path": str(tmp_path / "none")})
    if directory is None:
        configuration.remove_config("execution.checkpointing.dir")
    with ExitStack() as held, pytest.raises(NoSavepointError):
        check_before_engine(configuration, held)
    assert not (tmp_path / "checkpoints").exists()


def test_one_driver_at_a_time_unless_the_other_one_is_to_take_over(tmp_path: Path) -> None:
    with ExitStack() as first:
        assert check_before_engine(configured(tmp_path), first).job_id == "shop"
        with ExitStack() as second, pytest.raises(FencedError, match="job 'shop' is run by another driver"):
            check_before_engine(configured(tmp_path), second)
        with ExitStack() as second:
            check_before_engine(configured(tmp_path, **{"execution.take-over": "true"}), second)
        with ExitStack() as other:
            check_before_engine(configured(tmp_path, **{"execution.job-id": "other"}), other)
    with ExitStack() as next_one:
        check_before_engine(configured(tmp_path), next_one)


def test_a_job_says_from_which_epoch_it_goes_on(tmp_path: Path) -> None:
    def run(job_id: str, **more: str) -> tuple[str, int]:
        """Run a job until it has committed an epoch; return what it resumes from, and its last epoch."""
        configuration = configured(tmp_path, **{"execution.job-id": job_id, **more})
        env = StreamExecutionEnvironment.get_execution_environment(configuration)
        source = DataGeneratorSource(lambda number: number, None, RateLimiterStrategy.per_second(100), Types.LONG())
        stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
        stream.filter(lambda number: False).uid("none").print().uid("sink")
        client = env.execute_async("shop")
        assert isinstance(client, RunningJob)
        assert client.outline is not None
        eventually(lambda: client.epochs, what="an epoch")
        client.cancel().result()
        return client.outline.resumes, client.epochs[-1].epoch

    resumes, last = run("shop")
    assert resumes == ""
    resumes, _ = run("shop")
    assert re.fullmatch(rf"goes on from epoch {last} of 20\d\d-\d\d-\d\d \d\d:\d\d:\d\dZ", resumes)
    path = tmp_path / "shop"
    resumes, _ = run("copy", **{"execution.state-recovery.path": str(path)})
    assert re.match(rf"starts from {re.escape(str(path))}, epoch \d+ of 20", resumes)
