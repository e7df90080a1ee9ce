"""Column codecs: convert lists of Python values to Arrow arrays and back; selected by the declared type.

Files are written and read with :func:`encode_column` and :func:`decode_column`. The encoding of every column is stored
in the metadata of its Arrow field, under ``tidemill.codec``, so a file can be read without any other information.

>>> from tidemill.common.typeinfo import Types
>>> field, array = encode_column("key", codec_for(Types.TUPLE([Types.STRING(), Types.LONG()])), [("a", 1), None])
>>> str(field.type)
'struct<f0: large_string, f1: int64>'
>>> decode_column(field, array)
[('a', 1), None]
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import pyarrow as pa

from tidemill.common.typeinfo import (
    BasicArrayTypeInfo,
    BasicType,
    BasicTypeInfo,
    DataclassTypeInfo,
    DateTypeInfo,
    EnumTypeInfo,
    ListTypeInfo,
    MapTypeInfo,
    NamedTupleTypeInfo,
    ObjectArrayTypeInfo,
    OptionalTypeInfo,
    PrimitiveArrayTypeInfo,
    RowTypeInfo,
    TimestampTypeInfo,
    TimeTypeInfo,
    TupleTypeInfo,
    TypeInformation,
)
from tidemill.errors import SerializationError
from tidemill.state.codecs.any import AnyCodec
from tidemill.state.codecs.base import ColumnCodec, Loading, codec_from_description
from tidemill.state.codecs.basic import (
    BigDecimalCodec,
    BigIntCodec,
    BooleanCodec,
    BytesCodec,
    DoubleCodec,
    LongCodec,
    StringCodec,
)
from tidemill.state.codecs.class_names import is_plain_dataclass, register_class
from tidemill.state.codecs.collections import EnumCodec, ListCodec, MapCodec
from tidemill.state.codecs.fields import DataclassCodec, InstantCodec, NamedTupleCodec, TupleCodec
from tidemill.state.codecs.row import RowCodec
from tidemill.state.codecs.time import DateCodec, TimeCodec, TimestampCodec
from tidemill.state.codecs.ttl import StampedTypeInfo, TtlCodec

__all__ = [
    "METADATA_KEY",
    "AnyCodec",
    "ColumnCodec",
    "ListCodec",
    "codec_for",
    "codec_from_description",
    "column_description",
    "decode_column",
    "encode_column",
    "register_class",
]

METADATA_KEY = b"tidemill.codec"

_BASIC: dict[BasicType, ColumnCodec] = {
    BasicType.STRING: StringCodec(),
    BasicType.CHAR: StringCodec(),
    BasicType.BYTE: LongCodec(),
    BasicType.SHORT: LongCodec(),
    BasicType.INT: LongCodec(),
    BasicType.LONG: LongCodec(),
    BasicType.BOOLEAN: BooleanCodec(),
    BasicType.FLOAT: DoubleCodec(),
    BasicType.DOUBLE: DoubleCodec(),
    BasicType.BIG_INT: BigIntCodec(),
    BasicType.BIG_DEC: BigDecimalCodec(),
    BasicType.INSTANT: InstantCodec(),
}


def codec_for(type_info: TypeInformation | None) -> ColumnCodec:
    """The codec for values of this type; :class:`AnyCodec` for None, pickled types, and types without fields."""
    make = _MAKERS.get(type(type_info))
    return AnyCodec() if make is None else make(type_info)


def encode_column(name: str, codec: ColumnCodec, values: list[Any]) -> tuple[Any, Any]:
    """The Arrow field and array of a column, in the best encoding for these values (``ColumnCodec.encode_best``).

    The field's metadata describes the encoding. Raises :class:`SerializationError` that names the column.
    """
    try:
        used, array = codec.encode_best(values)
    except SerializationError as error:
        raise SerializationError(f"column '{name}': {error}") from error
    return pa.field(name, array.type, metadata={METADATA_KEY: _json(used.describe())}), array


def decode_column(
    field: Any,
    column: Any,
    *,
    declared: ColumnCodec | None = None,
    allow_pickle: bool = True,
    loading: Loading | None = None,
) -> list[Any]:
    """The values of a column (an array or a chunked one), decoded according to the metadata of its field.

    ``declared`` provides its classes, for those that cannot be found in a module. With ``allow_pickle=False`` no code
    from the file runs: pickled values are rejected, and no module is imported. ``loading`` combines these options.
    Raises :class:`SerializationError`.
    """
    codec = codec_from_description(
        column_description(field),
        allow_pickle=allow_pickle,
        classes=declared.classes() if declared else None,
        loading=loading,
    )
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    values: list[Any] = []
    try:
        for chunk in chunks:
            if len(chunk):
                values += codec.decode(chunk)
    except SerializationError as error:
        raise SerializationError(f"column '{field.name}': {error}") from error
    except (pa.ArrowException, ValueError, TypeError, LookupError, AttributeError) as error:
        raise SerializationError(f"column '{field.name}' does not match its description: {error!r}") from error
    return values


def column_description(field: Any) -> dict[str, Any]:
    """The description of the codec that wrote the column of this field."""
    data = (field.metadata or {}).get(METADATA_KEY)
    if data is None:
        raise SerializationError(f"column '{field.name}' has no description of its encoding (tidemill.codec)")
    return dict(_parsed(data))


def _json(description: dict[str, Any]) -> bytes:
    return json.dumps(description, separators=(",", ":")).encode()


@lru_cache(maxsize=1024)
def _parsed(data: bytes) -> dict[str, Any]:
    try:
        description = json.loads(data)
    except ValueError as error:
        raise SerializationError(f"a column has a damaged description of its codec: {error}") from error
    if not isinstance(description, dict):
        raise SerializationError("a column has a damaged description of its codec: not an object")
    return description


def _children(type_info: Any) -> list[ColumnCodec]:
    return [codec_for(field_type) for field_type in type_info.get_field_types()]


def _primitive_array(type_info: Any) -> ColumnCodec:
    is_bytes = type_info.elem_type == BasicTypeInfo(BasicType.BYTE)
    return BytesCodec() if is_bytes else ListCodec(codec_for(type_info.elem_type))


def _list(type_info: Any) -> ColumnCodec:
    return ListCodec(codec_for(type_info.elem_type))


def _tuple(type_info: Any) -> ColumnCodec:
    children = _children(type_info)
    return TupleCodec(children) if children else AnyCodec()


def _row(type_info: Any) -> ColumnCodec:
    children, names = _children(type_info), type_info.get_field_names()
    if not children:
        return AnyCodec()
    named = type_info.get_field_index(names[0]) >= 0
    return RowCodec(children, names if named else None)


def _dataclass(type_info: Any) -> ColumnCodec:
    children = _children(type_info)
    if not children or not is_plain_dataclass(type_info.python_class):
        return AnyCodec()
    return DataclassCodec(type_info.python_class, children, type_info.get_field_names())


def _named_tuple(type_info: Any) -> ColumnCodec:
    children = _children(type_info)
    if not children:
        return AnyCodec()
    return NamedTupleCodec(type_info.python_class, children, type_info.get_field_names())


_MAKERS: dict[type, Callable[[Any], ColumnCodec]] = {
    BasicTypeInfo: lambda type_info: _BASIC[type_info.basic_type],
    DateTypeInfo: lambda type_info: DateCodec(),
    TimeTypeInfo: lambda type_info: TimeCodec(),
    TimestampTypeInfo: lambda type_info: TimestampCodec(),
    OptionalTypeInfo: lambda type_info: codec_for(type_info.elem_type),
    PrimitiveArrayTypeInfo: _primitive_array,
    BasicArrayTypeInfo: _list,
    ObjectArrayTypeInfo: _list,
    ListTypeInfo: _list,
    MapTypeInfo: lambda type_info: MapCodec(codec_for(type_info.key_type), codec_for(type_info.value_type)),
    TupleTypeInfo: _tuple,
    RowTypeInfo: _row,
    DataclassTypeInfo: _dataclass,
    NamedTupleTypeInfo: _named_tuple,
    EnumTypeInfo: lambda type_info: EnumCodec(type_info.python_class),
    StampedTypeInfo: lambda type_info: TtlCodec(codec_for(type_info.elem_type)),
}
