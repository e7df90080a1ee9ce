"""The most frequent keys of an operator, as reported by a job."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["HotKey", "HotKeys"]


@dataclass(frozen=True)
class HotKey:
    """One key. ``share`` is its share of the operator's records, ``records`` its number of records; both are estimates.

    ``key`` is the key in its JSON form: tuples are lists, dates are text. ``text`` is the key in readable form.
    """

    key: Any
    text: str
    share: float
    records: int


@dataclass(frozen=True)
class HotKeys:
    """The most frequent recent keys of an operator, hottest first.

    ``sampled`` is the number of records in the sample. The weight of older records is halved every 30 seconds.

    >>> HotKeys((HotKey("tea", "tea", 0.5, 100),), 20).hottest_share
    0.5
    """

    keys: tuple[HotKey, ...]
    sampled: int

    @property
    def hottest_share(self) -> float:
        """The share of the hottest key, or 0 if no key occurred more than once."""
        return self.keys[0].share if self.keys else 0.0
