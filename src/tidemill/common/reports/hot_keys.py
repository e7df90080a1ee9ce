"""The keys that an operator sees most often, as a job tells of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["HotKey", "HotKeys"]


@dataclass(frozen=True)
class HotKey:
    """One key: ``share`` is its part of all records of the operator, ``records`` how many it had; both are estimates.

    ``key`` is what JSON makes of it: tuples are lists, dates are text. ``text`` is that for people to read.
    """

    key: Any
    text: str
    share: float
    records: int


@dataclass(frozen=True)
class HotKeys:
    """The most frequent keys of an operator of late, the hottest first; ``sampled`` tells how many records were looked
    at to know it. What came before counts half as much after each half minute.

    >>> HotKeys((HotKey("tea", "tea", 0.5, 100),), 20).hottest_share
    0.5
    """

    keys: tuple[HotKey, ...]
    sampled: int

    @property
    def hottest_share(self) -> float:
        """The share of the hottest key, 0 if no key came more than once."""
        return self.keys[0].share if self.keys else 0.0
