"""Merges the sections of several runs into one: the latest row of every entry, in order of first appearance."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.errors import SerializationError, StateError, StateMigrationError
from tidemill.state.codecs.column_codecs import (
    AnyCodec,
    ColumnCodec,
    codec_for,
    codec_from_description,
    column_description,
)
from tidemill.state.codecs.ttl import TtlCodec
from tidemill.state.files.replacing import REPLACES, with_replaced, without_replaced
from tidemill.state.files.rows import DELETE, Rows
from tidemill.state.files.section_kinds import SectionKind, section_kind
from tidemill.state.files.sections import StateShape, read_rows, write_rows
from tidemill.state.files.state_file import Section
from tidemill.state.files.ttl_declared import stored_ttl
from tidemill.state.files.ttl_merge import CommittedTimes, drop_expired_columns, drop_expired_rows, horizon_of
from tidemill.state.files.ttl_rows import clock_of, fit_times, with_counting_times
from tidemill.state.keyed.kinds import tables_of
from tidemill.state.keys.key_groups import FIRST_GROUP, LAST_GROUP, GroupCache, KeyGroup
from tidemill.state.operator.operator_state import is_operator_state

log = logging.getLogger(__name__)

#: More than any operator has.
_ALL_GROUPS: Final = (FIRST_GROUP, LAST_GROUP)


def merge_sections(
    sections: Iterable[Section],
    max_parallelism: Mapping[str, int],
    keep_deletes: bool,
    times: CommittedTimes | None = None,
    groups: Mapping[str, tuple[KeyGroup, KeyGroup]] | None = None,
) -> list[Section]:
    """Merge sections into one section per state, with the same effect as all given ones in order (oldest first).

    With ``keep_deletes`` False there is no older state below: tombstones are dropped, and appends to nothing become
    plain entries. With ``times``, expired entries are left out. ``groups`` are the key groups covered by the merge, by
    operator, if it does not cover all.

    Several sections of a state whose values only the program could read are kept unmerged: their classes no longer
    exist, or their types cannot be converted to each other.
    """
    grouped: dict[tuple[str, str], list[Section]] = {}
    for section in sections:
        grouped.setdefault((section.operator, section.state), []).append(section)
    merged = []
    for (operator, state), parts in grouped.items():
        below = (groups or {}).get(operator, _ALL_GROUPS) if keep_deletes else None
        schema = with_replaced(parts[-1].schema, [part.schema for part in parts], below)
        left = without_replaced(parts)
        try:
            left = with_counting_times(left, clock_of(stored_ttl(parts[-1].schema)))
            found = _merged(operator, state, left, max_parallelism, keep_deletes, times)
        except (SerializationError, StateError) as error:
            log.info("state %r of the operator with uid %s is not merged: %s", state, operator, error)
            about = (groups or {}).get(operator, _ALL_GROUPS)
            merged += [replace(part, schema=with_replaced(part.schema, [part.schema], about)) for part in left]
            continue
        if found is not None:
            merged.append(replace(found, schema=schema))
    return merged


def _merged(
    operator: str,
    state: str,
    parts: list[Section],
    max_parallelism: Mapping[str, int],
    keep_deletes: bool,
    times: CommittedTimes | None,
) -> Section | None:
    """The parts of one state as one section; None if nothing is left. Raises if values cannot be read."""
    if not parts:
        return None
    if any(REPLACES in part.schema for part in parts) and any(_types(part) != _types(parts[-1]) for part in parts):
        # Some subtasks have migrated their part of the state and others have not: only the program can migrate the
        # rest.
        raise StateMigrationError("a migration by the program is not complete yet")
    kind = section_kind(parts[-1].kind)
    ttl = stored_ttl(parts[-1].schema)
    horizon = horizon_of(ttl, operator, times)
    columnar = merge_columns(parts, keep_deletes) if kind.is_single else None
    if columnar is not None:
        if horizon is not None:
            columnar = drop_expired_columns(columnar, horizon, keep_deletes=keep_deletes)
        return Section(operator, state, kind.name, parts[-1].schema, columnar) if columnar.num_rows else None
    alike = [part for part in parts if part.kind == kind.name]
    types = parts[-1].schema.get("types")
    group_of = GroupCache(1 if is_operator_state(parts[-1]) else max_parallelism[operator])
    rows = merge_rows(kind, [_rows_of(part, types, ttl, group_of) for part in alike], keep_deletes)
    if rows is not None and horizon is not None:
        rows = drop_expired_rows(kind, rows, horizon, keep_deletes=keep_deletes)
    if rows is None:
        return None
    return write_rows(operator, state, _shape_of(kind, alike), rows, group_of, f"operator with uid {operator}")


def _types(part: Section) -> Any:
    return part.schema.get("types")


def merge_columns(parts: list[Section], keep_deletes: bool) -> pa.Table | None:
    """Merge plain values without converting them to Python objects; None if that is not possible.

    It is possible if all parts have the same columns and keys that Arrow can group: integers and strings (not floats,
    because NaN does not equal NaN), with no nulls and no namespaces. Entries keep the order in which their keys first
    appeared.
    """
    schema = parts[0].table.schema
    kind = schema.field("key").type
    groupable = pa.types.is_integer(kind) or pa.types.is_string(kind) or pa.types.is_large_string(kind)
    if not groupable or "namespace" in schema.names:
        return None
    if any(part.kind != parts[0].kind or not part.table.schema.equals(schema, check_metadata=True) for part in parts):
        return None
    if len({(stored_ttl(part.schema) or {}).get("time") for part in parts}) > 1:
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


def _rows_of(part: Section, types: dict[str, Any] | None, ttl: Mapping[str, Any] | None, group_of: GroupCache) -> Rows:
    """The rows of a part in the form of the newest one: its types, and with times of last access if it has them."""
    rows = read_rows(part, as_types=types, group_of=group_of)
    in_lists = section_kind(part.kind).in_lists
    rows.values = fit_times(rows.values, rows.ops, stored_ttl(part.schema), ttl, in_lists=in_lists)
    return rows


def merge_rows(kind: SectionKind, parts: list[Rows], keep_deletes: bool) -> Rows | None:
    """The rows of one state, oldest first, merged: see :func:`merge_sections`. None if nothing is left."""
    return tables_of(kind.name).memory.merged(parts, keep_deletes=keep_deletes)


def _shape_of(kind: SectionKind, parts: list[Section]) -> StateShape:
    """The shape of merged sections: columns that all parts encode in the same way keep their encoding."""
    user_key = _codec_of("user_key", parts) if kind.has_user_keys else None
    value = _codec_of("value", parts)
    if stored_ttl(parts[-1].schema) is not None and isinstance(value, AnyCodec):
        value = kind.value_codec(TtlCodec(value))
    return StateShape(kind.name, _codec_of("key", parts), value, user_key, schema=parts[-1].schema)


def _codec_of(column: str, parts: list[Section]) -> ColumnCodec:
    descriptions = [column_description(part.table.schema.field(column)) for part in parts]
    same = all(description == descriptions[0] for description in descriptions)
    return codec_from_description(descriptions[0]) if same else codec_for(None)
