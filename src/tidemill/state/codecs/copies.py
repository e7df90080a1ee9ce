"""Determines which values can be returned without a copy, and copies the others."""

from __future__ import annotations

import copy
import datetime as dt
import decimal
import pickle
import uuid
from collections.abc import Callable
from typing import Any, Final

from tidemill.common.types import Row
from tidemill.errors import SerializationError

#: Types whose instances can be returned without a copy.
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


#: Types with a better way to copy them than ``copy.deepcopy``, including not copying at all.
COPIERS: Final[dict[type, Callable[[Any], Any]]] = {Row: _copied_row, tuple: _copied_tuple}


def detached(value: Any) -> Any:
    """The value itself if it is immutable, else a deep copy."""
    kind = type(value)
    return value if kind in ATOMIC else COPIERS.get(kind, copy.deepcopy)(value)


def copied_record(value: Any) -> Any:
    """Like :func:`detached`, optimized for records: the result is the same as after an exchange.

    Plain objects that contain only immutable values are copied directly, everything else by pickle, which takes less
    than half the time of ``copy.deepcopy``. Raises :class:`SerializationError` if neither can copy the value.

    >>> record = {"a": 1, "b": [2]}
    >>> other = copied_record(record)
    >>> other["b"].append(3)
    >>> record
    {'a': 1, 'b': [2]}
    """
    kind = type(value)
    if kind in ATOMIC:
        return value
    if kind is dict:
        if ATOMIC.issuperset(map(type, value.values())) and ATOMIC.issuperset(map(type, value)):
            return value.copy()
    elif kind is list or kind is tuple:
        if ATOMIC.issuperset(map(type, value)):
            return value[:]
        if kind is tuple and _is_fixed(value):
            return value
    elif kind is Row:
        if ATOMIC.issuperset(map(type, value._values)):
            return value._replica()
    elif (fields := fields_of(value)) is not None and ATOMIC.issuperset(map(type, fields.values())):
        made = object.__new__(kind)
        made.__dict__.update(fields)
        return made
    return _copied_deeply(value)


def _copied_deeply(value: Any) -> Any:
    try:
        return pickle.loads(pickle.dumps(value, 5))
    except Exception:  # a class of the main script, or an exception from a user's __reduce__
        try:
            return copy.deepcopy(value)
        except Exception as error:
            raise SerializationError(
                f"an object of type {type(value).__qualname__} cannot be copied ({type(error).__name__}: {error})"
            ) from error


def fields_of(value: Any) -> dict[str, Any] | None:
    """The fields of an instance of a plain class, such as a dataclass; None if it may contain more than these."""
    kind = type(value)
    plain = _PLAIN_CLASSES.get(kind)
    if plain is None:
        plain = _is_plain(kind)
        if len(_PLAIN_CLASSES) < _MOST_CLASSES:
            _PLAIN_CLASSES[kind] = plain
    return value.__dict__ if plain else None


class _Plain:
    """A Python class without slots."""


def _is_plain(kind: type) -> bool:
    """Whether the ``__dict__`` of an instance is its complete content, and all that a copy needs."""
    # If an instance is not larger than one of a class without slots, no data is stored elsewhere.
    return _room_of(kind) == _room_of(_Plain) and all(
        getattr(kind, name, None) is getattr(object, name, None) for name in _OF_COPIES
    )


def _room_of(kind: type) -> tuple[Any, ...]:
    return kind.__basicsize__, kind.__itemsize__, kind.__dictoffset__, kind.__weakrefoffset__


#: Methods that determine how an object is copied.
_OF_COPIES: Final = (
    *("__copy__", "__deepcopy__", "__reduce__", "__reduce_ex__", "__getstate__", "__setstate__"),
    *("__getnewargs__", "__getnewargs_ex__", "__new__", "__del__"),
)
_MOST_CLASSES: Final = 1000
_PLAIN_CLASSES: dict[type, bool] = {}
