"""A job's failures as they are remembered: the last few, those at one and the same record as one. Pure."""

from __future__ import annotations

from collections import deque
from dataclasses import replace

from tidemill.common.reports.exception_history import ExceptionEntry
from tidemill.errors import FailureSite, TidemillError


class ExceptionHistory:
    """Failures in the order in which they came; the oldest are forgotten."""

    def __init__(self, size: int) -> None:
        self._entries: deque[ExceptionEntry] = deque(maxlen=size)

    def entries(self) -> list[ExceptionEntry]:
        """The entries, newest first, as Flink shows them."""
        return list(reversed(self._entries))

    def failed(self, error: BaseException, now: int) -> ExceptionEntry:
        """Remember a failure; returns its entry."""
        site = error.site if isinstance(error, TidemillError) else None
        site = site or FailureSite(exception=type(error).__name__)
        text = str(error)
        entry = ExceptionEntry(now, now, 1, _in_one_line(site.exception, text), text, site)
        last = self._entries[-1] if self._entries else None
        if last is not None and _same_record(last.site, site):
            entry = replace(entry, timestamp=last.timestamp, times=last.times + 1)
            self._entries.pop()
        self._entries.append(entry)
        return entry

    def followed_by(self, what: str) -> None:
        """Say what the job did after the last failure."""
        self._entries.append(replace(self._entries.pop(), followed_by=what))


def _same_record(one: FailureSite, other: FailureSite) -> bool:
    """Whether the same exception came at the same record; the epoch, and who ran it, may be others."""
    return one.record is not None and (one.uid, one.exception, one.key, one.record) == (
        other.uid,
        other.exception,
        other.key,
        other.record,
    )


def _in_one_line(kind: str, text: str) -> str:
    """What was raised, as the last line of a traceback says it: class and message."""
    lines = text.splitlines()
    told = next((line for line in lines if line.startswith(kind)), None)
    if told is None:
        told = f"{kind}: {lines[0]}" if lines else kind
    return told
