"""Merges the runs of a state into its final entries, as a restore would load them, without the program's classes.

Values are never converted to Python objects on the way to an Arrow table: keys, namespaces and map keys determine which
row is the latest for an entry, and the rows are then taken from the columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from tidemill.errors import SerializationError
from tidemill.state.codecs.class_names import Loading
from tidemill.state.codecs.column_codecs import codec_from_description, column_description
from tidemill.state.codecs.plain_values import as_data, plain_loading
from tidemill.state.files.rows import APPEND, CLEAR, DELETE
from tidemill.state.files.section_kinds import SectionKind, section_kind
from tidemill.state.files.state_file import Section
from tidemill.state.keys.canonical_key import canonical_keys
from tidemill.state.merging import merge_columns
from tidemill.state_processor.natural_arrays import TEXT, common_type, natural_array, natural_type, without_times

__all__ = ["Entry", "StateSchema", "merged_entries", "merged_table"]

#: Field metadata of a column that contains JSON text.
_SHOWN: Final = {b"tidemill.shown": b"json"}


@dataclass(frozen=True)
class Entry:
    """One entry of a state. The value is a list for list state; a map state has an entry for each of its keys."""

    key: Any
    namespace: Any
    map_key: Any
    value: Any


@dataclass(frozen=True)
class StateSchema:
    """The kind of a state, and the schema of the tables it is read as."""

    kind: str
    arrow: Any

    @classmethod
    def of(cls, where: str, sections: Sequence[tuple[str, Mapping[str, Any], Any]]) -> StateSchema:
        """The schema that fits all sections of a state, given as (kind, schema, Arrow schema), oldest first.

        ``where`` is used in errors. Raises :class:`SerializationError` for columns that no version of Tidemill wrote.
        """
        alike = [section for section in sections if section[0] == sections[-1][0]]
        types: dict[str, list[Any]] = {}
        with _decoding(where):
            names = section_kind(alike[-1][0]).columns
            typed = _is_typed(alike[-1][1])
            for _, _, schema in alike:
                for column in names.keys() & set(schema.names):
                    spec, empty, times = _column(schema.field(column), pa.array([], schema.field(column).type))
                    types.setdefault(names[column], []).append(natural_type(spec, empty.type))
                    if times is not None:
                        types.setdefault("last_access", []).append(times.type)
        order = [name for name in (*names.values(), "last_access") if name in types]
        return cls(alike[-1][0], pa.schema([_field(name, common_type(types[name], widen=typed)) for name in order]))


def merged_table(sections: Sequence[Section], schema: StateSchema, *, allow_pickle: bool) -> Any:
    """The entries that result from all sections, oldest section first, as a table without deleted entries."""
    parts = [section for section in sections if section.kind == schema.kind]
    if not parts:
        return schema.arrow.empty_table()
    loading = plain_loading(allow_pickle=allow_pickle)
    with _decoding(_where(parts[0])):
        kind = section_kind(schema.kind)
        simple = merge_columns(parts, keep_deletes=False) if kind.is_single else None
        if simple is not None:
            parts = [Section(parts[-1].operator, parts[-1].state, kind.name, {}, simple)]
            chosen: list[list[int]] | None = None
        else:
            chosen = _last_words(parts, kind, loading)
        first = None if chosen is None else pa.array([rows[0] for rows in chosen], pa.int64())
        stored_as = {name: column for column, name in kind.columns.items()}
        columns = []
        for field in schema.arrow:
            source = stored_as.get(field.name, "value")
            array = pa.concat_arrays([_output(part, source, field, loading) for part in parts])
            if kind.in_lists and source == "value":
                columns.append(_joined(array, chosen or []))
            else:
                columns.append(array if first is None else array.take(first))
        return pa.Table.from_arrays(columns, schema=schema.arrow)


def merged_entries(
    sections: Sequence[Section], kind: str, *, allow_pickle: bool, key: tuple[Any, Any] | None = None
) -> Iterator[Entry]:
    """Like :func:`merged_table`, but as Python values; ``key`` = (key, namespace) in plain form selects one key.

    With ``allow_pickle`` values are returned as the program stored them, which requires its classes; otherwise as plain
    data. Raises :class:`SerializationError` for a pickled value that may not be unpickled.
    """
    parts = [section for section in sections if section.kind == kind]
    if not parts:
        return
    plain = plain_loading(allow_pickle=False)
    with _decoding(_where(parts[0])):
        stored_as = section_kind(kind)
        chosen = _last_words(parts, stored_as, plain, key)
        loading = Loading() if allow_pickle else plain
        columns = {name: [v for part in parts for v in _values(part, name, loading)] for name in stored_as.columns}
    for rows in chosen:
        of_row = {name: as_data(values[rows[0]]) for name, values in columns.items()}
        if stored_as.in_lists:
            of_row["value"] = [as_data(value) for row in rows for value in columns["value"][row] or ()]
        yield Entry(of_row["key"], of_row["namespace"], of_row["user_key"], of_row["value"])


def _last_words(
    parts: Sequence[Section], kind: SectionKind, loading: Loading, key: tuple[Any, Any] | None = None
) -> list[list[int]]:
    """The rows, counted over all parts, that make up each entry: one row, or for lists all rows that were appended."""
    entries: dict[Any, dict[Any, list[int]]] = {}
    start = 0
    for part in parts:
        keys = canonical_keys(_values(part, "key", loading))
        namespaces = _values(part, "namespace", loading)
        inner = [None] * len(keys) if kind.entry_column is None else _values(part, kind.entry_column, loading)
        ops = part.table.column("op").to_pylist()
        for row, (owner, op) in enumerate(zip(zip(keys, namespaces, strict=True), ops, strict=True), start):
            if key is not None and owner != key:
                continue
            entry = entries.get(owner)
            if entry is None:
                entry = entries[owner] = {}
            name = inner[row - start]
            if op == CLEAR:
                entry.clear()
            elif op == DELETE:
                entry.pop(name, None)
            elif op == APPEND and name in entry:
                entry[name].append(row)
            else:
                entry[name] = [row]
            if not entry:
                del entries[owner]
        start += len(keys)
    return [rows for entry in entries.values() for rows in entry.values()]


def _values(part: Section, name: str, loading: Loading) -> list[Any]:
    """A column as Python values; all None if the column does not exist."""
    at = part.table.schema.get_field_index(name)
    if at < 0:
        return [None] * part.table.num_rows
    codec = codec_from_description(column_description(part.table.schema.field(at)), loading=loading)
    return [value for chunk in part.table.column(at).chunks if len(chunk) for value in codec.decode(chunk)]


def _output(part: Section, source: str, field: Any, loading: Loading) -> Any:
    """The data of a part for a field of the output, converted to its type, from the column ``source``."""
    at = part.table.schema.get_field_index(source)
    if at < 0:
        return pa.nulls(part.table.num_rows, field.type)
    column = part.table.column(at)
    array = column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)
    spec, values, times = _column(part.table.schema.field(at), array)
    if field.name != "last_access":
        return natural_array(spec, values, field.type, loading)
    return pa.nulls(part.table.num_rows, field.type) if times is None else times


def _column(field: Any, array: Any) -> tuple[Mapping[str, Any], Any, Any]:
    return without_times(column_description(field), array)


def _joined(array: Any, chosen: list[list[int]]) -> Any:
    """Concatenates the lists of several rows into one list per entry."""
    if not chosen:
        return array.slice(0, 0)
    offsets = array.offsets.to_numpy()
    rows = np.array([row for entry in chosen for row in entry], np.int64)
    lengths = np.diff(offsets)[rows]
    ends = np.cumsum(lengths)
    # The elements of a row start at its offset; in the result they start where the elements before them end.
    elements = np.repeat(offsets[rows] - (ends - lengths), lengths) + np.arange(ends[-1])
    last = np.cumsum([len(entry) for entry in chosen]) - 1
    bounds = np.concatenate(([0], ends[last])).astype(np.int64)
    return pa.LargeListArray.from_arrays(bounds, array.values.take(pa.array(elements)))


def _is_typed(schema: Mapping[str, Any]) -> bool:
    value = schema.get("types", {}).get("value")
    return value is not None and value["kind"] != "pickled"


def _field(name: str, kind: Any) -> Any:
    return pa.field(name, kind, metadata=_SHOWN if kind == TEXT else None)


def _where(section: Section) -> str:
    return f"state {section.state!r} of the operator with uid {section.operator!r}"


@contextmanager
def _decoding(where: str) -> Iterator[None]:
    """Turns exceptions caused by a forged or damaged column into an error that names the state."""
    try:
        yield
    except SerializationError as error:
        raise SerializationError(f"{where}: {error}") from error
    except (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
        raise SerializationError(f"{where} does not match its description: {error!r}") from error
