"""Reads and replaces one field of a record: tuple, list, Row, NamedTuple, dict, dataclass or other object.

A field is a position, a name, or a dotted path of names (``"a.b"``). As in Flink, the fields of plain tuples, lists and
rows without names are ``f0``, ``f1``, ...
"""

from __future__ import annotations

import copy
import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter, itemgetter
from typing import Any, TypeAlias

from tidemill.common.calls import with_each
from tidemill.common.types import Row

Field: TypeAlias = int | str

_POSITIONAL_NAME = re.compile(r"f(\d+)")


def column(values: Sequence[Any], field: Field) -> list[Any]:
    """Read one field of each value, in one pass per path step if all values have the same type.

    Raises ``LookupError``, which describes the first value without such a field.
    """
    if isinstance(field, str) and "." in field:
        result: Sequence[Any] = values
        for step in field.split("."):
            result = column(result, step)
        return list(result)
    kinds = set(map(type, values))
    if kinds == {Row}:
        return _column_of_rows(values, field)
    if len(kinds) == 1:
        getter = _fast_getter(kinds.pop(), field)
        if getter is not None:
            try:
                return with_each(getter, values)
            except (LookupError, AttributeError, ValueError):
                pass  # one of the values is different: find it below
    return [get_field(value, field) for value in values]


def _column_of_rows(rows: Sequence[Row], field: Field) -> list[Any]:
    """Read one field of each row. The position is looked up once for all rows that have the same names."""
    names = rows[0].get_field_names()
    position = _position(rows[0], field) or 0
    try:
        return [row._values[position] if row._fields is names else get_field(row, field) for row in rows]
    except IndexError:  # one of the rows is shorter
        return [get_field(row, field) for row in rows]


def get_field(value: Any, field: Field) -> Any:
    """Read one field of a value. Raises ``LookupError`` with the value's type and fields if there is no such field."""
    if isinstance(field, str) and "." in field:
        for step in field.split("."):
            value = get_field(value, step)
        return value
    position = _position(value, field)
    if position is not None:
        if isinstance(value, (tuple, list, Row)) and position < len(value):
            return value[position]
    elif isinstance(value, Mapping):
        if field in value:
            return value[field]
    elif isinstance(field, str):
        try:
            return getattr(value, field)
        except AttributeError:
            pass
    raise LookupError(describe_missing(value, field))


def with_field(value: Any, field: Field, new: Any) -> Any:
    """Return a copy of ``value`` in which one field is ``new``. The original is not changed."""
    if isinstance(field, str) and "." in field:
        first, rest = field.split(".", 1)
        return with_field(value, first, with_field(get_field(value, first), rest, new))
    position = _position(value, field)
    if position is not None:
        return _with_position(value, position, new)
    if isinstance(value, dict):
        return {**value, field: new}
    name = str(field)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.replace(value, **{name: new})
    changed = copy.copy(value)
    setattr(changed, name, new)
    return changed


def describe_missing(value: Any, field: Field) -> str:
    """A message that ``value`` has no such field, with the fields it has."""
    what = f"position {field}" if isinstance(field, int) else f"field {field!r}"
    return f"a record of type {type(value).__name__} has no {what}{_fields_of(value)}: {_shorten(value)}"


def _position(value: Any, field: Field) -> int | None:
    """The position of ``field`` in a sequence-like value, or None if it must be looked up by name."""
    if isinstance(field, int):
        return field
    names = _names(value)
    if names is not None:
        if field in names:
            return names.index(field)
    elif not isinstance(value, (tuple, list, Row)):
        return None
    match = _POSITIONAL_NAME.fullmatch(field)
    if match is None:
        raise LookupError(describe_missing(value, field))
    return int(match.group(1))


def _names(value: Any) -> Sequence[str] | None:
    """Field names of a row or NamedTuple, or None if it has none."""
    if isinstance(value, Row):
        return value.get_field_names()
    if isinstance(value, tuple):
        names: Sequence[str] | None = getattr(type(value), "_fields", None)
        return names
    return None


def _with_position(value: Any, position: int, new: Any) -> Any:
    if not isinstance(value, (tuple, list, Row)) or position >= len(value):
        raise LookupError(describe_missing(value, position))
    if isinstance(value, tuple):
        items = (*value[:position], new, *value[position + 1 :])
        return items if type(value) is tuple else type(value)._make(items)  # type: ignore[attr-defined]
    changed = copy.copy(value)
    changed[position] = new
    return changed


def _fast_getter(kind: type, field: Field) -> Callable[[Any], Any] | None:
    """A C-level getter for values of exactly this type, or None."""
    if isinstance(field, int):
        return itemgetter(field) if issubclass(kind, (tuple, list)) else None
    if issubclass(kind, dict):
        return itemgetter(field)
    if issubclass(kind, (tuple, list)):
        if hasattr(kind, "_fields"):
            return attrgetter(field)
        match = _POSITIONAL_NAME.fullmatch(field)
        return None if match is None else itemgetter(int(match.group(1)))
    return attrgetter(field)


def _fields_of(value: Any) -> str:
    """`` (it has a, b)`` for a value with fields, else an empty string."""
    names: Sequence[Any] = ()
    if isinstance(value, (Row, tuple)):
        names = _names(value) or [f"f{i}" for i in range(len(value))]
    elif isinstance(value, list):
        return f" (it has {len(value)} elements)"
    elif isinstance(value, Mapping):
        names = list(value)
    elif hasattr(value, "__dict__"):
        names = [name for name in vars(value) if not name.startswith("_")]
    return f" (it has {', '.join(map(str, names))})" if names else ""


def _shorten(value: Any, limit: int = 120) -> str:
    text = repr(value)
    return text if len(text) <= limit else text[: limit - 3] + "..."
