"""Serialization schemas for JSON objects, with PyFlink's builders."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from typing import Any, Final
from uuid import uuid4

from tidemill.common.serialization import DeserializationSchema, SerializationSchema
from tidemill.common.type_kinds.composite import RowTypeInfo
from tidemill.common.typeinfo import TypeInformation, Types
from tidemill.common.types import Row
from tidemill.connectors.formats.json_schema import type_of_schema
from tidemill.connectors.formats.json_values import reader, writer
from tidemill.errors import SerializationError, TypeMismatchError

__all__ = ["JsonRowDeserializationSchema", "JsonRowSerializationSchema"]

#: Marks a decimal, which is written as a string and then replaced by a number: ``json`` cannot write decimals exactly.
#: The mark is random, so that no string in a record can be taken for a decimal.
_MARK: Final = f"decimal {uuid4().hex} "
_MARKED: Final = re.compile(f'"{_MARK}([^"]*)"')


class JsonRowDeserializationSchema(DeserializationSchema[Row]):
    """Deserializes each JSON object to a row with the fields of a type; created with :meth:`builder`.

    Fields of the object that the type does not have are ignored. Dates and times are strings in ISO 8601, bytes are
    strings in base64. There are no implicit conversions: a string that contains a number is not a number.

    >>> from tidemill.common import Types
    >>> type_info = Types.ROW_NAMED(["id", "amount"], [Types.LONG(), Types.DOUBLE()])
    >>> schema = JsonRowDeserializationSchema.builder().type_info(type_info).build()
    >>> schema.deserialize(b'{"id": 7, "amount": 1.5, "more": []}')
    Row(id=7, amount=1.5)
    """

    def __init__(self, type_info: RowTypeInfo, *, missing: bool = True, ignore: bool = False) -> None:
        self._type_info = type_info
        self._missing = missing
        self._ignore = ignore
        self._read = reader(type_info, missing=missing)
        exact = str(Types.BIG_DEC()) in str(type_info)
        self._json = json.JSONDecoder(parse_float=Decimal if exact else None)

    def deserialize(self, message: bytes) -> Row | None:
        try:
            text = message.decode()
            found, end = self._json.raw_decode(text) if text[:1] == "{" else (None, -1)
            if end != len(text):  # not an object, or with white space around it
                found = self._json.decode(text)
            row: Row | None = self._read(found)
        except (SerializationError, ValueError) as error:
            if self._ignore:
                return None
            raise SerializationError(f"{error}; the expected type is {self._type_info}") from error
        return row

    def get_produced_type(self) -> TypeInformation:
        return self._type_info

    def __reduce__(self) -> tuple[Any, ...]:
        return (_deserialization, (self._type_info, self._missing, self._ignore))

    @staticmethod
    def builder() -> JsonRowDeserializationSchema.Builder:
        """Start building a schema."""
        return JsonRowDeserializationSchema.Builder()

    class Builder:
        """Builds a :class:`JsonRowDeserializationSchema`."""

        def __init__(self) -> None:
            self._type_info: RowTypeInfo | None = None
            self._missing = True
            self._ignore = False

        def type_info(self, type_info: TypeInformation) -> JsonRowDeserializationSchema.Builder:
            """Set the type of the rows, whose field names are the keys of the objects."""
            self._type_info = _row_type(type_info)
            return self

        def json_schema(self, json_schema: str) -> JsonRowDeserializationSchema.Builder:
            """Set the type of the rows as a JSON schema. Integers have any size, other numbers are decimals."""
            self._type_info = _row_type(type_of_schema(json_schema))
            return self

        def fail_on_missing_field(self) -> JsonRowDeserializationSchema.Builder:
            """Treat a missing field as an error; by default it is None."""
            self._missing = False
            return self

        def ignore_parse_errors(self) -> JsonRowDeserializationSchema.Builder:
            """Skip messages that cannot be read."""
            self._ignore = True
            return self

        def build(self) -> JsonRowDeserializationSchema:
            """Build the schema."""
            if self._type_info is None:
                raise ValueError("a JSON schema for rows needs type_info() or json_schema()")
            return JsonRowDeserializationSchema(self._type_info, missing=self._missing, ignore=self._ignore)


class JsonRowSerializationSchema(SerializationSchema[Any]):
    """Serializes rows as JSON objects with the fields of a type; created with :meth:`builder`.

    >>> from tidemill.common import Types
    >>> type_info = Types.ROW_NAMED(["id", "amount"], [Types.LONG(), Types.DOUBLE()])
    >>> JsonRowSerializationSchema.builder().with_type_info(type_info).build().serialize(Row(7, 1.5))
    b'{"id":7,"amount":1.5}'
    """

    def __init__(self, type_info: RowTypeInfo) -> None:
        self._type_info = type_info
        self._write = writer(type_info)
        self._encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=_marked).encode

    def serialize(self, element: Any) -> bytes:
        try:
            text = self._encode(self._write(element))
        except (TypeError, ValueError, AttributeError) as error:
            raise SerializationError(f"{element!r} does not fit the type {self._type_info}: {error}") from error
        return (_MARKED.sub(r"\1", text) if _MARK in text else text).encode()

    def __reduce__(self) -> tuple[Any, ...]:
        return (JsonRowSerializationSchema, (self._type_info,))

    @staticmethod
    def builder() -> JsonRowSerializationSchema.Builder:
        """Start building a schema."""
        return JsonRowSerializationSchema.Builder()

    class Builder:
        """Builds a :class:`JsonRowSerializationSchema`."""

        def __init__(self) -> None:
            self._type_info: RowTypeInfo | None = None

        def with_type_info(self, type_info: TypeInformation) -> JsonRowSerializationSchema.Builder:
            """Set the type of the rows, whose field names are the keys of the objects."""
            self._type_info = _row_type(type_info)
            return self

        def build(self) -> JsonRowSerializationSchema:
            """Build the schema."""
            if self._type_info is None:
                raise ValueError("a JSON schema for rows needs with_type_info()")
            return JsonRowSerializationSchema(self._type_info)


def _deserialization(type_info: RowTypeInfo, missing: bool, ignore: bool) -> JsonRowDeserializationSchema:
    return JsonRowDeserializationSchema(type_info, missing=missing, ignore=ignore)


def _row_type(type_info: TypeInformation) -> RowTypeInfo:
    if not isinstance(type_info, RowTypeInfo):
        raise TypeMismatchError(f"JSON requires a row type: use Types.ROW_NAMED(names, types), not {type_info}")
    return type_info


def _marked(value: Any) -> str:
    if isinstance(value, Decimal):
        return f"{_MARK}{value}"
    raise TypeError(f"{type(value).__name__} cannot be represented in JSON")
