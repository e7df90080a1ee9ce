"""Divides a range of positions among epochs and the subtasks of an epoch."""

from __future__ import annotations

from collections.abc import Sequence


def cut_range(start: int, end: int, pieces: int) -> Sequence[tuple[int, int]]:
    """Divide ``[start, end)`` into up to ``pieces`` adjacent ranges of nearly equal length, none of them empty.

    >>> cut_range(10, 17, 3)
    [(10, 13), (13, 15), (15, 17)]
    """
    length = end - start
    pieces = min(pieces, length)
    if pieces <= 0:
        return []
    base, extra = divmod(length, pieces)
    ranges = []
    for index in range(pieces):
        stop = start + base + (1 if index < extra else 0)
        ranges.append((start, stop))
        start = stop
    return ranges
