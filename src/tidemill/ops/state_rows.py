"""Entries of a state as rows of plain values that can be represented in JSON, whatever the type of the state."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, Final

import pyarrow as pa

from tidemill.state.codecs.plain_values import json_text
from tidemill.state.keys.key_groups import key_group_of
from tidemill.state_processor import SavepointReader

__all__ = ["Row", "cell_text", "difference", "difference_in", "groups_of", "rows_of", "rows_of_key"]

#: A row of a state table: key, namespace if the state has one, map_key for map state, value.
Row = dict[str, Any]

#: The columns that identify an entry; the remaining columns are its value.
_NAMING: Final = ("key", "namespace", "map_key")
#: Approximate number of bytes of the state files to compare at a time.
_SLICE_BYTES: Final = 32 << 20


def plain(value: Any, kind: Any) -> Any:
    """Convert a value of an Arrow type to JSON values. Tuples become lists, dicts with non-string keys lists of pairs.

    >>> plain({"f0": "a", "f1": 2}, pa.struct([("f0", pa.string()), ("f1", pa.int64())]))
    ['a', 2]
    """
    if value is None or isinstance(value, bool | int | str):
        return _parsed(value) if kind == pa.string() else value
    if pa.types.is_struct(kind):
        fields = {field.name: plain(value[field.name], field.type) for field in kind}
        return list(fields.values()) if list(fields) == [f"f{i}" for i in range(len(fields))] else fields
    if pa.types.is_map(kind):
        pairs = [(plain(key, kind.key_type), plain(item, kind.item_type)) for key, item in value]
        return dict(pairs) if all(isinstance(key, str) for key, _ in pairs) else [list(pair) for pair in pairs]
    if isinstance(value, list):
        return [plain(item, kind.value_type) for item in value]
    return _parsed(json_text(value))


def cell_text(value: Any) -> str:
    """Format a plain value for a table cell: strings unchanged, everything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def rows_of(batches: Iterable[Any]) -> Iterator[Row]:
    """Yield the rows of Arrow batches or tables."""
    for batch in batches:
        kinds = {field.name: field.type for field in batch.schema}
        for row in batch.to_pylist():
            yield {name: plain(value, kinds[name]) for name, value in row.items()}


def rows_of_key(reader: SavepointReader, uid: str, state: str, text: str) -> list[Row]:
    """Return the entries of one key, which is given as a user types it: a string unchanged, anything else as JSON.

    For a string or number, only its key group is read. For other keys, or if that key group has no such key, the whole
    state is read.
    """
    kind = reader.schema(uid, state).field("key").type
    is_text = pa.types.is_large_string(kind)
    wanted = text if is_text else _parsed(text)

    def rows_in(groups: tuple[int, int] | None) -> list[Row]:
        return [row for row in rows_of(reader.iter_batches(uid, state, key_groups=groups)) if row["key"] == wanted]

    if isinstance(wanted, str | int):
        group = key_group_of(wanted, groups_of(reader, uid))
        if found := rows_in((group, group)):
            return found
    # A key that is displayed as a string may have another type, and so another key group: an enum member, a decimal,
    # a UUID.
    return rows_in(None)


def groups_of(reader: SavepointReader, uid: str) -> int:
    """Return the number of key groups of an operator."""
    return next((operator.max_parallelism for operator in reader.operators() if operator.uid == uid), 1)


def difference(before: SavepointReader, after: SavepointReader, uid: str, state: str) -> Iterator[dict[str, Any]]:
    """Yield the changes: ``{"change": "added" | "removed" | "changed", key..., "before": ..., "after": ...}``.

    If both readers have the same number of key groups, only some key groups are kept in memory at a time.
    """
    groups = groups_of(before, uid)
    size = sum(info.bytes for one in after.operators() if one.uid == uid for info in one.states if info.name == state)
    parts = max(1, min(groups, -(-size // _SLICE_BYTES)))
    if groups_of(after, uid) != groups:
        yield from difference_in(before, after, uid, state, None)
        return
    for part in range(parts):
        cut = (groups * part // parts, groups * (part + 1) // parts - 1)
        yield from difference_in(before, after, uid, state, cut)


def difference_in(
    before: SavepointReader, after: SavepointReader, uid: str, state: str, groups: tuple[int, int] | None
) -> Iterator[dict[str, Any]]:
    """Like :func:`difference`, for a range of key groups (both ends inclusive) or all of them, kept in memory."""
    yield from _differing(_by_name(before, uid, state, groups), _by_name(after, uid, state, groups))


def _by_name(reader: SavepointReader, uid: str, state: str, groups: tuple[int, int] | None) -> dict[str, Row]:
    rows = rows_of(reader.iter_batches(uid, state, key_groups=groups))
    return {json.dumps([row.get(name) for name in _NAMING], sort_keys=True): row for row in rows}


def _differing(old: dict[str, Row], new: dict[str, Row]) -> Iterator[dict[str, Any]]:
    for name in dict.fromkeys([*old, *new]):
        before, after = old.get(name), new.get(name)
        # Compared as text, because NaN does not equal itself.
        if before is not None and after is not None and cell_text(before["value"]) == cell_text(after["value"]):
            continue
        change = "added" if before is None else "removed" if after is None else "changed"
        row = after or before or {}
        yield {
            "change": change,
            **{part: row[part] for part in _NAMING if part in row},
            "before": None if before is None else before["value"],
            "after": None if after is None else after["value"],
        }


def _parsed(text: Any) -> Any:
    """Parse JSON text; text that is not valid JSON is returned unchanged."""
    if not isinstance(text, str):
        return text
    try:
        return json.loads(text)
    except ValueError:
        return text
