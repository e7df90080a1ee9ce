"""What only a file system does: modes, torn writes, leftovers, disks that are full or not ours."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tidemill.checkpoint.storage.storages import AlreadyExistsError, LocalStorage
from tidemill.errors import CheckpointError


def failing(code: int, after: int = 0) -> Any:
    """A system call that fails with ``code``, the first ``after`` calls excepted."""
    calls = iter(range(1 << 30))

    def fail(*_args: object, **_options: object) -> int:
        if next(calls) < after:
            return 1
        raise OSError(code, os.strerror(code))

    return fail


def temporary_files(storage: LocalStorage) -> list[Path]:
    return list((storage.root / ".tmp").iterdir())


def test_files_and_directories_are_private(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        storage = LocalStorage(tmp_path / "new" / "job")
        storage.create("manifests/a", b"1")
        storage.write("state/l/b", b"2")
    finally:
        os.umask(old)
    for path in (tmp_path / "new").rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path
    assert temporary_files(storage) == []


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO])
@pytest.mark.parametrize("call", ["write", "fsync"])
@pytest.mark.parametrize("method", ["create", "write"])
def test_a_failed_write_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, call: str, method: str
) -> None:
    storage = LocalStorage(tmp_path)
    storage.write("a/before", b"")
    with monkeypatch.context() as patch:
        patch.setattr(os, call, failing(code, after=2 if call == "write" else 0))
        with pytest.raises(CheckpointError) as caught:
            getattr(storage, method)("a/x", b"data")
    assert str(tmp_path / "a/x") in str(caught.value)
    assert os.strerror(code) in str(caught.value)
    assert ("free some space" in str(caught.value)) == (code in (errno.ENOSPC, errno.EDQUOT))
    assert storage.list() == ["a/before"]
    assert temporary_files(storage) == []
    getattr(storage, method)("a/x", b"data")
    assert storage.read("a/x") == b"data"


def test_short_writes_are_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.write
    monkeypatch.setattr(os, "write", lambda handle, data: real(handle, bytes(data[:3])))
    storage = LocalStorage(tmp_path)
    storage.create("x", b"0123456789")
    assert storage.read("x") == b"0123456789"


def test_a_writer_killed_half_way_leaves_only_a_temporary_file(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path, durable=False)
    # The child dies, as by kill -9, after it wrote the data and before that is linked to its name.
    program = """if True:
        import os, sys
        from tidemill.checkpoint.storage.storages import LocalStorage
        os.link = lambda *_: os._exit(9)
        LocalStorage(sys.argv[1], durable=False).create("manifests/1", b"data")
    """
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    child = subprocess.run([sys.executable, "-c", program, str(tmp_path)], env=environment, check=False)
    assert child.returncode == 9
    assert storage.list() == []
    assert len(temporary_files(storage)) == 1
    storage.create("manifests/1", b"other")
    assert storage.sweep_temporary() == 0  # it may belong to a living writer
    assert storage.sweep_temporary(now=time.time() + 3601) == 1
    assert temporary_files(storage) == []
    assert storage.read("manifests/1") == b"other"


def test_sweeping_a_directory_that_is_not_there(tmp_path: Path) -> None:
    assert LocalStorage(tmp_path / "none").sweep_temporary() == 0


def test_durable_means_file_and_directory_are_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[bool] = []
    real = os.fsync

    def fsync(handle: int) -> None:
        synced.append(stat.S_ISDIR(os.fstat(handle).st_mode))
        real(handle)

    monkeypatch.setattr(os, "fsync", fsync)
    storage = LocalStorage(tmp_path)
    storage.write("a/first", b"")
    for method in (storage.create, storage.write):
        synced.clear()
        method("a/" + method.__name__, b"data")
        assert synced == [False, True]
    synced.clear()
    with pytest.raises(AlreadyExistsError):
        storage.create("a/create", b"data")
    assert synced == [True]  # whoever finds the name taken may rely on what is there
    synced.clear()
    LocalStorage(tmp_path, durable=False).create("b/x", b"")
    assert synced == []


def test_a_file_in_the_place_of_the_directory(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(CheckpointError, match=r"cannot .*file.*(a file is in its place|Not a directory)"):
        LocalStorage(tmp_path / "file").create("a", b"")
    with pytest.raises(CheckpointError, match=r"cannot .*file.*(a file is in its place|Not a directory)"):
        LocalStorage(tmp_path / "file" / "below").write("a", b"")


def test_a_directory_that_cannot_be_created(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "mkdir", failing(errno.EACCES))
    with pytest.raises(CheckpointError) as caught:
        LocalStorage(tmp_path / "job").create("manifests/1", b"")
    assert str(caught.value) == f"cannot create the checkpoint directory {tmp_path / 'job'}: Permission denied"


def test_a_file_system_without_hard_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "link", failing(errno.EPERM))
    with pytest.raises(CheckpointError, match="hard links"):
        LocalStorage(tmp_path).create("a", b"")


def test_an_unreadable_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    storage = LocalStorage(tmp_path)
    storage.write("a", b"x")
    monkeypatch.setattr(Path, "open", failing(errno.EIO))
    with pytest.raises(CheckpointError, match=r"cannot read .*/a: Input/output error"):
        storage.read("a")


def test_a_failed_delete_ends_the_deleting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    storage = LocalStorage(tmp_path)
    storage.write("a", b"x")
    monkeypatch.setattr(Path, "unlink", failing(errno.EACCES))
    with pytest.raises(CheckpointError, match=r"cannot delete .*/a: Permission denied"):
        storage.delete(["a"])


def test_writers_and_the_removal_of_empty_directories_do_not_disturb_each_other(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path, durable=False)
    failures: list[BaseException] = []

    def churn(me: int) -> None:
        try:
            for number in range(200):
                storage.create(f"state/l/{me}-{number}", b"")
                storage.delete([f"state/l/{me}-{number}"])
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=churn, args=(me,)) for me in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert storage.list() == []
    assert not (tmp_path / "state" / "l").exists()
