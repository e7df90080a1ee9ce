"""The log file of a driver: all that its process prints, where that goes to a file."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

__all__ = ["LOG_VARIABLE", "LogPart", "log_of_this_process", "read_log"]

#: Names the file that the output of a process goes to: set by ``tidemill run -d``, or by whoever redirects it.
LOG_VARIABLE: Final = "TIDEMILL_LOG"
#: The most that is read of a file at a time: of longer ones only the end is seen.
MOST_BYTES: Final = 1 << 20


@dataclass(frozen=True)
class LogPart:
    """Lines of a log without their ends. ``skipped``: there are others before them; ``end``: where the file goes on."""

    lines: list[str]
    skipped: bool
    end: int


def log_of_this_process() -> Path | None:
    """The file with the output of this process, None if there is none."""
    named = os.environ.get(LOG_VARIABLE)
    path = None if not named else Path(named)
    return path if path is not None and path.is_file() else None


def read_log(path: Path, lines: int, after: int | None = None) -> LogPart:
    """The last lines of a log, at most so many; with ``after``, the ``end`` of an earlier part, only those behind it.

    A last line that is not finished yet is left for the next part, unless ``after`` is None. Of a line that was written
    over, as progress bars are, the last state counts. A file that has become shorter is read from its beginning.
    """
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        wanted = 0 if after is None or after > size else after
        start = max(wanted, size - MOST_BYTES)
        file.seek(start)
        content = file.read(size - start)
    whole = len(content) if after is None else content.rfind(b"\n") + 1
    found = content[:whole].decode("utf-8", "replace").split("\n")
    if not found[-1]:
        found.pop()
    if start > wanted and found:
        found = found[1:]  # a part of a line only
    shown = found[-lines:] if lines else []
    return LogPart([_as_left(line) for line in shown], start > wanted or len(shown) < len(found), start + whole)


def _as_left(line: str) -> str:
    return line.rstrip("\r").rpartition("\r")[2]
