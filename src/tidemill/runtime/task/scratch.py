"""Temporary directories that are removed after their process has ended, even if it was killed.

A directory is protected by a lock on a file in it, which the operating system releases when the process ends. The
process that creates the next directory removes those that are no longer locked: those of killed processes.
"""

from __future__ import annotations

import fcntl
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

_PREFIX = "tidemill-"
_LOCK = "owner.lock"


def scratch_directory() -> tuple[Path, Callable[[], None]]:
    """A new temporary directory, locked by this process, and a function that removes it."""
    sweep(Path(tempfile.gettempdir()))
    while True:
        root = Path(tempfile.mkdtemp(prefix=_PREFIX))
        lock = (root / _LOCK).open("wb")
        fcntl.flock(lock, fcntl.LOCK_EX)
        if (root / _LOCK).exists():  # otherwise another process has removed it before it was locked
            break
        lock.close()

    def remove() -> None:
        shutil.rmtree(root, ignore_errors=True)
        lock.close()

    return root, remove


def sweep(parent: Path) -> list[Path]:
    """Remove the directories in ``parent`` whose processes have ended, and return them.

    A directory without a lock file does not belong to Tidemill.
    """
    removed = []
    for lock in parent.glob(f"{_PREFIX}*/{_LOCK}"):
        try:
            with lock.open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(lock.parent)
        except OSError:
            continue  # it is in use, belongs to another user, or no longer exists
        removed.append(lock.parent)
    return removed
