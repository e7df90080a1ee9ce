"""Summaries of values: count, sum, minimum, maximum and, for histograms, counts in fixed buckets.

The bounds are the same for all histograms, so that the histograms of subtasks and epochs can be added. There are ten
bounds in each power of ten (the error of a quantile is less than 13 %), from 0.001 to 10,000,000,000.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from typing import Final

from tidemill.common.reports.metric_value import HistogramValue

_STEPS: Final = (1.0, 1.25, 1.6, 2.0, 2.5, 3.2, 4.0, 5.0, 6.3, 8.0)
BOUNDS: Final = tuple(float(f"{step}e{power}") for power in range(-3, 10) for step in _STEPS)
#: The bounds for reporters in which each bound costs a time series: 1, 2 and 5 in each power of ten.
COARSE_BOUNDS: Final = frozenset(float(f"{step}e{power}") for power in range(-3, 10) for step in (1.0, 2.0, 5.0))

#: The serialized form of a summary: count, sum, minimum, maximum, and the count of each bucket (None without buckets).
Packed = tuple[int, float, float, float, dict[int, int] | None]


class Summary:
    """A summary of recorded values. With ``spread`` it also has the count of each bucket.

    >>> seen = Summary(spread=True)
    >>> for value in (1, 2, 2, 30):
    ...     seen.update(value)
    >>> value = seen.value()
    >>> value.count, value.sum, value.min, value.max, value.quantile(0.75)
    (4, 35.0, 1.0, 30.0, 2.0)
    """

    __slots__ = ("buckets", "count", "least", "most", "total")

    def __init__(self, *, spread: bool) -> None:
        self.buckets: dict[int, int] | None = {} if spread else None
        self.clear()

    def clear(self) -> None:
        """Discard all values."""
        self.count = 0
        self.total = 0.0
        self.least = math.inf
        self.most = -math.inf
        if self.buckets is not None:
            self.buckets = {}

    def update(self, value: float) -> None:
        """Record one value."""
        self.count += 1
        self.total += value
        if value < self.least:
            self.least = value
        if value > self.most:
            self.most = value
        buckets = self.buckets
        if buckets is not None:
            bucket = bisect_left(BOUNDS, value)
            buckets[bucket] = buckets.get(bucket, 0) + 1

    def packed(self) -> Packed:
        """The summary in its serialized form."""
        return self.count, self.total, self.least, self.most, None if self.buckets is None else dict(self.buckets)

    def add(self, packed: Packed) -> None:
        """Add all values of another summary."""
        count, total, least, most, buckets = packed
        self.count += count
        self.total += total
        self.least = min(self.least, least)
        self.most = max(self.most, most)
        if self.buckets is not None:
            for bucket, number in (buckets or {}).items():
                self.buckets[bucket] = self.buckets.get(bucket, 0) + number

    def value(self) -> HistogramValue:
        """The summary as a histogram. Empty buckets are omitted, except the bound before a bucket with values."""
        if not self.count:
            return HistogramValue(0, 0.0, 0.0, 0.0)
        spread: list[tuple[float, int]] = []
        upto = 0
        for bucket in sorted(self.buckets or ()):
            if bucket and bucket - 1 not in (self.buckets or {}):
                spread.append((BOUNDS[bucket - 1], upto))
            upto += (self.buckets or {})[bucket]
            spread.append((BOUNDS[bucket] if bucket < len(BOUNDS) else math.inf, upto))
        if spread and spread[-1][0] != math.inf:
            spread.append((math.inf, upto))
        return HistogramValue(self.count, float(self.total), float(self.least), float(self.most), tuple(spread))
