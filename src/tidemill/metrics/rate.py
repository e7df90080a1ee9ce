"""Rates, at which counts grow."""

from __future__ import annotations

from collections import deque
from typing import Final

#: Number of marks per span. A burst leaves the rate with an accuracy of this fraction of the span.
_MARKS: Final = 12


class Rate:
    """The growth of a count per second, over the last ``span`` seconds or since ``since``, whichever is shorter.

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
        """Record the current count."""
        marks = self._marks
        if len(marks) > 1 and now - marks[-2][0] < self._span / _MARKS:
            marks[-1] = (now, count)
        else:
            marks.append((now, count))
            self._forget(now)

    def at(self, now: float, count: float) -> float:
        """The current rate, given the current count."""
        self._forget(now)
        began, before = self._marks[0]
        return (count - before) / max(1.0, min(now - began, self._span))

    def _forget(self, now: float) -> None:
        marks = self._marks
        while len(marks) > 1 and marks[1][0] <= now - self._span:
            marks.popleft()
