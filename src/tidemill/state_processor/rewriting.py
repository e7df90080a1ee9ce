"""Changes to sections of state files, one after the other: rows left out, values replaced."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from typing import Any, Final

import pyarrow as pa

from tidemill.common.typeinfo import Types
from tidemill.errors import SerializationError, StateError
from tidemill.state.canonical_key import canonical_key, canonical_keys
from tidemill.state.class_names import Loading
from tidemill.state.codec_ttl import Stamped, StampedTypeInfo
from tidemill.state.column_codecs import (
    ColumnCodec,
    ListCodec,
    codec_for,
    codec_from_description,
    column_description,
    decode_column,
    encode_column,
)
from tidemill.state.operator_state import is_operator_state
from tidemill.state.rows import APPEND, PUT
from tidemill.state.state_file import Section
from tidemill.state.ttl_declared import stored_ttl

__all__ = ["Rewrite", "drop_keys", "map_values"]

#: Rows that have a value; others delete.
_WITH_VALUE: Final = frozenset({PUT, APPEND})
#: What becomes of a section: another one, or None if nothing is left of it. How it may be read is said beside it.
Rewrite = Callable[[Section, Loading], Section | None]


def drop_keys(keys: Collection[Any] | Callable[[Any], bool]) -> Rewrite:
    """Leaves out the rows of some keys, in states and timers alike."""
    if callable(keys):
        unwanted = keys
    else:
        chosen = {canonical_key(key) for key in keys}

        def unwanted(key: Any) -> bool:
            return canonical_key(key) in chosen

    def rewrite(section: Section, loading: Loading) -> Section | None:
        if is_operator_state(section):
            return section
        kept = [not unwanted(key) for key in _keys(section, loading)]
        if all(kept):
            return section
        return _with_table(section, section.table.filter(pa.array(kept))) if any(kept) else None

    return rewrite


def map_values(state: str, function: Callable[[Any, Any], Any]) -> Rewrite:
    """Replaces each value of a keyed state by ``function(key, value)``; the type stays."""

    def replaced(key: Any, value: Any) -> Any:
        if isinstance(value, Stamped):
            return Stamped(function(key, value.value), value.time)
        return function(key, value)

    def rewrite(section: Section, loading: Loading) -> Section:
        if section.state != state or is_operator_state(section):
            return section
        index = section.table.schema.get_field_index("value")
        stored = section.table.schema.field(index)
        values = _values(section, "value", loading)
        rows = zip(section.table.column("op").to_pylist(), _keys(section, loading), values, strict=True)
        where = _where(section)
        try:
            if section.kind == "list":
                changed = [
                    [replaced(key, element) for element in elements] if op in _WITH_VALUE else None
                    for op, key, elements in rows
                ]
            else:
                changed = [replaced(key, value) if op in _WITH_VALUE else None for op, key, value in rows]
        except Exception as error:
            error.add_note(f"raised by the function that changes {where}")
            raise
        try:
            field, array = encode_column("value", _codec(section, stored, loading), changed)
        except SerializationError as error:
            raise StateError(
                f"{where} cannot be changed, its function must return values as they were: {error}"
            ) from error
        return _with_table(section, section.table.set_column(index, field, array))

    return rewrite


def _codec(section: Section, stored: Any, loading: Loading) -> ColumnCodec:
    """How the values of a section are stored again: as they were, or where no type is declared by what they are now."""
    if '"kind": "pickled"' not in json.dumps(section.schema.get("types", {}).get("value")):
        return codec_from_description(column_description(stored), loading=loading)
    undeclared = Types.PICKLED_BYTE_ARRAY()
    codec = codec_for(undeclared if stored_ttl(section.schema) is None else StampedTypeInfo(undeclared))
    return ListCodec(codec) if section.kind == "list" else codec


def _keys(section: Section, loading: Loading) -> list[Any]:
    return canonical_keys(_values(section, "key", loading))


def _values(section: Section, column: str, loading: Loading) -> list[Any]:
    """A column as Python values; what may not be unpickled is refused."""
    index = section.table.schema.get_field_index(column)
    try:
        return decode_column(section.table.schema.field(index), section.table.column(index), loading=loading)
    except SerializationError as error:
        if loading.allow_pickle:
            raise
        raise SerializationError(
            f"{_where(section)} cannot be changed: {error}. If you trust whoever wrote the savepoint, open it with "
            "allow_pickle=True"
        ) from error


def _where(section: Section) -> str:
    return f"state {section.state!r} of the operator with uid {section.operator!r}"


def _with_table(section: Section, table: Any) -> Section:
    return Section(section.operator, section.state, section.kind, section.schema, table)
