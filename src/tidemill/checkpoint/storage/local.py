"""Storage in a directory of a local or shared POSIX file system.

The directory must be the same for the driver and all workers. Directories are created with mode 0700, files with 0600.
Unfinished files are kept in ``.tmp`` under unguessable names; :meth:`LocalStorage.sweep_temporary` removes those of
killed processes.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NoReturn

from tidemill.checkpoint.names import TEMPORARY, check_name
from tidemill.checkpoint.storage.api import (
    AlreadyExistsError,
    Names,
    NotFoundError,
    Storage,
    check_prefix,
    check_range,
)
from tidemill.errors import CheckpointError, CorruptFileError

_FULL = {errno.ENOSPC, errno.EDQUOT}
_NO_LINKS = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK}
#: Another process may remove an empty directory between its creation and its use; this many times in a row is a
#: failure.
_TRIES = 20


def sync_path(path: str | os.PathLike[str]) -> None:
    """Make a file's data, or the names in a directory, durable, regardless of which process wrote them."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


class LocalStorage(Storage):
    """Files under ``root``. Cheap to create, to pickle and to compare; accesses the disk only when it is used."""

    __slots__ = ("_durable", "_root")

    def __init__(self, root: str | os.PathLike[str], *, durable: bool = True) -> None:
        self._root = Path(root).absolute()
        self._durable = durable

    def __reduce__(self) -> tuple[Callable[[str, bool], LocalStorage], tuple[str, bool]]:
        return _restore, (str(self._root), self._durable)

    def __repr__(self) -> str:
        return f"LocalStorage({str(self._root)!r}, durable={self._durable})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LocalStorage) and (self._root, self._durable) == (other._root, other._durable)

    def __hash__(self) -> int:
        return hash((self._root, self._durable))

    @property
    def durable(self) -> bool:
        """Whether stored data survives a power failure."""
        return self._durable

    @property
    def root(self) -> Path:
        """The absolute path of the directory."""
        return self._root

    def path(self, name: str) -> Path:
        """The absolute path of ``name``, for readers that map files (Arrow, RocksDB)."""
        return self._root / check_name(name)

    # -- writing -------------------------------------------------------------------------------------------------

    def create(self, name: str, data: bytes) -> None:
        """Store ``data`` under a name that must not exist yet.

        1. Write and fsync a temporary file.
        2. Link it to the name, which fails if the name exists.
        3. Fsync the directory, also if the name existed, so that a caller may rely on what it finds.
        4. Unlink the temporary file.
        """
        target = self.path(name)
        if os.path.lexists(target):
            self._sync_directory(name, target.parent)
            raise AlreadyExistsError(f"{target} exists already")
        with self._temporary(name, data) as temporary:  # 1, 4
            try:
                self._place(name, target, lambda: os.link(temporary, target))  # 2
            except FileExistsError:
                self._sync_directory(name, target.parent)
                raise AlreadyExistsError(f"{target} exists already") from None
            self._sync_directory(name, target.parent)  # 3

    def write(self, name: str, data: bytes) -> None:
        """Store ``data`` under a unique name: write and fsync a temporary file, rename it, fsync the directory."""
        target = self.path(name)
        with self._temporary(name, data) as temporary:
            self._place(name, target, lambda: temporary.replace(target))
            self._sync_directory(name, target.parent)

    def make_durable(self, folder: str) -> None:
        """Sync everything other code has written into ``folder``, whose name ends with a slash, and the folder."""
        if not self._durable:
            return
        place = self._root / folder
        try:
            for path in (*place.rglob("*"), place, *place.parents):
                sync_path(path)
                if path == self._root:
                    break
        except OSError as error:
            self._fail("write", folder, error)

    @contextlib.contextmanager
    def _temporary(self, name: str, data: bytes) -> Iterator[Path]:
        """A complete, synced temporary file; deleted when the block ends."""
        scratch = self._root / TEMPORARY
        temporary = scratch / secrets.token_hex(16)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            try:
                try:
                    handle = os.open(temporary, flags, 0o600)
                except FileNotFoundError:
                    self._make_directory(name, scratch)
                    handle = os.open(temporary, flags, 0o600)
                try:
                    view = memoryview(data)
                    while view:
                        view = view[os.write(handle, view) :]
                    if self._durable:
                        os.fsync(handle)
                finally:
                    os.close(handle)
            except OSError as error:
                self._fail("write", name, error)
            yield temporary
        finally:
            with contextlib.suppress(OSError):
                temporary.unlink()

    def _place(self, name: str, target: Path, operation: Callable[[], object]) -> object:
        """Run a link or rename to ``target``, creating its directory if needed. Propagates FileExistsError."""
        for remaining in reversed(range(_TRIES)):
            try:
                return operation()
            except FileExistsError:
                raise
            except FileNotFoundError as error:
                if not remaining:
                    self._fail("write", name, error)
                self._make_directory(name, target.parent)
            except OSError as error:
                if error.errno in _NO_LINKS and not os.path.lexists(target):
                    raise CheckpointError(
                        f"cannot create {target}: {error.strerror}; the checkpoint directory must be on a file system "
                        "that supports hard links and allows this user to create them"
                    ) from error
                self._fail("write", name, error)
        return None

    def _make_directory(self, name: str, directory: Path) -> None:
        """Create a directory and its missing parents with mode 0700, syncing each one's parent."""
        if directory.is_dir():
            return
        parent = directory.parent
        if parent != directory:
            self._make_directory(name, parent)
        try:
            directory.mkdir(mode=0o700)
        except FileExistsError:
            with contextlib.suppress(FileNotFoundError):  # removed again: the caller retries
                if not stat.S_ISDIR(directory.stat().st_mode):
                    raise CheckpointError(
                        f"cannot create the checkpoint directory {directory}: a file is in its place"
                    ) from None
        except FileNotFoundError:
            return  # the parent was removed again: the caller retries
        except OSError as error:
            raise CheckpointError(f"cannot create the checkpoint directory {directory}: {_reason(error)}") from error
        self._sync_directory(name, parent)

    def _sync_directory(self, name: str, directory: Path) -> None:
        if not self._durable:
            return
        try:
            sync_path(directory)
        except FileNotFoundError:
            return  # it was empty and has been removed, so there is nothing to make durable
        except OSError as error:
            self._fail("write", name, error)

    # -- reading -------------------------------------------------------------------------------------------------

    def read(self, name: str) -> bytes:
        try:
            with self.path(name).open("rb") as stream:
                return stream.read()
        except OSError as error:
            self._fail("read", name, error)

    def read_range(self, name: str, offset: int, length: int) -> bytes:
        check_range(name, offset, length)
        try:
            with self.path(name).open("rb") as stream:
                stream.seek(offset)
                return stream.read(min(length, max(0, os.fstat(stream.fileno()).st_size - offset)))
        except OSError as error:
            self._fail("read", name, error)

    def exists(self, name: str) -> bool:
        try:
            return not stat.S_ISDIR(self.path(name).stat().st_mode)
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError as error:
            self._fail("read", name, error)

    def size(self, name: str) -> int:
        try:
            return self.path(name).stat().st_size
        except OSError as error:
            self._fail("read", name, error)

    def list(self, prefix: str = "") -> Names:
        folder, _, start = check_prefix(prefix).rpartition("/")
        found: Names = []
        self._walk(folder, start, found)
        return sorted(found)

    def _walk(self, folder: str, start: str, found: Names) -> None:
        try:
            with os.scandir(self._root / folder) as entries:
                children = [(entry.name, entry.is_dir()) for entry in entries if entry.name.startswith(start)]
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:
            self._fail("list", folder or ".", error)
        for child, is_directory in children:
            name = f"{folder}/{child}" if folder else child
            if not is_directory:
                found.append(name)
            elif name != TEMPORARY:
                self._walk(name, "", found)

    # -- deleting ------------------------------------------------------------------------------------------------

    def delete(self, names: Iterable[str]) -> None:
        """Delete in the given order, then remove the directories (below the first level) that are empty as a result."""
        parents: set[Path] = set()
        for name in names:
            path = self.path(name)
            try:
                path.unlink()
            except (FileNotFoundError, NotADirectoryError):
                continue
            except OSError as error:
                self._fail("delete", name, error)
            if name.count("/") > 1:
                parents.add(path.parent)
        for parent in parents:
            with contextlib.suppress(OSError):  # not empty, or a writer uses it again
                parent.rmdir()

    def sweep_temporary(self, older_than: float = 3600.0, now: float | None = None) -> int:
        """Remove unfinished files last written at least ``older_than`` seconds ago; returns how many.

        One hour by default: no write of one file takes that long, and a younger file may belong to an active writer.
        """
        limit = (time.time() if now is None else now) - older_than
        removed = 0
        scratch = self._root / TEMPORARY
        with contextlib.suppress(FileNotFoundError):
            for entry in list(scratch.iterdir()):
                with contextlib.suppress(OSError):
                    if entry.lstat().st_mtime <= limit:
                        entry.unlink()
                        removed += 1
        return removed

    def _fail(self, verb: str, name: str, error: OSError) -> NoReturn:
        path = self._root / name
        if isinstance(error, FileNotFoundError) and verb == "read":
            raise NotFoundError(f"{path} does not exist") from None
        if isinstance(error, IsADirectoryError) and verb == "read":
            raise CorruptFileError(f"{path} is corrupt: a directory is in its place") from None
        raise CheckpointError(f"cannot {verb} {path}: {_reason(error)}") from error


def _reason(error: OSError) -> str:
    text = error.strerror or str(error)
    if error.errno in _FULL:
        return f"{text}; nothing was stored under this name, free some space and start the job again"
    return text


def _restore(root: str, durable: bool) -> LocalStorage:
    return LocalStorage(root, durable=durable)
