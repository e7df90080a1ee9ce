"""Between tables and files: rows of Python values as the columns of a section, and back."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from tidemill.common.typeinfo import TypeInformation
from tidemill.datastream.state_descriptors import ListStateDescriptor, MapStateDescriptor, StateDescriptor
from tidemill.errors import SerializationError
from tidemill.state.canonical_key import canonical_keys
from tidemill.state.column_codecs import ColumnCodec, ListCodec, codec_for, decode_column, encode_column
from tidemill.state.key_groups import GroupCache
from tidemill.state.state_file import Section
from tidemill.state.tables import Rows

_KINDS = {"value": "value", "reducing": "value", "aggregating": "value", "list": "list", "map": "map"}


@dataclass(frozen=True)
class StateShape:
    """How the entries of one state are laid out in columns."""

    kind: str
    key: ColumnCodec
    value: ColumnCodec
    user_key: ColumnCodec | None = None

    @classmethod
    def of(cls, descriptor: StateDescriptor, key_type: TypeInformation | None) -> StateShape:
        """The shape a descriptor asks for."""
        key = codec_for(key_type)
        if isinstance(descriptor, MapStateDescriptor):
            return cls("map", key, codec_for(descriptor.value_type_info), codec_for(descriptor.key_type_info))
        if isinstance(descriptor, ListStateDescriptor):
            return cls("list", key, ListCodec(codec_for(descriptor.elem_type_info)))
        return cls(_KINDS[descriptor.kind], key, codec_for(descriptor.type_info))

    def with_key(self, key_type: TypeInformation | None) -> StateShape:
        """The same shape for keys of another type."""
        return replace(self, key=codec_for(key_type))


#: Shape of timers: the value is their time.
TIMER_SHAPE = StateShape("timer", codec_for(None), codec_for(None))


def write_rows(operator: str, state: str, shape: StateShape, rows: Rows, group_of: GroupCache, where: str) -> Section:
    """Rows as a section. Raises :class:`SerializationError` that names the operator and the state."""
    try:
        columns = [_group_column(rows, group_of), encode_column("key", shape.key, rows.keys)]
        if any(name is not None for name in rows.namespaces):
            columns.append(encode_column("namespace", codec_for(None), rows.namespaces))
        columns.append(_op_column(rows))
        if shape.kind == "map":
            columns.append(encode_column("user_key", shape.user_key or codec_for(None), rows.user_keys))
        columns.append(encode_column("value", shape.value, rows.values))
    except SerializationError as error:
        raise SerializationError(f"state {state!r} of {where} cannot be stored: {error}") from error
    schema = pa.schema([field for field, _ in columns])
    table = pa.Table.from_arrays([array for _, array in columns], schema=schema)
    return Section(operator, state, shape.kind, {}, table)


def read_rows(section: Section, shape: StateShape | None = None) -> Rows:
    """The rows of a section; a shape lends the classes of its declared types, where the file names some."""
    table = section.table
    declared = {} if shape is None else {"key": shape.key, "value": shape.value, "user_key": shape.user_key}
    columns: dict[str, Any] = {}
    for name in ("key", "namespace", "user_key", "value"):
        index = table.schema.get_field_index(name)
        if index >= 0:
            columns[name] = decode_column(table.schema.field(index), table.column(index), declared=declared.get(name))
    ops = table.column("op").to_numpy()
    return Rows(
        keys=canonical_keys(columns["key"]),
        namespaces=columns.get("namespace", []),
        ops=ops.tolist() if ops.any() else [],
        user_keys=columns.get("user_key", []),
        values=columns["value"],
    )


def _group_column(rows: Rows, group_of: GroupCache) -> tuple[Any, Any]:
    groups = np.array(group_of.groups(rows.keys), dtype=np.uint16)
    return pa.field("key_group", pa.uint16(), nullable=False), pa.array(groups)


def _op_column(rows: Rows) -> tuple[Any, Any]:
    ops = np.zeros(len(rows.keys), dtype=np.uint8)
    if rows.ops:
        ops[:] = rows.ops
    return pa.field("op", pa.uint8(), nullable=False), pa.array(ops)
