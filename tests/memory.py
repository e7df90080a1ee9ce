"""Where files of tests are if there is room: durable ones are thousands, and a disk takes some 10 ms for each."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Final

import psutil

#: Names the folder of all files of tests: pytest's own variable, which servers of tests use, too.
TEMPORARY: Final = "PYTEST_DEBUG_TEMPROOT"
_MEMORY: Final = Path("/dev/shm")
_ROOM: Final = 4 << 30


def use_memory() -> None:
    """Put files of tests into memory, if there is room and the environment does not say where."""
    if _MEMORY.is_dir() and os.access(_MEMORY, os.W_OK) and not os.statvfs(_MEMORY).f_flag & os.ST_NOEXEC:
        room = min(shutil.disk_usage(_MEMORY).free, psutil.virtual_memory().available // 2)
        if room >= _ROOM:
            os.environ.setdefault(TEMPORARY, str(_MEMORY))
