"""The mapping between Spark's types, Arrow's types and ``Types``.

| Spark | record | ``Types`` | Arrow |
|---|---|---|---|
| BOOLEAN | bool | BOOLEAN | bool |
| TINYINT, SMALLINT, INT, BIGINT | int | BYTE, SHORT, INT, LONG | int8 to int64 |
| FLOAT, DOUBLE | float | FLOAT, DOUBLE | float32, float64 |
| STRING, CHAR(n), VARCHAR(n) | str | STRING | string |
| BINARY | bytes | PRIMITIVE_ARRAY(BYTE) | binary |
| DECIMAL(p, s) | Decimal | BIG_DEC, which is DECIMAL(38, 18) | decimal128 |
| DATE | date | SQL_DATE | date32 |
| TIMESTAMP | datetime with a time zone, or Instant | INSTANT | timestamp[us, UTC] |
| TIMESTAMP_NTZ | datetime without | SQL_TIMESTAMP | timestamp[us] |
| ARRAY<t> | list | LIST | list |
| MAP<k, v> | dict | MAP | map |
| STRUCT<...> | Row, tuple or dict | ROW_NAMED | struct |
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa

from tidemill.common.type_kinds.python import DataclassTypeInfo, NamedTupleTypeInfo
from tidemill.common.typeinfo import (
    BasicArrayTypeInfo,
    BasicType,
    BasicTypeInfo,
    DateTypeInfo,
    ListTypeInfo,
    MapTypeInfo,
    ObjectArrayTypeInfo,
    OptionalTypeInfo,
    PrimitiveArrayTypeInfo,
    RowTypeInfo,
    TimestampTypeInfo,
    TupleTypeInfo,
    TypeInformation,
    Types,
)
from tidemill.connectors.spark.schema_types import (
    ArrayOf,
    Atom,
    Field,
    MapOf,
    SparkType,
    StructOf,
    parse_schema,
    schema_from_json,
)
from tidemill.errors import GraphError

__all__ = ["arrow_schema_of", "schema_of", "type_info_of"]

_ARROW: Final = {
    "BOOLEAN": pa.bool_(),
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "STRING": pa.string(),
    "BINARY": pa.binary(),
    "DATE": pa.date32(),
    "TIMESTAMP": pa.timestamp("us", "UTC"),
    "TIMESTAMP_NTZ": pa.timestamp("us"),
}
_BASIC: Final = {
    BasicType.BOOLEAN: "BOOLEAN",
    BasicType.BYTE: "TINYINT",
    BasicType.SHORT: "SMALLINT",
    BasicType.INT: "INT",
    BasicType.LONG: "BIGINT",
    BasicType.FLOAT: "FLOAT",
    BasicType.DOUBLE: "DOUBLE",
    BasicType.STRING: "STRING",
    BasicType.CHAR: "STRING",
    BasicType.INSTANT: "TIMESTAMP",
}
_TYPES: Final = {
    "BOOLEAN": Types.BOOLEAN,
    "TINYINT": Types.BYTE,
    "SMALLINT": Types.SHORT,
    "INT": Types.INT,
    "BIGINT": Types.LONG,
    "FLOAT": Types.FLOAT,
    "DOUBLE": Types.DOUBLE,
    "STRING": Types.STRING,
    "DATE": Types.SQL_DATE,
    "TIMESTAMP": Types.INSTANT,
    "TIMESTAMP_NTZ": Types.SQL_TIMESTAMP,
    "DECIMAL": Types.BIG_DEC,
}


def schema_of(described: Any) -> StructOf:
    """Create a schema from Spark's DDL, a ``StructType``, ``DataTypes.ROW``, or the type of a stream.

    A type that is not a row, tuple, dataclass or named tuple becomes a single column, ``value``. The fields of a tuple
    are named ``f0``, ``f1`` and so on.

    >>> schema_of("id INT, name STRING").names
    ('id', 'name')
    >>> schema_of(Types.TUPLE([Types.STRING(), Types.LONG()])).ddl()
    '`f0` STRING, `f1` BIGINT'
    >>> schema_of(Types.DOUBLE()).ddl()
    '`value` DOUBLE'
    """
    if isinstance(described, StructOf):
        return described
    if isinstance(described, str):
        return parse_schema(described)
    if isinstance(described, TypeInformation):
        found = _from_type_info(described, "value")
        return found if isinstance(found, StructOf) else StructOf((Field("value", found),))
    if hasattr(described, "jsonValue"):  # Spark's types, which this package does not import, and DataTypes
        json = described.jsonValue()
        if isinstance(json, Mapping) and json["type"] == "struct":
            return schema_from_json(json)
        return schema_from_json({"type": "struct", "fields": [{"name": "value", "type": json, "nullable": True}]})
    raise TypeError(
        "a schema must be in Spark's DDL ('id LONG, name STRING'), a StructType, Types.ROW_NAMED(...) or "
        f"DataTypes.ROW(...), not {type(described).__name__}"
    )


def arrow_schema_of(schema: StructOf) -> pa.Schema:
    """Return the Arrow schema for a schema."""
    return pa.schema([pa.field(field.name, _to_arrow(field.type), field.nullable) for field in schema.fields])


def type_info_of(described: Any) -> TypeInformation:
    """Return the type of rows with a schema.

    :func:`schema_of` converts it back to the same schema, except that ``Types`` has only one decimal type, which is
    DECIMAL(38, 18), and that the fields of a row and the values of a dict are always nullable.

    >>> type_info_of("id LONG, tags ARRAY<STRING>")
    RowTypeInfo(id: Long, tags: ListTypeInfo<String>)
    """
    return _to_type_info(schema_of(described))


def _to_arrow(kind: SparkType) -> pa.DataType:
    if isinstance(kind, StructOf):
        return pa.struct([pa.field(field.name, _to_arrow(field.type), field.nullable) for field in kind.fields])
    if isinstance(kind, ArrayOf):
        return pa.list_(pa.field("element", _to_arrow(kind.element), kind.nullable))
    if isinstance(kind, MapOf):
        return pa.map_(_to_arrow(kind.key), pa.field("value", _to_arrow(kind.value), kind.nullable))
    return pa.decimal128(*kind.parameters) if kind.name == "DECIMAL" else _ARROW[kind.name]


def _to_type_info(kind: SparkType) -> TypeInformation:
    if isinstance(kind, StructOf):
        return Types.ROW_NAMED(list(kind.names), [_to_type_info(field.type) for field in kind.fields])
    if isinstance(kind, ArrayOf):
        element = _to_type_info(kind.element)
        return Types.LIST(Types.OPTIONAL(element) if kind.nullable else element)
    if isinstance(kind, MapOf):
        return Types.MAP(_to_type_info(kind.key), _to_type_info(kind.value))
    return Types.PRIMITIVE_ARRAY(Types.BYTE()) if kind.name == "BINARY" else _TYPES[kind.name]()


def _from_type_info(info: TypeInformation, where: str) -> SparkType:
    if isinstance(info, OptionalTypeInfo):
        return _from_type_info(info.elem_type, where)
    if isinstance(info, BasicTypeInfo) and info.basic_type in _BASIC:
        return Atom(_BASIC[info.basic_type])
    if isinstance(info, BasicTypeInfo) and info.basic_type is BasicType.BIG_DEC:
        return Atom("DECIMAL", (38, 18))
    if isinstance(info, DateTypeInfo):
        return Atom("DATE")
    if isinstance(info, TimestampTypeInfo):
        return Atom("TIMESTAMP_NTZ")
    if isinstance(info, PrimitiveArrayTypeInfo) and info.elem_type == Types.BYTE():
        return Atom("BINARY")
    if isinstance(info, ListTypeInfo):
        nullable = info.elem_type.nullable
        return ArrayOf(_from_type_info(info.elem_type, f"{where}[]"), nullable)
    if isinstance(info, (PrimitiveArrayTypeInfo, BasicArrayTypeInfo, ObjectArrayTypeInfo)):
        nullable = not isinstance(info, PrimitiveArrayTypeInfo)
        return ArrayOf(_from_type_info(info.elem_type, f"{where}[]"), nullable)
    if isinstance(info, MapTypeInfo):
        return MapOf(_from_type_info(info.key_type, f"{where} key"), _from_type_info(info.value_type, where))
    if isinstance(info, (RowTypeInfo, TupleTypeInfo, DataclassTypeInfo, NamedTupleTypeInfo)):
        return StructOf(tuple(Field(name, _from_type_info(kind, f"{where}.{name}")) for name, kind in _fields_of(info)))
    raise GraphError(
        f"{where} has type {info}, which has no equivalent in Spark: specify a schema such as 'id LONG, name STRING', "
        "and map the records to rows or tuples with its columns"
    )


def _fields_of(
    info: RowTypeInfo | TupleTypeInfo | DataclassTypeInfo | NamedTupleTypeInfo,
) -> list[tuple[str, TypeInformation]]:
    types = info.get_field_types()
    if isinstance(info, TupleTypeInfo):
        return [(f"f{index}", kind) for index, kind in enumerate(types)]
    return list(zip(info.get_field_names(), types, strict=True))
