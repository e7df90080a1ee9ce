"""Local directories of stores: who owns which, which are left over, and where a new one goes.

Below each local directory there is ``tidemill-rocksdb-<user>/<job>/<operator, subtask, key groups>/<token>``, readable
for its owner only. A store is owned by whoever holds the lock in it; the lock goes with its process. So a worker that
takes the place of a dead one finds what that one left, and whatever nobody will look for can be told from what is used.
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
#: A directory that nobody has owned for this long is not looked for any more.
_STALE_SECONDS: Final = 3600.0


class LocalDirectory:
    """A directory that this process owns, until it is closed."""

    def __init__(self, path: Path, lock: int) -> None:
        self.path = path
        # The lock goes with this object, as it goes with the process: also if nobody closes it.
        self._release = weakref.finalize(self, os.close, lock)

    def close(self, *, remove: bool) -> None:
        """Give the directory up, with or without what is in it."""
        if not self._release.alive:
            return
        if remove:
            shutil.rmtree(self.path, ignore_errors=True)
            _remove_empty(self.path.parent, self.path.parent.parent)
        else:
            self.touch()
        self._release()

    def touch(self) -> None:
        """The directory is still in use."""
        os.utime(self.path / _LOCK)


def directory_for(place: BackendPlace, roots: tuple[str, ...], choice: str) -> tuple[LocalDirectory, bool]:
    """A directory for a store, and whether somebody has left a store in it.

    1. Of what is left over at this place, by a worker of the same start of the program, the newest is taken; the rest
       is removed. What is locked is in use by another worker and stays.
    2. Else a new one is made, in the root that ``choice`` says.

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
            path = tempfile.mkdtemp(prefix=_token(place), dir=where)  # with a name that is new, and 0700
            directory = _take(Path(path), create=True)
            if directory is not None:
                return directory
        except OSError as error:
            problems.append(f"{base.parent}: {error.strerror or error}")
    raise LocalStateError(
        f"{place.where} finds no local directory for its state: {'; '.join(problems)}. Set "
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
    """Make the directory that holds all others; raises ``OSError`` if somebody else could have put something there."""
    base.mkdir(mode=0o700, exist_ok=True)
    found = base.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise OSError(f"{base} belongs to somebody else")
    if stat.S_IMODE(found.st_mode) & 0o077:
        base.chmod(0o700)


def _take(path: Path, *, create: bool = False) -> LocalDirectory | None:
    """Own a directory; None if somebody else does, or it is gone."""
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
    """Remove what nobody has owned for long, of any job: its worker was killed, and nobody took its place."""
    before = time.time() - _STALE_SECONDS
    for job in _entries(base):
        for where in _entries(job):
            for path in _entries(where):
                if _modified(path) < before and (directory := _take(path)) is not None:
                    log.info("removing local state that nobody uses any more: %s", path)
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
