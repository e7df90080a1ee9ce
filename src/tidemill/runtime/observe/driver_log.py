"""The log file of a driver: the output of its process, if it is redirected to a file."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

__all__ = ["LOG_VARIABLE", "LogPart", "log_of_this_process", "read_log"]

#: Environment variable with the path of the log file. Set by ``tidemill run -d`` or by a user who redirects the output.
LOG_VARIABLE: Final = "TIDEMILL_LOG"
#: Maximum number of bytes to read at a time. Of a longer file, only the end is read.
MOST_BYTES: Final = 1 << 20


@dataclass(frozen=True)
class LogPart:
    """Lines of a log, without line separators.

    ``skipped`` is whether earlier lines were omitted. ``end`` is the position in the file where the next part starts.
    """

    lines: list[str]
    skipped: bool
    end: int


def log_of_this_process() -> Path | None:
    """Return the file with the output of this process, or None if there is none."""
    named = os.environ.get(LOG_VARIABLE)
    path = None if not named else Path(named)
    return path if path is not None and path.is_file() else None


def read_log(path: Path, lines: int, after: int | None = None) -> LogPart:
    """Return at most ``lines`` of the last lines of a log.

    With ``after``, the ``end`` of an earlier part, only lines after that position are returned. An incomplete last line
    is left for the next part, unless ``after`` is None. Of a line that was overwritten, such as a progress bar, the
    last content is returned. A file that is now shorter than ``after`` is read from the beginning.
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
        found = found[1:]  # the first line may be incomplete
    shown = found[-lines:] if lines else []
    return LogPart([_as_left(line) for line in shown], start > wanted or len(shown) < len(found), start + whole)


def _as_left(line: str) -> str:
    return line.rstrip("\r").rpartition("\r")[2]
