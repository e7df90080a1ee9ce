"""Avro schemas, and their counterparts: the type of generic records, and the columns of Parquet files."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from tidemill.common.type_kinds.basic import PickledBytesTypeInfo
from tidemill.connectors.spark.schema_types import ArrayOf, Atom, Field, MapOf, SparkType, StructOf
from tidemill.errors import ConfigurationError, TypeMismatchError

__all__ = ["AvroSchema", "GenericRecordAvroTypeInfo", "columns_of", "from_columns", "kind_of", "library", "parsed"]

_BASIC: Final = {
    "boolean": Atom("BOOLEAN"),
    "int": Atom("INT"),
    "long": Atom("BIGINT"),
    "float": Atom("FLOAT"),
    "double": Atom("DOUBLE"),
    "string": Atom("STRING"),
    "bytes": Atom("BINARY"),
    "fixed": Atom("BINARY"),
    "enum": Atom("STRING"),
}
_LOGICAL: Final = {
    "date": Atom("DATE"),
    "timestamp-millis": Atom("TIMESTAMP"),
    "timestamp-micros": Atom("TIMESTAMP"),
    "local-timestamp-millis": Atom("TIMESTAMP_NTZ"),
    "local-timestamp-micros": Atom("TIMESTAMP_NTZ"),
}


class AvroSchema:
    """The schema of Avro records, created with :meth:`parse_string` or :meth:`parse_file`.

    >>> print(AvroSchema.parse_string('{"type": "record", "name": "Order", "fields": []}'))
    {"type": "record", "name": "Order", "fields": []}
    """

    def __init__(self, json_schema: str) -> None:
        parsed(json_schema)  # raises an error for an invalid schema
        self._json = json_schema

    @staticmethod
    def parse_string(json_schema: str) -> AvroSchema:
        """Parse a schema in JSON. Raises :class:`TypeMismatchError` for an invalid one."""
        return AvroSchema(json_schema)

    @staticmethod
    def parse_file(file_path: str) -> AvroSchema:
        """Parse a file with a schema in JSON."""
        return AvroSchema(Path(file_path).read_text(encoding="utf-8"))

    def __str__(self) -> str:
        return self._json

    def __repr__(self) -> str:
        return f"AvroSchema({self._json})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AvroSchema) and json.loads(other._json) == json.loads(self._json)

    def __hash__(self) -> int:
        return hash(json.dumps(json.loads(self._json), sort_keys=True))


class GenericRecordAvroTypeInfo(PickledBytesTypeInfo):
    """The type of records with an Avro schema, which are dicts. They are stored like other Python objects."""

    def __init__(self, schema: AvroSchema) -> None:
        self.schema = schema

    def __repr__(self) -> str:
        return f"GenericRecordAvroTypeInfo({self.schema})"


def library() -> Any:
    """Return the library that reads and writes Avro. Raises :class:`ConfigurationError` if it is not installed."""
    try:
        import fastavro
    except ImportError as error:
        raise ConfigurationError("Avro needs the extra avro: pip install 'tidemill[avro]'") from error
    return fastavro


def parsed(text: str) -> tuple[Any, Mapping[str, Any]]:
    """Return the schema of a record as parsed by the library, and its named types."""
    names: dict[str, Any] = {}
    try:
        found = library().parse_schema(json.loads(text), names)
    except ConfigurationError:
        raise
    except Exception as error:
        raise TypeMismatchError(f"{text} is not a valid Avro schema: {error}") from error
    if not isinstance(found, Mapping) or found["type"] != "record":
        raise TypeMismatchError(f"the Avro schema of a row must be that of a record, not {text}")
    return found, names


def kind_of(schema: Any, names: Mapping[str, Any]) -> tuple[str, Any]:
    """Return the kind of a schema, with references resolved and the null of an optional value removed."""
    if isinstance(schema, list):
        others = [branch for branch in schema if branch != "null"]
        return kind_of(others[0], names) if len(others) == 1 else ("union", schema)
    if isinstance(schema, str):
        return kind_of(names[schema], names) if schema in names else (schema, schema)
    if isinstance(schema["type"], (list, dict)):
        return kind_of(schema["type"], names)
    return schema["type"], schema


def columns_of(schema: AvroSchema) -> StructOf:
    """Return the columns of a Parquet file with the records of a schema.

    >>> text = '{"type": "record", "name": "O", "fields": [{"name": "tags", "type": {"type": "map", "values": "int"}}]}'
    >>> columns_of(AvroSchema(text)).ddl()
    '`tags` MAP<STRING, INT> NOT NULL'
    """
    found, names = parsed(str(schema))
    return _struct(found, names, ())


def _struct(record: Any, names: Mapping[str, Any], inside: tuple[str, ...]) -> StructOf:
    if record["name"] in inside:
        raise TypeMismatchError(f"record {record['name']!r} contains itself, which columns cannot represent")
    deeper = (*inside, record["name"])
    return StructOf(
        tuple(
            Field(field["name"], _column(field["type"], names, deeper), _optional(field["type"]))
            for field in record["fields"]
        )
    )


def _optional(schema: Any) -> bool:
    return isinstance(schema, list) and "null" in schema


def _column(schema: Any, names: Mapping[str, Any], inside: tuple[str, ...]) -> SparkType:
    kind, found = kind_of(schema, names)
    logical = found.get("logicalType") if isinstance(found, Mapping) else None
    if logical == "decimal":
        return Atom("DECIMAL", (found["precision"], found.get("scale", 0)))
    if logical in _LOGICAL:
        return _LOGICAL[logical]
    if kind == "record":
        return _struct(found, names, inside)
    if kind == "array":
        return ArrayOf(_column(found["items"], names, inside), _optional(found["items"]))
    if kind == "map":
        return MapOf(Atom("STRING"), _column(found["values"], names, inside), _optional(found["values"]))
    if kind not in _BASIC or logical in ("time-millis", "time-micros"):
        raise TypeMismatchError(f"Avro's {logical or kind} has no counterpart among the columns of a Parquet file")
    return _BASIC[kind]


def from_columns(schema: AvroSchema) -> Callable[[Any], Any]:
    """Return a function that converts a record that Arrow has read from columns to a dict as Avro has it."""
    found, names = parsed(str(schema))
    return _from_column(found, names)


def _from_column(schema: Any, names: Mapping[str, Any]) -> Callable[[Any], Any]:
    kind, found = kind_of(schema, names)
    if kind == "record":
        fields = [(field["name"], _from_column(field["type"], names)) for field in found["fields"]]
        return lambda value: None if value is None else {name: convert(value[name]) for name, convert in fields}
    if kind == "array":
        element = _from_column(found["items"], names)
        return lambda value: None if value is None else [element(each) for each in value]
    if kind == "map":
        item = _from_column(found["values"], names)
        return lambda value: None if value is None else {key: item(each) for key, each in value}
    return lambda value: value
