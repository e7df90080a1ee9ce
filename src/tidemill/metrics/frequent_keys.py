"""A bounded table of the most frequent keys of a stream: lossy counting, with weights.

Up to :data:`MOST` keys are counted. When there are more, a threshold rises until :data:`KEPT` of them are above it, and
the others are forgotten; a key that comes (again) is taken to have been just below the threshold. So a key with more
than about one in ``MOST - KEPT`` of all weight is in the table, and what is told of a key is at most what it really
had: what came before it was in the table is not counted. To forget costs as little as it does because it is done for
many keys at a time.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final, NamedTuple

__all__ = ["KEPT", "MOST", "FrequentKeys", "KeyWeight"]

MOST: Final = 256
KEPT: Final = 64


class KeyWeight(NamedTuple):
    """A key, and the weight that it was seen with."""

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
        #: The weight, and the number, of all that was added.
        self.total = 0.0
        self.times = 0.0
        #: Of each key its weight, how often it came, and the most that it may have had before. It is a list because
        #: that is made in a tenth of the time of an object.
        self._seen: dict[Hashable, list[float]] = {}
        self._threshold = 0.0

    def __len__(self) -> int:
        return len(self._seen)

    def add(self, key: Hashable, weight: float) -> None:
        """Count a key."""
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
        """Let all that was counted so far count half as much."""
        factor = 0.5 ** min(times, 1000)
        self.total *= factor
        self.times *= factor
        self._threshold *= factor
        self._seen = {key: [part * factor for part in seen] for key, seen in self._seen.items()}

    def top(self, count: int) -> list[KeyWeight]:
        """The most frequent keys, at most so many, the first one first; without those that were seen only once."""
        often = [KeyWeight(key, weight) for key, (weight, times, _) in self._seen.items() if times > 1]
        often.sort(key=lambda one: one.weight, reverse=True)
        return often[:count]

    def _forget(self) -> None:
        most = sorted((weight + missed for weight, _, missed in self._seen.values()), reverse=True)
        threshold = self._threshold = most[KEPT]
        self._seen = {key: seen for key, seen in self._seen.items() if seen[0] + seen[2] > threshold}
