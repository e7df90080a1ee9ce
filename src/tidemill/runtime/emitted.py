"""Records that share mutable objects with state.

A function often reads a list from state, appends to it, writes it back and yields it. In Flink a record is serialised
when it is yielded; here records leave an operator a batch at a time, so what the function may still change is copied as
it comes out. Where the declared types of the states rule this out, nothing is looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from tidemill.state.copies import ATOMIC, detached


def is_immutable(value: Any) -> bool:
    """Whether a value, or a tuple of values, is of types that cannot change."""
    return type(value) in ATOMIC or (isinstance(value, tuple) and ATOMIC.issuperset(map(type, value)))


def emitted(value: Any) -> Any:
    """The value itself if nobody can change it, else a copy."""
    return value if is_immutable(value) else detached(value)


def copying_extend(values: list[Any]) -> Callable[[Iterable[Any]], None]:
    """As ``values.extend``, with a copy of everything mutable, taken at once: between two yields it may change."""

    def extend(more: Iterable[Any]) -> None:
        values.extend(map(emitted, more))

    return extend
