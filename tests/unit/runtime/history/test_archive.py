"""The files of a history, in a directory and in memory, which behaves as object stores do."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from tests.unit.runtime.history.records import now, record
from tidemill.checkpoint.storage.storages import LocalStorage, MemoryStorage, NotFoundError, Storage
from tidemill.common import Configuration, JobStatus
from tidemill.errors import CorruptFileError
from tidemill.runtime.history.archive import HistoryFiles, RecordName, history_of

STORAGES: dict[str, Callable[[Path], Storage]] = {"directory": LocalStorage, "memory": lambda _: MemoryStorage()}
HOUR = 3_600_000


@pytest.fixture(params=STORAGES)
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    return STORAGES[request.param](tmp_path / "history")


def test_the_final_record_takes_the_place_of_the_others(storage: Storage) -> None:
    archive = HistoryFiles(storage)
    begun = RecordName("shop", 5, "0a")
    for written in (10, 20):
        archive.write(begun, record(status=JobStatus.RUNNING, written=written))
    assert archive.names() == [begun]
    assert archive.read(begun).written == 20
    ended = RecordName("shop", 5, "0a", 30)
    archive.write(ended, record(written=30))
    assert archive.names() == [ended]
    assert archive.read(ended).status is JobStatus.FINISHED
    with pytest.raises(NotFoundError):
        archive.read(begun)


def test_a_start_whose_two_records_are_both_there_is_listed_once(storage: Storage) -> None:
    """A driver that was killed between writing the final record and deleting the other."""
    archive = HistoryFiles(storage)
    for name in (RecordName("shop", 5, "0a", 30), RecordName("shop", 5, "0a"), RecordName("shop", 4, "0b")):
        storage.write(name.file, record().to_json())
    assert sorted(archive.names(), key=str) == [RecordName("shop", 4, "0b"), RecordName("shop", 5, "0a", 30)]


def test_other_files_are_not_touched(storage: Storage) -> None:
    archive = HistoryFiles(storage)
    others = ["notes.txt", "shop/notes.json", "_shop/000000000000005-0a.json", "a/b/000000000000005-0a.json"]
    for name in others:
        storage.write(name, b"x")
    assert archive.names() == []
    assert archive.prune(now(), 0, timedelta(0)) == []
    assert storage.list() == sorted(others)


def test_the_oldest_are_deleted(storage: Storage) -> None:
    archive = HistoryFiles(storage)
    names = [RecordName(f"job-{number}", 1_000, "0a", 1_000 + number) for number in range(5)]
    for name in names:
        archive.write(name, record(name.job_id))
    assert archive.prune(10_000, -1, None) == []
    assert archive.prune(10_000, 3, None) == [names[1], names[0]]
    assert archive.prune(10_000, -1, timedelta(milliseconds=10_000 - 1_004)) == [names[3], names[2]]
    assert archive.names() == [names[4]]


def test_a_record_that_a_driver_still_updates_is_kept(storage: Storage) -> None:
    archive = HistoryFiles(storage)
    at = now()
    running, killed = RecordName("running", 1_000, "0a"), RecordName("killed", 1_000, "0b")
    archive.write(running, record("running", JobStatus.RUNNING, at - 60_000))
    archive.write(killed, record("killed", JobStatus.RUNNING, at - 2 * HOUR))
    assert archive.prune(at, 0, timedelta(milliseconds=1)) == [killed]
    assert archive.names() == [running]


def test_a_record_that_cannot_be_read_does_not_stay_for_ever(storage: Storage) -> None:
    archive = HistoryFiles(storage)
    damaged = RecordName("shop", 5, "0a")
    storage.write(damaged.file, b"{")
    with pytest.raises(CorruptFileError, match=damaged.file):
        archive.read(damaged)
    assert archive.prune(now(), 1, None) == []
    assert archive.prune(now(), 0, None) == [damaged]


def test_where_the_history_is() -> None:
    assert history_of(Configuration()) is None
    beside = Configuration().set_string("execution.checkpointing.dir", "s3://bucket/checkpoints/")
    assert history_of(beside) == "s3://bucket/checkpoints/_history"
    own = Configuration(beside).set_string("jobmanager.archive.fs.dir", "/history")
    assert history_of(own) == "/history"
    assert history_of(Configuration(own).set_string("history.enabled", "false")) is None
