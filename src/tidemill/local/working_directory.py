"""The working directory of the thread that runs a job, for functions that open the files of archives."""

from __future__ import annotations

import ctypes
import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

__all__ = ["working_in"]

log = logging.getLogger(__name__)

#: ``CLONE_FS`` of Linux: what threads share of the file system, such as the working directory.
_CLONE_FS: Final = 0x200


@contextmanager
def working_in(directory: Path) -> Iterator[None]:
    """Make ``directory`` the working directory of this thread and of the threads that it starts.

    The thread must end afterwards: its working directory stays separate from that of the process. Where the operating
    system does not allow that, it is the working directory of the whole process meanwhile, and a warning says so.
    """
    if _separated():
        os.chdir(directory)
        yield
        return
    before = Path.cwd()
    log.warning(
        "while the job runs, the working directory of this process is %s, because it has archives. Use absolute paths "
        "outside of functions",
        directory,
    )
    os.chdir(directory)
    try:
        yield
    finally:
        os.chdir(before)


def _separated() -> bool:
    """Give this thread a working directory of its own, if possible. Containers may forbid it."""
    if sys.platform != "linux":
        return False
    unshare = getattr(ctypes.CDLL(None, use_errno=True), "unshare", None)
    return unshare is not None and unshare(_CLONE_FS) == 0
