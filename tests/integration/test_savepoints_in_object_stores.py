"""Savepoints in an object store: taken of a job that keeps its checkpoints elsewhere, started from, moved, removed."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from tests.object_store import BUCKET, Proxy, Server
from tidemill.checkpoint.savepoint import METADATA, dispose_savepoint
from tidemill.checkpoint.storage.objects import ObjectStorage
from tidemill.checkpoint.storage.storages import LocalStorage
from tidemill.datastream import DataStream, StreamExecutionEnvironment
from tidemill.errors import CheckpointError
from tidemill.testing import JobHarness


def count(env: StreamExecutionEnvironment, words: DataStream) -> DataStream:
    return words.map(lambda word: (word, 1)).key_by(0).sum(1).uid("count")


def reached_by(options: dict[str, str]) -> dict[str, str]:
    return {"state.inline-delta-size": "0b", **{f"s3.{key}": value for key, value in options.items()}}


def test_a_savepoint_goes_there_and_back(server: Server, tmp_path: Path) -> None:
    place = f"s3://{BUCKET}/{uuid.uuid4()}"
    with JobHarness(count, inputs=["words"], configuration=reached_by(server.options)) as job:
        job.epoch(words=["a", "b", "a"])
        path = job.savepoint(place)
    assert path.startswith(f"{place}/savepoint-")
    # Copied to a disk, file by file: the names in it are relative.
    stored, local = ObjectStorage(path, server.options), LocalStorage(tmp_path / "copy")
    for name in stored.list():
        local.write(name, stored.read(name))
    for start in (path, str(tmp_path / "copy")):
        options = {**reached_by(server.options), "execution.state-recovery.path": start}
        with JobHarness(count, inputs=job.inputs, configuration=options) as other:
            assert other.state("count", "_reduce_state")["a"] == ("a", 2)
    dispose_savepoint(path, server.options)
    assert stored.list() == []
    with pytest.raises(CheckpointError, match="is not a savepoint"):
        dispose_savepoint(path, server.options)


def test_a_store_that_breaks_down_half_way_leaves_no_savepoint_and_the_job_running(server: Server) -> None:
    place = f"s3://{BUCKET}/{uuid.uuid4()}"
    with (
        Proxy(server) as proxy,
        JobHarness(count, inputs=["words"], configuration=reached_by(proxy.options)) as job,
    ):
        job.epoch(words=["a"])
        proxy.trouble = lambda number, method, path: "500" if number > 2 else None
        with pytest.raises(CheckpointError):
            job.savepoint(place)
        proxy.trouble = lambda number, method, path: None
        left = ObjectStorage(place, server.options).list()
        assert not [name for name in left if name.endswith(METADATA)]
        job.epoch(words=["a"])
        assert job.savepoint(place)
