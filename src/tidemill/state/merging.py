"""Merging the sections of several runs into one run: the last word on every entry, in the order entries first came."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tidemill.state.column_codecs import codec_for
from tidemill.state.key_groups import GroupCache
from tidemill.state.sections import StateShape, read_rows, write_rows
from tidemill.state.state_file import Section
from tidemill.state.tables import ListTable, MapTable, Rows, Table, ValueTable
from tidemill.state.timers import merge_timer_rows

_TABLES: dict[str, type[Table]] = {"value": ValueTable, "list": ListTable, "map": MapTable}


def merge_sections(
    sections: Iterable[Section], max_parallelism: Mapping[str, int], keep_deletes: bool
) -> list[Section]:
    """One section per state, equal in effect to all given ones in their order (oldest first).

    With ``keep_deletes`` False nothing older lies below: tombstones, and appends to nothing, become plain entries.
    """
    grouped: dict[tuple[str, str], list[Section]] = {}
    for section in sections:
        grouped.setdefault((section.operator, section.state), []).append(section)
    merged = []
    for (operator, state), parts in grouped.items():
        kind = parts[-1].kind
        rows = _merge(kind, [read_rows(part) for part in parts if part.kind == kind], keep_deletes)
        if rows is not None:
            shape = _shape_of(kind)
            group_of = GroupCache(max_parallelism[operator])
            merged.append(write_rows(operator, state, shape, rows, group_of, f"operator with uid {operator}"))
    return merged


def _merge(kind: str, parts: list[Rows], keep_deletes: bool) -> Rows | None:
    if kind == "timer":
        return merge_timer_rows(parts, keep_deletes)
    table: Any = _TABLES[kind]()
    for rows in parts:
        table.replay(rows)
    if keep_deletes:
        rows_left: Rows | None = table.export_delta()
        return rows_left
    table.fold()
    all_rows: Rows | None = table.export_all()
    return all_rows


def _shape_of(kind: str) -> StateShape:
    # Values keep what types they have: unknown types are encoded by what the column holds.
    unknown = codec_for(None)
    return StateShape(kind, unknown, unknown, unknown if kind == "map" else None)
