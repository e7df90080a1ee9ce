"""Temporary directories that are gone when their process is, however it ended.

A directory is held by a lock on a file in it, which the system releases with the process. Whoever makes the next
directory removes those nobody holds any more: those of killed processes.
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
    """A new temporary directory, held by this process, and a function that removes it."""
    sweep(Path(tempfile.gettempdir()))
    while True:
        root = Path(tempfile.mkdtemp(prefix=_PREFIX))
        lock = (root / _LOCK).open("wb")
        fcntl.flock(lock, fcntl.LOCK_EX)
        if (root / _LOCK).exists():  # else somebody's sweep came before our lock
            break
        lock.close()

    def remove() -> None:
        shutil.rmtree(root, ignore_errors=True)
        lock.close()

    return root, remove


def sweep(parent: Path) -> list[Path]:
    """Remove the directories in ``parent`` whose processes are gone; returns them. One without a lock is not ours."""
    removed = []
    for lock in parent.glob(f"{_PREFIX}*/{_LOCK}"):
        try:
            with lock.open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(lock.parent)
        except OSError:
            continue  # somebody holds it, or it is another user's, or gone
        removed.append(lock.parent)
    return removed
