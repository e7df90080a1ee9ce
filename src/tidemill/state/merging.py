"""Merging the sections of several runs into one run: the last word on every entry, in the order entries first came."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.state.column_codecs import codec_for
from tidemill.state.key_groups import GroupCache
from tidemill.state.sections import StateShape, read_rows, write_rows
from tidemill.state.state_file import Section
from tidemill.state.tables import DELETE, ListTable, MapTable, Rows, Table, ValueTable
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
        columnar = merge_columns(parts, keep_deletes) if kind == "value" else None
        if columnar is not None:
            if columnar.num_rows:
                merged.append(Section(operator, state, kind, parts[-1].schema, columnar))
            continue
        rows = _merge(kind, [read_rows(part) for part in parts if part.kind == kind], keep_deletes)
        if rows is not None:
            shape = _shape_of(kind)
            group_of = GroupCache(max_parallelism[operator])
            merged.append(write_rows(operator, state, shape, rows, group_of, f"operator with uid {operator}"))
    return merged


def merge_columns(parts: list[Section], keep_deletes: bool) -> pa.Table | None:
    """The merge of plain values without turning them into Python objects; None where that cannot be done.

    It can where all parts have the same columns and keys that Arrow can group: numbers (not floats, for which NaN is
    not NaN) and strings, with no nulls and no namespaces. Entries keep the order in which their keys first came.
    """
    schema = parts[0].table.schema
    kind = schema.field("key").type
    groupable = pa.types.is_integer(kind) or pa.types.is_string(kind) or pa.types.is_large_string(kind)
    if not groupable or "namespace" in schema.names:
        return None
    if any(part.kind != "value" or not part.table.schema.equals(schema, check_metadata=True) for part in parts):
        return None
    table = pa.concat_tables([part.table for part in parts]).combine_chunks()
    keys = table.column("key")
    if keys.null_count:
        return None
    rows = pa.table({"key": keys, "row": np.arange(table.num_rows)})
    spans = rows.group_by("key").aggregate([("row", "min"), ("row", "max")])
    order = np.argsort(spans.column("row_min").to_numpy(), kind="stable")
    merged = table.take(pa.array(spans.column("row_max").to_numpy()[order]))
    if not keep_deletes:
        merged = merged.filter(pc.not_equal(merged.column("op"), DELETE))
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
