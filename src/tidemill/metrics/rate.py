"""Rates: how fast a count grows."""

from __future__ import annotations

from collections import deque
from typing import Final

#: How many times a span is looked at: a rate forgets a burst to within this part of its span.
_MARKS: Final = 12


class Rate:
    """How much a count grew per second, over the last ``span`` seconds, or since ``since`` if that is less.

    >>> rate = Rate(span=60, since=100.0)
    >>> rate.mark(110.0, 50)
    >>> rate.at(110.0, 50)
    5.0
    """

    __slots__ = ("_marks", "_span")

    def __init__(self, span: float, since: float) -> None:
        self._span = span
        self._marks: deque[tuple[float, float]] = deque([(since, 0.0)])

    def mark(self, now: float, count: float) -> None:
        """The count is this much now."""
        marks = self._marks
        if len(marks) > 1 and now - marks[-2][0] < self._span / _MARKS:
            marks[-1] = (now, count)
        else:
            marks.append((now, count))
            self._forget(now)

    def at(self, now: float, count: float) -> float:
        """The rate now, where the count is this much."""
        self._forget(now)
        began, before = self._marks[0]
        return (count - before) / max(1.0, min(now - began, self._span))

    def _forget(self, now: float) -> None:
        marks = self._marks
        while len(marks) > 1 and marks[1][0] <= now - self._span:
            marks.popleft()
