"""What every storage promises; each test runs against all of them."""

from __future__ import annotations

import pickle
import threading
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.object_store import BUCKET, Server, object_store
from tidemill.checkpoint.storage.storages import (
    AlreadyExistsError,
    LocalStorage,
    MemoryStorage,
    NotFoundError,
    Storage,
    storage_for,
)
from tidemill.errors import CheckpointError, ConfigurationError

BAD_NAMES = [
    "", "/", "/etc/passwd", "..", "../x", "a/../b", "a/..", "./a", "a/.", "a//b", "a/", "//a", "a\\b", "..\\x", "a\0b",
    "a\nb", ".tmp", ".tmp/x", "x" * 1025,
]  # fmt: skip


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with object_store(tmp_path_factory.mktemp("s3") / "server.log") as running:
        yield running


@pytest.fixture(params=["memory", "local", "local-not-durable", "s3"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    if request.param == "memory":
        return MemoryStorage()
    if request.param == "s3":
        running: Server = request.getfixturevalue("server")
        return storage_for(f"s3://{BUCKET}/{uuid.uuid4()}", options=running.options)
    return LocalStorage(tmp_path / "job" / "checkpoints", durable=request.param == "local")


def test_what_is_stored_is_read(storage: Storage) -> None:
    storage.create("manifests/1.tm", b"one")
    storage.write("state/a/x.tms", b"")
    assert storage.read("manifests/1.tm") == b"one"
    assert storage.read("state/a/x.tms") == b""
    assert storage.size("manifests/1.tm") == 3
    assert storage.exists("state/a/x.tms")
    assert not storage.exists("state/a")
    assert not storage.exists("state/a/x.tms/below")
    storage.close()


def test_a_name_is_created_once(storage: Storage) -> None:
    storage.create("a", b"first")
    with pytest.raises(AlreadyExistsError, match="a exists already"):
        storage.create("a", b"second")
    assert storage.read("a") == b"first"
    assert storage.list() == ["a"]


def test_write_takes_no_notice_of_an_earlier_copy(storage: Storage) -> None:
    storage.write("a", b"1")
    storage.write("a", b"1")
    assert storage.read("a") == b"1"


def test_of_racing_creators_exactly_one_wins(storage: Storage) -> None:
    for round_number in range(5):
        won: list[int] = []
        start = threading.Barrier(4)

        def race(me: int, name: str, won: list[int], start: threading.Barrier) -> None:
            start.wait()
            try:
                storage.create(name, b"%d" % me * 1000)
            except AlreadyExistsError:
                return
            won.append(me)

        name = f"manifests/{round_number}"
        threads = [threading.Thread(target=race, args=(me, name, won, start)) for me in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(won) == 1
        assert storage.read(name) == b"%d" % won[0] * 1000


def test_ranges_end_where_the_file_ends(storage: Storage) -> None:
    storage.write("a", b"0123456789")
    assert storage.read_range("a", 2, 3) == b"234"
    assert storage.read_range("a", 8, 1 << 60) == b"89"
    assert storage.read_range("a", 20, 5) == b""
    assert storage.read_range("a", 0, 0) == b""
    for offset, length in [(-1, 1), (0, -1)]:
        with pytest.raises(CheckpointError, match="0 or more"):
            storage.read_range("a", offset, length)


def test_missing_names_are_distinguished(storage: Storage) -> None:
    reads: list[Callable[[str], object]] = [storage.read, storage.size, lambda name: storage.read_range(name, 0, 1)]
    for read in reads:
        with pytest.raises(NotFoundError, match="nowhere/file does not exist"):
            read("nowhere/file")
    assert storage.list() == storage.list("nowhere/") == []
    storage.delete(["nowhere/file"])


def test_lists_by_prefix(storage: Storage) -> None:
    for name in ["b/2", "a/1", "a/10/x", "a/10/y", "ab", "c"]:
        storage.write(name, b"")
    assert storage.list() == ["a/1", "a/10/x", "a/10/y", "ab", "b/2", "c"]
    assert storage.list("a") == ["a/1", "a/10/x", "a/10/y", "ab"]
    assert storage.list("a/") == ["a/1", "a/10/x", "a/10/y"]
    assert storage.list("a/1") == ["a/1", "a/10/x", "a/10/y"]
    assert storage.list("a/10/") == ["a/10/x", "a/10/y"]


def test_deletes_and_writes_again(storage: Storage) -> None:
    storage.write("state/l/a", b"1")
    storage.write("state/l/b", b"2")
    storage.delete(["state/l/a", "state/l/missing", "state/l/b"])
    assert storage.list() == []
    storage.create("state/l/a", b"3")
    assert storage.list() == ["state/l/a"]


@pytest.mark.parametrize("name", BAD_NAMES)
def test_names_stay_inside(storage: Storage, name: str) -> None:
    operations: list[Callable[[], object]] = [
        lambda: storage.create(name, b""),
        lambda: storage.write(name, b""),
        lambda: storage.read(name),
        lambda: storage.read_range(name, 0, 1),
        lambda: storage.exists(name),
        lambda: storage.size(name),
        lambda: storage.delete([name]),
    ]
    for operation in operations:
        with pytest.raises(CheckpointError, match="is not a name inside"):
            operation()


@pytest.mark.parametrize("prefix", ["/", "../", "a/../", "a\\", "a//"])
def test_prefixes_stay_inside(storage: Storage, prefix: str) -> None:
    with pytest.raises(CheckpointError, match="is not a name inside"):
        storage.list(prefix)


def test_local_storage_travels_and_memory_storage_refuses_to(tmp_path: Path) -> None:
    local = LocalStorage(tmp_path / "x", durable=False)
    assert pickle.loads(pickle.dumps(local)) == local
    assert len(pickle.dumps(local)) < 500
    assert not (tmp_path / "x").exists()
    with pytest.raises(CheckpointError, match="cannot be sent to workers"):
        pickle.dumps(MemoryStorage())


@pytest.mark.parametrize("uri", ["{}/a b", "file://{}/a%20b", "file:{}/a%20b", "file://localhost{}/a%20b"])
def test_a_directory_may_be_a_path_or_a_file_uri(tmp_path: Path, uri: str) -> None:
    assert storage_for(uri.format(tmp_path)) == LocalStorage(tmp_path / "a b")


def test_a_relative_path_is_fixed_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    storage = storage_for("checkpoints", durable=False)
    monkeypatch.chdir("/")
    assert storage == LocalStorage(tmp_path / "checkpoints", durable=False)


@pytest.mark.parametrize(
    "uri", ["", "ftp://bucket/x", "hdfs:/x", "file://host/x", "file:x", "file:///x?y", "file:///a%00b", "a\0b"]
)
def test_other_uris_are_refused(uri: str) -> None:
    with pytest.raises(ConfigurationError, match="checkpoint directory"):
        storage_for(uri)
