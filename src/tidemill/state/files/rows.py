"""Entries of one state in transit between a table and a section of a file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

# The operation of a row of a section, as stored in its ``op`` column.
PUT: Final = 0
DELETE: Final = 1
APPEND: Final = 2
CLEAR: Final = 3


@dataclass
class Rows:
    """Entries in transit to or from a section: parallel lists, one element per row.

    An empty list of namespaces, ops or user keys means no namespaces, only puts, no user keys.
    """

    keys: list[Any] = field(default_factory=list)
    namespaces: list[Any] = field(default_factory=list)
    ops: list[int] = field(default_factory=list)
    user_keys: list[Any] = field(default_factory=list)
    values: list[Any] = field(default_factory=list)


def by_namespace(rows: Rows) -> Iterator[tuple[Any, Rows]]:
    """Split rows by namespace, keeping their order; the usual case of one namespace costs one comparison per row."""
    names = rows.namespaces
    if not any(name is not None for name in names):
        yield None, rows
        return
    parts: dict[Any, Rows] = {}
    ops = rows.ops or [PUT] * len(rows.keys)
    user_keys = rows.user_keys or [None] * len(rows.keys)
    for key, name, op, user_key, value in zip(rows.keys, names, ops, user_keys, rows.values, strict=True):
        part = parts.get(name)
        if part is None:
            part = parts[name] = Rows()
        part.keys.append(key)
        part.ops.append(op)
        part.user_keys.append(user_key)
        part.values.append(value)
    yield from parts.items()
