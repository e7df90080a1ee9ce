"""Key groups: the unit in which keyed state is addressed, stored and moved.

A key always belongs to the same one of ``max_parallelism`` groups; a subtask owns a contiguous range of groups, so
rescaling only moves ranges. The assignment is Flink's: group g of m belongs to subtask ``g * p // m`` of p.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final, NewType, TypeVar, cast

from tidemill.common.calls import with_each
from tidemill.errors import ConfigurationError, InvalidKeyError
from tidemill.state.keys.canonical_key import canonical_key
from tidemill.state.keys.stable_hash import stable_hash

__all__ = [
    "FIRST_GROUP",
    "LAST_GROUP",
    "MAX_MAX_PARALLELISM",
    "GroupCache",
    "KeyGroup",
    "KeyGroupRange",
    "Subtask",
    "TargetCache",
    "check_parallelism",
    "key_group_of",
    "key_group_spans",
    "subtask_for_group",
    "subtasks_of",
]

KeyGroup = NewType("KeyGroup", int)
Subtask = NewType("Subtask", int)

MAX_MAX_PARALLELISM = 32768
"""Flink's bound (2**15); a key group fits the ``uint16`` column of a state file."""

FIRST_GROUP: Final = KeyGroup(0)
LAST_GROUP: Final = KeyGroup(0xFFFF)
"""With :data:`FIRST_GROUP`, a range that contains the key groups of every operator."""

# A cached str key takes about 200 bytes including its dict slot: 1 000 000 entries take at most some 200 MB.
_CACHE_LIMIT = 1_000_000
# The number of keys that are always kept: 3 MB.
_CACHE_FLOOR = 16_384


def check_parallelism(max_parallelism: int, parallelism: int = 1) -> None:
    """Raise :class:`ConfigurationError` unless 1 <= parallelism <= max_parallelism <= 32768."""
    if not 1 <= parallelism <= max_parallelism <= MAX_MAX_PARALLELISM:
        raise ConfigurationError(
            f"parallelism {parallelism} and max parallelism {max_parallelism} do not fit: "
            f"1 <= parallelism <= max parallelism <= {MAX_MAX_PARALLELISM} is required"
        )


def key_group_of(key: Any, max_parallelism: int) -> KeyGroup:
    """The key group of ``key``; raises :class:`InvalidKeyError` if it cannot be a key."""
    return KeyGroup(stable_hash(key) % max_parallelism)


def subtask_for_group(group: KeyGroup, max_parallelism: int, parallelism: int) -> Subtask:
    """The subtask that owns ``group``."""
    return Subtask(group * parallelism // max_parallelism)


def subtasks_of(parallelism: int) -> Sequence[Subtask]:
    """All subtasks of an operator.

    >>> list(subtasks_of(3))
    [0, 1, 2]
    """
    return cast("Sequence[Subtask]", range(parallelism))


def key_group_spans(groups: int, parts: int) -> list[tuple[KeyGroup, KeyGroup]]:
    """The first and the last group of each of ``parts`` contiguous parts of ``groups`` key groups.

    Parts are empty (the last group is before the first) only if there are more of them than groups.

    >>> key_group_spans(128, 3)
    [(0, 41), (42, 84), (85, 127)]
    """
    starts = [KeyGroup(groups * part // parts) for part in range(parts + 1)]
    return [(first, KeyGroup(next_first - 1)) for first, next_first in pairwise(starts)]


@dataclass(frozen=True, slots=True)
class KeyGroupRange:
    """The key groups ``first`` to ``last``, both included.

    The range is empty if ``last < first``; all empty ranges are equal.
    """

    first: KeyGroup
    last: KeyGroup

    def __post_init__(self) -> None:
        if self.last < self.first:
            object.__setattr__(self, "first", 0)
            object.__setattr__(self, "last", -1)
        elif self.first < 0 or self.last >= MAX_MAX_PARALLELISM:
            raise ConfigurationError(
                f"key groups {self.first}..{self.last} are outside of 0..{MAX_MAX_PARALLELISM - 1}"
            )

    @staticmethod
    def empty() -> KeyGroupRange:
        return KeyGroupRange(KeyGroup(0), KeyGroup(-1))

    @staticmethod
    def for_subtask(max_parallelism: int, parallelism: int, subtask: Subtask) -> KeyGroupRange:
        """The groups g with ``subtask_for_group(g) == subtask``: the exact inverse, never empty."""
        check_parallelism(max_parallelism, parallelism)
        if not 0 <= subtask < parallelism:
            raise ConfigurationError(f"there is no subtask {subtask} at parallelism {parallelism}")
        # g * p // m == s  <=>  ceil(s * m / p) <= g <= ceil((s + 1) * m / p) - 1
        first = (subtask * max_parallelism + parallelism - 1) // parallelism
        last = ((subtask + 1) * max_parallelism - 1) // parallelism
        return KeyGroupRange(KeyGroup(first), KeyGroup(last))

    def intersection(self, other: KeyGroupRange) -> KeyGroupRange:
        return KeyGroupRange(max(self.first, other.first), min(self.last, other.last))

    def __contains__(self, group: object) -> bool:
        return isinstance(group, int) and self.first <= group <= self.last

    def __iter__(self) -> Iterator[KeyGroup]:
        return map(KeyGroup, range(self.first, self.last + 1))

    def __len__(self) -> int:
        return self.last - self.first + 1


_Number = TypeVar("_Number", KeyGroup, Subtask)


class _KeyCache(dict[Any, _Number]):
    """Key -> what is computed from its hash, once for each key.

    Contains at most ``limit`` keys: it is cleared when full. NaN keys are computed each time, because a dict cannot
    find them.
    """

    __slots__ = ("_limit", "_max_parallelism")

    def __init__(self, max_parallelism: int, limit: int = _CACHE_LIMIT) -> None:
        check_parallelism(max_parallelism)
        super().__init__()
        self._max_parallelism = max_parallelism
        self._limit = limit

    def __missing__(self, key: Any) -> _Number:
        value = self._compute(key)
        if canonical_key(key) is key:
            if len(self) >= self._limit:
                self.clear()
            self[key] = value
        return value

    def _compute(self, key: Any) -> _Number:
        raise NotImplementedError

    def trim(self, used: int) -> None:
        """Clear the cache if it contains far more than the ``used`` keys in use: most are not needed any more."""
        if len(self) > max(4 * used, _CACHE_FLOOR):
            self.clear()

    def _of_each(self, keys: list[Any]) -> list[_Number]:
        """The value of every key; raises :class:`InvalidKeyError` for the first one that cannot be a key."""
        try:
            return with_each(self.__getitem__, keys)
        except TypeError:
            for key in keys:
                stable_hash(key)  # raises InvalidKeyError for the invalid key
                try:
                    hash(key)
                except TypeError as error:
                    raise InvalidKeyError(f"a {type(key).__qualname__} cannot be a key: {error}") from error
            raise


class GroupCache(_KeyCache[KeyGroup]):
    """Key -> key group, hashing each key once; use :meth:`groups` for batches."""

    __slots__ = ()

    def _compute(self, key: Any) -> KeyGroup:
        hashed: Any = stable_hash(key)
        group: KeyGroup = hashed % self._max_parallelism  # to call KeyGroup would cost something for each key
        return group

    groups = _KeyCache[KeyGroup]._of_each

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._max_parallelism, self._limit)


class TargetCache(_KeyCache[Subtask]):
    """Key -> subtask that owns its group at this parallelism; use :meth:`targets` for batches."""

    __slots__ = ("_parallelism",)

    def __init__(self, max_parallelism: int, parallelism: int, limit: int = _CACHE_LIMIT) -> None:
        check_parallelism(max_parallelism, parallelism)
        super().__init__(max_parallelism, limit)
        self._parallelism = parallelism

    def _compute(self, key: Any) -> Subtask:
        hashed: Any = stable_hash(key)
        subtask: Subtask = hashed % self._max_parallelism * self._parallelism // self._max_parallelism
        return subtask

    targets = _KeyCache[Subtask]._of_each

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._max_parallelism, self._parallelism, self._limit)
