"""The exception history of a job: its most recent failures. Repeated failures at the same record form one entry.

This module has no side effects.
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace

from tidemill.common.reports.exception_history import ExceptionEntry
from tidemill.errors import FailureSite, TidemillError


class ExceptionHistory:
    """Failures in the order in which they occurred. The oldest entries are discarded."""

    def __init__(self, size: int) -> None:
        self._entries: deque[ExceptionEntry] = deque(maxlen=size)

    def entries(self) -> list[ExceptionEntry]:
        """The entries, newest first, as Flink shows them."""
        return list(reversed(self._entries))

    def failed(self, error: BaseException, now: int) -> ExceptionEntry:
        """Record a failure and return its entry."""
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
        """Record what the job did after the last failure."""
        self._entries.append(replace(self._entries.pop(), followed_by=what))


def _same_record(one: FailureSite, other: FailureSite) -> bool:
    """Whether the same exception occurred at the same record. The epoch and the worker may differ."""
    return one.record is not None and (one.uid, one.exception, one.key, one.record) == (
        other.uid,
        other.exception,
        other.key,
        other.record,
    )


def _in_one_line(kind: str, text: str) -> str:
    """The exception as the last line of a traceback prints it: class and message."""
    lines = text.splitlines()
    told = next((line for line in lines if line.startswith(kind)), None)
    if told is None:
        told = f"{kind}: {lines[0]}" if lines else kind
    return told
