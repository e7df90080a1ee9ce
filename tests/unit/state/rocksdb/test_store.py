"""A store: batches with their version, what a dead worker leaves, damage, a full disk."""

from __future__ import annotations

import contextlib
import logging
from pathlib import Path

import pytest

from tests.unit.state.rocksdb.stores import open_store
from tidemill.errors import LocalStateError
from tidemill.state.keyed.backend import StateVersion
from tidemill.state.rocksdb.store import Store, end_of

FIRST, SECOND = StateVersion("l1", 3, 2), StateVersion("l1", 4, 3)


def left_by_a_killed_worker(store: Store) -> None:
    """All that was written is on disk, and nobody owns it."""
    store._db.flush()  # type: ignore[union-attr]
    store._close_db()
    store._directory.close(remove=False)


def test_a_batch_and_its_version_are_one(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    with store.writing(FIRST) as batch:
        batch.put(b"\1\1a", b"1")
    with contextlib.suppress(InterruptedError), store.writing(SECOND) as batch:
        batch.put(b"\1\1a", b"2")
        raise InterruptedError
    assert (store.version, store.get(b"\1\1a")) == (FIRST, b"1")
    store.close(remove=False)
    again = open_store(tmp_path)
    assert (again.version, again.get(b"\1\1a")) == (FIRST, b"1")
    again.close(remove=True)


def test_a_killed_worker_leaves_a_version_and_exactly_its_rows(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    with store.writing(FIRST) as batch:
        batch.put(b"\1\1a", b"1")
    store._db.flush()  # type: ignore[union-attr]
    with store.writing(SECOND) as batch:
        batch.put(b"\1\1a", b"2")
    del store  # without closing it; what was not flushed may be there or not
    again = open_store(tmp_path)
    assert (again.version, again.get(b"\1\1a")) in [(FIRST, b"1"), (SECOND, b"2")]
    again.close(remove=True)


def test_the_sequence_and_the_states_go_on(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    prefixes = [store.prefix("a"), store.prefix("b")]
    for _ in range(3):
        with store.writing(FIRST):
            pass
    store.close(remove=False)
    again = open_store(tmp_path)
    assert again.sequence == 3
    assert [again.prefix("a"), again.prefix("b")] == prefixes
    assert again.prefix("c") not in prefixes
    again.close(remove=True)


def test_without_a_version_nothing_is_left(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    with store.writing(None) as batch:
        batch.put(b"\1\1a", b"1")
    path = Path(store.path)
    store.close(remove=False)
    assert not path.exists()


def test_what_a_killed_worker_left_at_no_version_is_emptied(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    with store.writing(FIRST) as batch:
        batch.put(store.prefix("a") + b"k", b"1")
    with store.writing(None) as batch:
        batch.put(store.prefix("a") + b"l", b"2")
    path = store.path
    left_by_a_killed_worker(store)
    again = open_store(tmp_path)
    assert (again.path, again.version) == (path, None)
    assert again.first(b"", b"\xff", 10) == []
    again.close(remove=True)


def test_what_cannot_be_removed_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_store(tmp_path)
    with store.writing(None) as batch:
        batch.put(store.prefix("a") + b"k", b"1")
    left_by_a_killed_worker(store)

    def refused(*_: object, **__: object) -> None:
        raise PermissionError(13, "refused")

    with monkeypatch.context() as patch:
        patch.setattr("tidemill.state.rocksdb.store.shutil.rmtree", refused)
        with pytest.raises(LocalStateError, match="refused"):
            open_store(tmp_path)


def test_notes_stay_with_their_version(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    store.notes["a"] = {"since": 7}
    with store.writing(FIRST):
        pass
    store.close(remove=False)
    again = open_store(tmp_path)
    assert again.notes == {"a": {"since": 7}}
    again.reset()
    assert again.notes == {}
    again.close(remove=True)


def test_a_store_in_use_is_left_alone(tmp_path: Path) -> None:
    one = open_store(tmp_path)
    with one.writing(FIRST):
        pass
    two = open_store(tmp_path)
    assert two.path != one.path
    assert two.version is None
    one.close(remove=True)
    two.close(remove=True)


def test_what_another_start_of_the_program_left_is_removed(tmp_path: Path) -> None:
    store = open_store(tmp_path, program="before")
    with store.writing(FIRST):
        pass
    path = Path(store.path)
    store.close(remove=False)
    assert path.exists()
    again = open_store(tmp_path, program="after")
    assert again.version is None
    assert not path.exists()
    again.close(remove=True)
    assert list(tmp_path.rglob("owner.lock")) == []


def damage(store: Store) -> None:
    files = [path for path in Path(store.path).rglob("*.sst") if path.stat().st_size]
    assert files
    for path in files:
        data = bytearray(path.read_bytes())
        data[: len(data) // 2] = bytes(len(data) // 2)
        path.write_bytes(data)


def test_damage_that_is_found_when_a_store_is_opened(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = open_store(tmp_path)
    with store.writing(FIRST) as batch:
        batch.put(b"\1\1a", b"1")
    store.close(remove=False)
    for path in tmp_path.rglob("MANIFEST-*"):
        path.write_bytes(b"nonsense")
    with caplog.at_level(logging.WARNING, "tidemill"):
        again = open_store(tmp_path)
    assert again.version is None
    assert again.get(b"\1\1a") is None
    assert "is damaged and will be rebuilt from the checkpoint" in caplog.text
    with again.writing(SECOND) as batch:
        batch.put(b"\1\1a", b"2")
    assert again.get(b"\1\1a") == b"2"
    again.close(remove=True)


def test_damage_that_is_found_while_the_job_runs(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = open_store(tmp_path)
    with store.writing(FIRST) as batch:
        for number in range(1000):
            batch.put(b"\1\1%d" % number, bytes(100))
    store.close(remove=False)
    files = open_store(tmp_path)
    damage(files)
    with (
        caplog.at_level(logging.WARNING, "tidemill"),
        pytest.raises(LocalStateError, match=r"local state of operator 'op' .* is damaged .* rebuilt"),
    ):
        list(files.scan(b"\1", b"\2"))
    assert "is damaged" in caplog.text
    path = Path(files.path)
    files.close(remove=False)
    assert not path.exists()


def test_a_full_disk_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_store(tmp_path)

    class Full:
        def write(self, batch: object) -> None:
            raise Exception("IO error: No space left on device: While appending to file")

        def property_int_value(self, name: str) -> int:
            return 0

        def close(self) -> None:
            pass

    monkeypatch.setattr(store, "_db", Full())
    full = pytest.raises(LocalStateError, match=r"disk of .* is full.*state\.backend\.rocksdb\.localdir")
    with full as caught, store.writing(FIRST):
        pass
    assert store.path in str(caught.value)
    store.close(remove=True)


def test_a_store_that_waits_for_room_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_store(tmp_path)
    errors = iter([0, 0, 1])

    class Waiting:
        def property_int_value(self, name: str) -> int:
            return next(errors) if name == "rocksdb.background-errors" else 1

        def close(self) -> None:
            pass

    monkeypatch.setattr(store, "_db", Waiting())
    with pytest.raises(LocalStateError, match=r"disk of .* is full"), store.writing(FIRST):
        pass
    store.close(remove=True)


def test_a_closed_store_says_so(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    store.close(remove=True)
    with pytest.raises(LocalStateError, match="closed"):
        store.get(b"\1\1a")


def test_a_scan_sees_what_is_written_behind_it(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    with store.writing(None) as batch:
        for letter in b"abcd":
            batch.put(b"\1\1" + bytes((letter,)), b"old")
    scan = store.scan(b"\1\1", end_of(b"\1\1"), chunk=3)
    assert next(scan) == (b"\1\1a", b"old")
    with store.writing(None) as batch:
        batch.delete(b"\1\1b")
        batch.put(b"\1\1c", b"new")
    assert list(scan) == [(b"\1\1c", b"new"), (b"\1\1d", b"old")]
    store.close(remove=True)


@pytest.mark.parametrize(("prefix", "end"), [(b"\1\1", b"\1\2"), (b"\1\xff", b"\2"), (b"\1\xff\xff", b"\2")])
def test_end_of_a_prefix(prefix: bytes, end: bytes) -> None:
    assert end_of(prefix) == end
