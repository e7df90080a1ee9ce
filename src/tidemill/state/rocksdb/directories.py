"""Local directories of stores: finds leftover ones, locks them, and creates new ones.

Below each local directory there is ``tidemill-rocksdb-<user>/<job>/<operator, subtask, key groups>/<token>``, readable
only by its owner. The process that holds the lock in a store owns the store; the lock is released when the process
ends. So a worker that replaces a dead one finds its store, and abandoned stores can be distinguished from those in use.
"""

from __future__ import annotations

import fcntl
import hashlib
import logging
import os
import secrets
import shutil
import stat
import tempfile
import time
import weakref
from pathlib import Path
from typing import Final
from urllib.parse import quote

from tidemill.config import RocksDBOptions
from tidemill.errors import LocalStateError
from tidemill.state.keyed.backend import BackendPlace

log = logging.getLogger(__name__)

_LOCK: Final = "owner.lock"
#: Another worker for the same subtask may find a new directory, and lock it first: the number of attempts.
_ATTEMPTS: Final = 5
#: A directory that has had no owner for this long is not reused.
_STALE_SECONDS: Final = 3600.0


class LocalDirectory:
    """A directory that this process owns until it is closed."""

    def __init__(self, path: Path, lock: int) -> None:
        self.path = path
        # The lock is released with this object, as it is with the process, even if ``close`` is never called.
        self._release = weakref.finalize(self, os.close, lock)

    def close(self, *, remove: bool) -> None:
        """Release the directory, with or without deleting its content."""
        if not self._release.alive:
            return
        if remove:
            shutil.rmtree(self.path, ignore_errors=True)
            _remove_empty(self.path.parent, self.path.parent.parent)
        else:
            self.touch()
        self._release()

    def touch(self) -> None:
        """Mark the directory as still in use."""
        os.utime(self.path / _LOCK)


def directory_for(place: BackendPlace, roots: tuple[str, ...], choice: str) -> tuple[LocalDirectory, bool]:
    """A directory for a store, and whether it contains a store left by another worker.

    1. Of the directories left at this place by workers of the same start of the program, the newest is used; the others
       are removed. Locked directories are in use by another worker and stay.
    2. Otherwise a new one is created, in the root selected by ``choice``.

    Raises :class:`LocalStateError` that names the directories and the option if none of them can be used.
    """
    bases = [Path(root) / f"tidemill-rocksdb-{os.getuid()}" for root in roots or (tempfile.gettempdir(),)]
    left = [path for base in bases for path in _entries(base / _name(place))]
    found: LocalDirectory | None = None
    for path in sorted(left, key=_modified, reverse=True):  # 1
        directory = _take(path)
        if directory is None:
            continue
        if found is None and path.name.startswith(_token(place)):
            found = directory
        else:
            directory.close(remove=True)
    for base in bases:
        _remove_stale(base)
    if found is not None:
        return found, True
    return _make(place, _ordered(bases, place, choice)), False  # 2


def _make(place: BackendPlace, bases: list[Path]) -> LocalDirectory:
    problems = []
    for base in bases:
        try:
            base.parent.mkdir(parents=True, exist_ok=True)
            _private(base)
            where = base / _name(place)
            where.parent.mkdir(mode=0o700, exist_ok=True)
            where.mkdir(mode=0o700, exist_ok=True)
            for _ in range(_ATTEMPTS):
                path = tempfile.mkdtemp(prefix=_token(place), dir=where)  # a new name, with mode 0700
                directory = _take(Path(path), create=True)
                if directory is not None:
                    return directory
            problems.append(f"{base.parent}: other workers have taken each new directory")
        except OSError as error:
            problems.append(f"{base.parent}: {error.strerror or error}")
    raise LocalStateError(
        f"{place.where} has no usable local directory for its state: {'; '.join(problems)}. Set "
        f"{RocksDBOptions.LOCAL_DIRECTORIES.key} to directories with free space that the workers may write to"
    )


def _ordered(bases: list[Path], place: BackendPlace, choice: str) -> list[Path]:
    """The directories in the order in which they are tried."""
    if choice == "LEAST_USED":
        return sorted(bases, key=_free, reverse=True)
    first = secrets.randbelow(len(bases)) if choice == "RANDOM" else place.subtask % len(bases)
    return bases[first:] + bases[:first]


def _free(base: Path) -> int:
    try:
        return shutil.disk_usage(base.parent).free
    except OSError:
        return -1


def _name(place: BackendPlace) -> str:
    operator = hashlib.sha256(place.operator.encode()).hexdigest()[:16]
    where = f"{operator}-{place.subtask}-{place.groups.first}-{place.groups.last}"
    return f"{quote(place.job_id, safe='')}/{where}"


def _token(place: BackendPlace) -> str:
    return hashlib.sha256(place.program.encode()).hexdigest()[:16] + "-"


def _private(base: Path) -> None:
    """Create the parent directory of all stores; raises ``OSError`` if another user could have created files in it."""
    base.mkdir(mode=0o700, exist_ok=True)
    found = base.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise OSError(f"{base} belongs to another user")
    if stat.S_IMODE(found.st_mode) & 0o077:
        base.chmod(0o700)


def _take(path: Path, *, create: bool = False) -> LocalDirectory | None:
    """Lock a directory; None if it is locked by another process, or does not exist."""
    try:
        lock = os.open(path / _LOCK, os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0), 0o600)
    except OSError:
        if not create:
            return None
        raise
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        (path / _LOCK).stat()
    except OSError:
        os.close(lock)
        return None
    return LocalDirectory(path, lock)


def _remove_stale(base: Path) -> None:
    """Remove directories of any job without an owner for a long time: the worker was killed and never replaced."""
    before = time.time() - _STALE_SECONDS
    for job in _entries(base):
        for where in _entries(job):
            for path in _entries(where):
                if _modified(path) < before and (directory := _take(path)) is not None:
                    log.info("removing unused local state: %s", path)
                    directory.close(remove=True)


def _remove_empty(*paths: Path) -> None:
    for path in paths:
        try:
            path.rmdir()
        except OSError:
            return


def _entries(path: Path) -> list[Path]:
    try:
        return list(path.iterdir())
    except OSError:
        return []


def _modified(path: Path) -> float:
    try:
        return (path / _LOCK).stat().st_mtime
    except OSError:
        return 0.0
