"""Jobs whose state is on the local disks of their workers: workers come and go, disks fail, nothing is left behind."""

from __future__ import annotations

import gc
import logging
from pathlib import Path
from typing import Any

import pytest

from tidemill.datastream import DataStream, StreamExecutionEnvironment
from tidemill.errors import LocalStateError
from tidemill.state.files.state_file import Section
from tidemill.state.rocksdb import RocksDBBackend
from tidemill.state.rocksdb.store import Store
from tidemill.testing import JobHarness
from tidemill.testing.job_harness import moving


def count(env: StreamExecutionEnvironment, words: DataStream) -> DataStream:
    return words.key_by(lambda word: word).map_with_state(number).uid("count")


def number(word: str, seen: int | None) -> tuple[Any, int]:
    return (word, (seen or 0) + 1), (seen or 0) + 1


def job_on(directory: Path, **options: Any) -> JobHarness:
    configuration = {
        "state.backend.type": "rocksdb",
        "state.backend.rocksdb.localdir": str(directory),
        "state.backend.rocksdb.cached-values": "0",
    }
    options = {"parallelism": 1, "workers": 1, **options}
    return JobHarness(count, inputs=["words"], configuration=configuration, **options)


@pytest.fixture
def loaded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of rows of every section that was loaded."""
    rows: list[int] = []
    load = RocksDBBackend.load

    def counted(self: RocksDBBackend, section: Section) -> None:
        rows.append(section.table.num_rows)
        load(self, section)

    monkeypatch.setattr(RocksDBBackend, "load", counted)
    return rows


def stores(directory: Path) -> list[Path]:
    return list(directory.rglob("owner.lock"))


def test_the_successor_of_a_dead_worker_reads_only_what_came_later(tmp_path: Path, loaded: list[int]) -> None:
    with job_on(tmp_path) as job:
        job.epoch(words=["a", "b", "c"])
        job.epoch(words=["a"])
        job.epoch(words=["b"])
        job.kill_worker(0)
        gc.collect()
        assert len(stores(tmp_path)) == 1
        job.epoch(words=["a", "b", "c", "d"])
        # What the dead worker had folded were the first two epochs.
        assert loaded == [1]
        assert max(job.output()) == ("d", 1)
        assert job.state("count", "with-state") == {"a": 3, "b": 3, "c": 2, "d": 1}


def back_at_epoch_7(epoch: int, level: int, partition: int) -> int:
    return 0 if epoch in (1, 2, 7) else 1


def test_a_version_that_a_snapshot_has_passed_is_not_used(tmp_path: Path, loaded: list[int]) -> None:
    with job_on(tmp_path, workers=2, placement=back_at_epoch_7, merge_after=4) as job:
        for word in "abcdef":
            job.epoch(words=[word])
        assert len(stores(tmp_path)) == 2
        loaded.clear()
        job.epoch(words=["a", "g"])
        # A snapshot of epochs 1 to 4, and epochs 5 and 6; what the first worker had was epoch 1.
        assert loaded == [4, 1, 1]
        assert job.state("count", "with-state") == {"a": 2, "b": 1, "c": 1, "d": 1, "e": 1, "f": 1, "g": 1}


def test_a_worker_that_comes_back_catches_up(tmp_path: Path, loaded: list[int]) -> None:
    with job_on(tmp_path, workers=2, placement=back_at_epoch_7, merge_after=100) as job:
        for word in "abcdef":
            job.epoch(words=[word])
        loaded.clear()
        job.epoch(words=["a", "g"])
        assert loaded == [1, 1, 1, 1, 1]
        assert job.state("count", "with-state") == {"a": 2, "b": 1, "c": 1, "d": 1, "e": 1, "f": 1, "g": 1}


def test_workers_that_take_turns(tmp_path: Path) -> None:
    with job_on(tmp_path, workers=3, placement=moving(3)) as job:
        for _ in range(7):
            job.epoch(words=["a", "b"])
        assert job.state("count", "with-state") == {"a": 7, "b": 7}


def test_damage_is_reported_and_the_state_built_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with job_on(tmp_path) as job:
        job.epoch(words=[f"w{n}" for n in range(2000)])
        job.epoch(words=["w1"])
        job.kill_worker(0)
        gc.collect()
        for path in tmp_path.rglob("*.sst"):
            path.write_bytes(bytes(path.stat().st_size))
        with caplog.at_level(logging.WARNING, "tidemill"):
            job.epoch(words=[f"w{n}" for n in range(2000)])
        assert "is damaged and will be rebuilt from the checkpoint" in caplog.text
        state = job.state("count", "with-state")
        assert (state["w0"], state["w1"]) == (2, 3)
        assert len(stores(tmp_path)) == 1


def test_damage_while_an_epoch_runs_ends_the_attempt_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with job_on(tmp_path) as job:
        job.epoch(words=["a", "b"])
        job.epoch(words=["a"])
        with monkeypatch.context() as patch:
            patch.setattr(Store, "get", lambda self, row: (_ for _ in ()).throw(self._failed(OSError("bad block"))))
            patch.setattr(Store, "get_many", lambda self, rows: Store.get(self, rows[0]))
            with pytest.raises(LocalStateError, match="rebuilt from the checkpoint"):
                job.epoch(words=["b"])
        assert stores(tmp_path) == []
        job.restart()
        job.epoch()
        assert job.state("count", "with-state") == {"a": 2, "b": 2}


def test_nothing_is_left_when_the_job_is_over(tmp_path: Path) -> None:
    with job_on(tmp_path) as job:
        job.epoch(words=["a"])
        assert len(stores(tmp_path)) == 1
        job.end()
    assert stores(tmp_path) == []
    with job_on(tmp_path) as job:
        job.epoch(words=["a"])
    assert stores(tmp_path) == []


def test_nothing_is_left_of_another_parallelism(tmp_path: Path) -> None:
    with job_on(tmp_path) as job:
        job.epoch(words=["a", "b", "c"])
        job.rescale(2)
        job.epoch(words=["a"])
        job.epoch(words=["b"])
        assert len(stores(tmp_path)) == 2
        assert job.state("count", "with-state") == {"a": 2, "b": 2, "c": 1}


def test_a_fold_that_fails_gives_the_disk_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with job_on(tmp_path) as job:
        job.epoch(words=["a", "b"])
        with monkeypatch.context() as patch:
            patch.setattr(RocksDBBackend, "fold", lambda self, version: (_ for _ in ()).throw(LocalStateError("full")))
            with pytest.raises(LocalStateError, match="full"):
                job.epoch(words=["b"])
        job.restart()
        job.epoch()
        assert job.state("count", "with-state") == {"a": 1, "b": 2}
        assert len(stores(tmp_path)) == 1


def test_state_that_cannot_be_loaded_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with job_on(tmp_path) as job:
        job.epoch(words=["a", "b"])
        job.restart()
        with monkeypatch.context() as patch:
            patch.setattr(RocksDBBackend, "load", lambda self, section: (_ for _ in ()).throw(LocalStateError("full")))
            with pytest.raises(LocalStateError, match="full"):
                job.epoch(words=["b"])
        assert stores(tmp_path) == []
