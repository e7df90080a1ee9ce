"""Which values can be handed out as they are, and how the others are copied."""

from __future__ import annotations

import copy
import datetime as dt
import decimal
import uuid
from collections.abc import Callable
from typing import Any, Final

from tidemill.common.types import Row

#: Types whose instances can be handed out without a copy.
ATOMIC: Final[frozenset[type]] = frozenset(
    {
        int,
        float,
        str,
        bytes,
        bool,
        type(None),
        complex,
        decimal.Decimal,
        dt.date,
        dt.datetime,
        dt.time,
        dt.timedelta,
        uuid.UUID,
    }
)


def _copied_row(row: Row) -> Row:
    return copy.copy(row) if ATOMIC.issuperset(map(type, row)) else copy.deepcopy(row)


def _copied_tuple(value: tuple[Any, ...]) -> tuple[Any, ...]:
    return value if all(map(_is_fixed, value)) else copy.deepcopy(value)


def _is_fixed(value: Any) -> bool:
    kind = type(value)
    return kind in ATOMIC or (kind is tuple and all(map(_is_fixed, value)))


#: Types for which there is a better way to be copied than ``copy.deepcopy``, if at all.
COPIERS: Final[dict[type, Callable[[Any], Any]]] = {Row: _copied_row, tuple: _copied_tuple}


def detached(value: Any) -> Any:
    """The value itself if nobody can change it, else a deep copy."""
    kind = type(value)
    return value if kind in ATOMIC else COPIERS.get(kind, copy.deepcopy)(value)
