"""A bounded table of the most frequent keys of a stream: lossy counting with weights.

Up to :data:`MOST` keys are counted. When there are more, a threshold is raised until :data:`KEPT` of them are above it,
and the others are removed. A new key, or one that returns, is assumed to have been just below the threshold. So a key
with more than about one in ``MOST - KEPT`` of the total weight is in the table. The reported weight of a key is never
too high: occurrences before it was in the table are not counted. Removal is cheap because it removes many keys at a
time.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final, NamedTuple

__all__ = ["KEPT", "MOST", "FrequentKeys", "KeyWeight"]

MOST: Final = 256
KEPT: Final = 64


class KeyWeight(NamedTuple):
    """A key and its counted weight."""

    key: Hashable
    weight: float


class FrequentKeys:
    """Counts keys in bounded memory.

    >>> keys = FrequentKeys()
    >>> for position in range(10_000):
    ...     keys.add("hot" if position % 4 == 0 else position, 1)
    >>> keys.top(3)
    [KeyWeight(key='hot', weight=2500)]
    >>> keys.total, len(keys) <= MOST
    (10000.0, True)
    """

    __slots__ = ("_seen", "_threshold", "times", "total")

    def __init__(self) -> None:
        #: The total weight and the number of all additions.
        self.total = 0.0
        self.times = 0.0
        #: For each key its weight, its number of additions, and the maximum weight it may have had before. A list,
        #: because creating one takes a tenth of the time of creating an object.
        self._seen: dict[Hashable, list[float]] = {}
        self._threshold = 0.0

    def __len__(self) -> int:
        return len(self._seen)

    def add(self, key: Hashable, weight: float) -> None:
        """Add an occurrence of a key."""
        self.total += weight
        self.times += 1
        seen = self._seen.get(key)
        if seen is not None:
            seen[0] += weight
            seen[1] += 1
            return
        if len(self._seen) >= MOST:
            self._forget()
        self._seen[key] = [weight, 1, self._threshold]

    def halve(self, times: int = 1) -> None:
        """Halve the weight of everything counted so far, ``times`` times."""
        factor = 0.5 ** min(times, 1000)
        self.total *= factor
        self.times *= factor
        self._threshold *= factor
        self._seen = {key: [part * factor for part in seen] for key, seen in self._seen.items()}

    def top(self, count: int) -> list[KeyWeight]:
        """The ``count`` most frequent keys in descending order, excluding keys that occurred only once."""
        often = [KeyWeight(key, weight) for key, (weight, times, _) in self._seen.items() if times > 1]
        often.sort(key=lambda one: one.weight, reverse=True)
        return often[:count]

    def _forget(self) -> None:
        most = sorted((weight + missed for weight, _, missed in self._seen.values()), reverse=True)
        threshold = self._threshold = most[KEPT]
        self._seen = {key: seen for key, seen in self._seen.items() if seen[0] + seen[2] > threshold}
