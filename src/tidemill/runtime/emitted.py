"""Records that share mutable objects with state.

A function often reads a list from state, appends to it, writes it back and yields it. In Flink a record is serialised
when it is yielded; here records leave an operator a batch at a time, so what the function may still change is copied as
it comes out. Where the declared types of the states rule this out, nothing is looked at.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from typing import Any

from tidemill.common.typeinfo import BasicTypeInfo, TupleTypeInfo, TypeInformation
from tidemill.state.tables import ATOMIC


def is_immutable(value: Any) -> bool:
    """Whether a value, or a tuple of values, is of types that cannot change."""
    kind = type(value)
    return kind in ATOMIC or (kind is tuple and ATOMIC.issuperset(map(type, value)))


def immutable_type(type_info: TypeInformation) -> bool:
    """Whether all values of a type are immutable."""
    if isinstance(type_info, TupleTypeInfo):
        return all(map(immutable_type, type_info.get_field_types()))
    return isinstance(type_info, BasicTypeInfo)


def emitted(value: Any) -> Any:
    """The value itself if nobody can change it, else a copy."""
    return value if is_immutable(value) else copy.deepcopy(value)


def copying_extend(values: list[Any]) -> Callable[[Iterable[Any]], None]:
    """As ``values.extend``, with a copy of everything mutable, taken at once: between two yields it may change."""

    def extend(more: Iterable[Any]) -> None:
        values.extend(map(emitted, more))

    return extend
