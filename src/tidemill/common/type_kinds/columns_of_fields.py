"""Checks and conversions of many rows or tuples at once, field by field."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from typing import Any

from tidemill.common.types import Row

__all__ = ["all_named", "same_width", "shaped_column"]

_names_of = attrgetter("_fields")


def all_named(rows: Sequence[Row], *allowed: tuple[str, ...] | None) -> bool:
    """Whether all rows have the same field names, and these are one of ``allowed``."""
    found = list(map(_names_of, rows))
    return found[0] in allowed and found.count(found[0]) == len(found)


def shaped_column(shape: Callable[[list[Any]], list[Any]], column: Iterable[Any]) -> list[Any]:
    """Converts a column of rows, in which any field may be None."""
    fields = list(column)
    present = [field for field in fields if field is not None]
    if len(present) == len(fields):
        return shape(fields)
    shaped = iter(shape(present))
    return [None if field is None else next(shaped) for field in fields]


def same_width(values: Sequence[Any], width: int) -> bool:
    """Whether all values have this many fields."""
    return {width}.issuperset(map(len, values))
