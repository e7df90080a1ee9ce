"""Serialization schemas for single Avro records, without a file header, under PyFlink's names.

Requires the extra ``avro``.
"""

from __future__ import annotations

import datetime as dt
import io
from collections.abc import Callable, Mapping
from typing import Any, Final

from tidemill.common.serialization import DeserializationSchema, SerializationSchema
from tidemill.common.typeinfo import TypeInformation, Types
from tidemill.common.types import Row
from tidemill.connectors.formats.avro_schema import kind_of, library, parsed
from tidemill.errors import ConfigurationError, SerializationError

__all__ = ["AvroRowDeserializationSchema", "AvroRowSerializationSchema", "to_avro"]

_BASIC: Final = {
    "boolean": Types.BOOLEAN(),
    "int": Types.INT(),
    "long": Types.LONG(),
    "float": Types.FLOAT(),
    "double": Types.DOUBLE(),
    "string": Types.STRING(),
    "bytes": Types.PRIMITIVE_ARRAY(Types.BYTE()),
}
_LOGICAL: Final = {
    "decimal": Types.BIG_DEC(),
    "date": Types.SQL_DATE(),
    "time-millis": Types.SQL_TIME(),
    "time-micros": Types.SQL_TIME(),
    "timestamp-millis": Types.SQL_TIMESTAMP(),
    "timestamp-micros": Types.SQL_TIMESTAMP(),
    "local-timestamp-millis": Types.SQL_TIMESTAMP(),
    "local-timestamp-micros": Types.SQL_TIMESTAMP(),
}


class AvroRowDeserializationSchema(DeserializationSchema[Row]):
    """Deserializes records in Avro's binary encoding to rows, according to a schema.

    >>> schema = '{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}'
    >>> AvroRowDeserializationSchema(avro_schema_string=schema).deserialize(b"\\x0e")
    Row(id=7)
    """

    def __init__(self, record_class: str | None = None, avro_schema_string: str | None = None) -> None:
        self._text = _schema_text(record_class, avro_schema_string)
        found, names = parsed(self._text)
        self._type_info = _type(found, names)
        self._schema = found
        self._shape = _reader(found, names)
        self._read = library().schemaless_reader

    def deserialize(self, message: bytes) -> Row:
        stream = io.BytesIO(message)
        try:
            row: Row = self._shape(self._read(stream, self._schema, None))
        except Exception as error:
            raise SerializationError(f"it is not a valid {self._type_info} in Avro: {error!r}") from error
        if stream.tell() != len(message):
            raise SerializationError(
                f"it is not a valid {self._type_info} in Avro: {len(message) - stream.tell()} bytes are left over"
            )
        return row

    def get_produced_type(self) -> TypeInformation:
        return self._type_info

    def __reduce__(self) -> tuple[Any, ...]:
        return (AvroRowDeserializationSchema, (None, self._text))


class AvroRowSerializationSchema(SerializationSchema[Any]):
    """Serializes rows in Avro's binary encoding, according to a schema.

    >>> schema = '{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}'
    >>> AvroRowSerializationSchema(avro_schema_string=schema).serialize(Row(7))
    b'\\x0e'
    """

    def __init__(self, record_class: str | None = None, avro_schema_string: str | None = None) -> None:
        self._text = _schema_text(record_class, avro_schema_string)
        found, names = parsed(self._text)
        self._schema = found
        self._shape = to_avro(found, names)
        self._write = library().schemaless_writer

    def serialize(self, element: Any) -> bytes:
        out = io.BytesIO()
        try:
            self._write(out, self._schema, self._shape(element), strict_allow_default=True)
        except Exception as error:
            raise SerializationError(f"{element!r} does not fit its Avro schema: {error}") from error
        return out.getvalue()

    def __reduce__(self) -> tuple[Any, ...]:
        return (AvroRowSerializationSchema, (None, self._text))


def _schema_text(record_class: str | None, text: str | None) -> str:
    if record_class is not None:
        raise ConfigurationError("record_class is not supported, as there are no Java classes: use avro_schema_string")
    if text is None:
        raise TypeError("avro_schema_string is needed")
    return text


def _type(schema: Any, names: Mapping[str, Any], inside: tuple[str, ...] = ()) -> TypeInformation:
    kind, found = kind_of(schema, names)
    if isinstance(found, Mapping) and found.get("logicalType") in _LOGICAL:
        return _LOGICAL[found["logicalType"]]
    if kind == "record":
        if found["name"] in inside:
            return Types.PICKLED_BYTE_ARRAY()  # a recursive record
        deeper = (*inside, found["name"])
        fields = {field["name"]: _type(field["type"], names, deeper) for field in found["fields"]}
        return Types.ROW_NAMED(list(fields), list(fields.values()))
    if kind == "array":
        return Types.OBJECT_ARRAY(_type(found["items"], names, inside))
    if kind == "map":
        return Types.MAP(Types.STRING(), _type(found["values"], names, inside))
    if kind == "enum":
        return Types.STRING()
    return _BASIC["bytes"] if kind == "fixed" else _BASIC.get(kind, Types.PICKLED_BYTE_ARRAY())


def _reader(schema: Any, names: Mapping[str, Any]) -> Callable[[Any], Any]:
    """Return a function that converts dicts to rows; the time zone of timestamps, always UTC, is removed."""
    kind, found = kind_of(schema, names)
    if kind == "record":
        fields = [field["name"] for field in found["fields"]]
        template = Row(*fields)
        readers: list[Callable[[Any], Any]] = []

        def read(value: Any) -> Any:
            if not readers:  # created on first use, because a record may be recursive
                readers.extend(_reader(field["type"], names) for field in found["fields"])
            if value is None:
                return None
            return template(*[each(value[name]) for name, each in zip(fields, readers, strict=True)])

        return read
    return _by_parts(kind, found, lambda part: _reader(part, names), _plain)


def _by_parts(
    kind: str, found: Any, convert: Callable[[Any], Callable[[Any], Any]], otherwise: Callable[[Any], Any]
) -> Callable[[Any], Any]:
    """Return a function that applies ``convert`` to the elements of arrays and maps, and ``otherwise`` to the rest."""
    if kind == "array":
        element = convert(found["items"])
        return lambda value: None if value is None else [element(each) for each in value]
    if kind == "map":
        item = convert(found["values"])
        return lambda value: None if value is None else {key: item(each) for key, each in value.items()}
    return otherwise


def _plain(value: Any) -> Any:
    return value.replace(tzinfo=None) if isinstance(value, dt.datetime) else value


def to_avro(schema: Any, names: Mapping[str, Any]) -> Callable[[Any], Any]:
    """Return a function that converts rows, and dicts with the same fields, to dicts as the library writes them."""
    kind, found = kind_of(schema, names)
    if kind == "record":
        fields = [field["name"] for field in found["fields"]]
        writers: list[Callable[[Any], Any]] = []

        def write(value: Any) -> Any:
            if not writers:
                writers.extend(to_avro(field["type"], names) for field in found["fields"])
            if value is None:
                return None
            if isinstance(value, Mapping):
                return _written(value, fields, writers)
            return {name: each(part) for name, each, part in zip(fields, writers, value, strict=True)}

        return write
    return _by_parts(kind, found, lambda part: to_avro(part, names), _in_utc)


def _written(value: Mapping[str, Any], fields: list[str], writers: list[Callable[[Any], Any]]) -> dict[str, Any]:
    """Convert a dict. A missing field gets the default of the schema; a field that the schema lacks is an error."""
    if len(value) != len(fields) and (more := value.keys() - set(fields)):
        raise ValueError(f"the schema has no field {min(more)!r}")
    return {name: each(value[name]) for name, each in zip(fields, writers, strict=True) if name in value}


def _in_utc(value: Any) -> Any:
    """Set the time zone of a timestamp without one to UTC, instead of the machine's time zone."""
    return value.replace(tzinfo=dt.timezone.utc) if isinstance(value, dt.datetime) and value.tzinfo is None else value
