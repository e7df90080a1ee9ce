"""Serialization schemas for CSV lines, with PyFlink's builders."""

from __future__ import annotations

import base64
import csv
import io
from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Final

from tidemill.common.serialization import DeserializationSchema, SerializationSchema
from tidemill.common.type_kinds.basic import BasicType, BasicTypeInfo, DateTypeInfo, TimestampTypeInfo, TimeTypeInfo
from tidemill.common.type_kinds.composite import BasicArrayTypeInfo, ListTypeInfo, ObjectArrayTypeInfo, RowTypeInfo
from tidemill.common.typeinfo import TypeInformation, Types
from tidemill.common.types import Row
from tidemill.errors import SerializationError, TidemillError, TypeMismatchError
from tidemill.python_versions import date_from_iso, datetime_from_iso, time_from_iso

__all__ = ["CsvRowDeserializationSchema", "CsvRowSerializationSchema"]

_ARRAYS: Final = (ListTypeInfo, ObjectArrayTypeInfo, BasicArrayTypeInfo)
_BYTES: Final = Types.PRIMITIVE_ARRAY(Types.BYTE())
_BOOLEANS: Final = {"true": True, "false": False}
_TIMES: Final[dict[type, Callable[[str], Any]]] = {
    DateTypeInfo: date_from_iso,
    TimeTypeInfo: time_from_iso,
    TimestampTypeInfo: datetime_from_iso,
}


@dataclass(frozen=True)
class _Dialect:
    delimiter: str = ","
    quote: str | None = '"'
    escape: str | None = None
    array_delimiter: str = ";"
    null: str | None = None
    comments: bool = False
    ignore: bool = False
    line_end: str = ""

    def options(self) -> dict[str, Any]:
        quoting = csv.QUOTE_NONE if self.quote is None else csv.QUOTE_MINIMAL
        return {"delimiter": self.delimiter, "quotechar": self.quote, "escapechar": self.escape, "quoting": quoting}


class CsvRowDeserializationSchema(DeserializationSchema[Row]):
    """Deserializes each line of CSV to a row, with the fields in order; created with :class:`Builder`.

    >>> from tidemill.common import Types
    >>> type_info = Types.ROW_NAMED(["id", "name"], [Types.LONG(), Types.STRING()])
    >>> CsvRowDeserializationSchema.Builder(type_info).build().deserialize(b'7,"a, b"')
    Row(id=7, name='a, b')
    """

    def __init__(self, type_info: RowTypeInfo, dialect: _Dialect) -> None:
        self._type_info = type_info
        self._dialect = dialect
        self._options = dialect.options()
        self._template = Row(*type_info.get_field_names())
        self._fields = [_reader(field, dialect) for field in type_info.get_field_types()]

    def deserialize(self, message: bytes) -> Row | None:
        try:
            text = message.decode()
            if self._dialect.comments and text.startswith("#"):
                return None
            (parts,) = csv.reader([text], strict=True, **self._options)
            if len(parts) != len(self._fields):
                raise SerializationError(f"it has {len(parts)} fields, not {len(self._fields)}")
            return self._template(*[read(part) for read, part in zip(self._fields, parts, strict=True)])
        except (TidemillError, ValueError, ArithmeticError, csv.Error) as error:
            if self._dialect.ignore:
                return None
            raise SerializationError(f"{error}; the expected type is {self._type_info}") from error

    def get_produced_type(self) -> TypeInformation:
        return self._type_info

    def __reduce__(self) -> tuple[Any, ...]:
        return (CsvRowDeserializationSchema, (self._type_info, self._dialect))

    class Builder:
        """Builds a :class:`CsvRowDeserializationSchema`."""

        def __init__(self, type_info: TypeInformation) -> None:
            self._type_info = _row_type(type_info)
            self._dialect = _Dialect()

        def set_field_delimiter(self, delimiter: str) -> CsvRowDeserializationSchema.Builder:
            """Set the delimiter between fields; by default a comma."""
            return self._set(delimiter=delimiter)

        def set_allow_comments(self, allow_comments: bool) -> CsvRowDeserializationSchema.Builder:
            """Skip lines that begin with ``#``."""
            return self._set(comments=allow_comments)

        def set_array_element_delimiter(self, delimiter: str) -> CsvRowDeserializationSchema.Builder:
            """Set the delimiter between the elements of an array; by default a semicolon."""
            return self._set(array_delimiter=delimiter)

        def set_quote_character(self, c: str) -> CsvRowDeserializationSchema.Builder:
            """Set the quote character, which encloses fields that contain a delimiter; by default ``"``."""
            return self._set(quote=c)

        def set_escape_character(self, c: str) -> CsvRowDeserializationSchema.Builder:
            """Set the character that escapes the next one."""
            return self._set(escape=c)

        def set_null_literal(self, null_literal: str) -> CsvRowDeserializationSchema.Builder:
            """Set the text that represents None."""
            return self._set(null=null_literal)

        def set_ignore_parse_errors(self, ignore_parse_errors: bool) -> CsvRowDeserializationSchema.Builder:
            """Skip lines that cannot be read."""
            return self._set(ignore=ignore_parse_errors)

        def build(self) -> CsvRowDeserializationSchema:
            """Build the schema."""
            return CsvRowDeserializationSchema(self._type_info, self._dialect)

        def _set(self, **changed: Any) -> CsvRowDeserializationSchema.Builder:
            self._dialect = replace(self._dialect, **changed)
            return self


class CsvRowSerializationSchema(SerializationSchema[Any]):
    """Serializes rows as lines of CSV; created with :class:`Builder`.

    >>> from tidemill.common import Types
    >>> type_info = Types.ROW([Types.LONG(), Types.STRING()])
    >>> CsvRowSerializationSchema.Builder(type_info).build().serialize(Row(7, "a, b"))
    b'7,"a, b"\\n'
    """

    def __init__(self, type_info: RowTypeInfo, dialect: _Dialect) -> None:
        self._type_info = type_info
        self._dialect = dialect
        self._options = {**dialect.options(), "lineterminator": dialect.line_end}
        self._fields = [_writer(field, dialect) for field in type_info.get_field_types()]

    def serialize(self, element: Any) -> bytes:
        dialect, out = self._dialect, io.StringIO()
        try:
            values = [write(value) or "" for write, value in zip(self._fields, element, strict=True)]
            if dialect.quote is None and dialect.escape is None:
                return (dialect.delimiter.join(values) + dialect.line_end).encode()
            csv.writer(out, **self._options).writerow(values)
        except (TypeError, ValueError, AttributeError, csv.Error) as error:
            raise SerializationError(f"{element!r} does not fit the type {self._type_info}: {error}") from error
        return out.getvalue().encode()

    def __reduce__(self) -> tuple[Any, ...]:
        return (CsvRowSerializationSchema, (self._type_info, self._dialect))

    class Builder:
        """Builds a :class:`CsvRowSerializationSchema`."""

        def __init__(self, type_info: TypeInformation) -> None:
            self._type_info = _row_type(type_info)
            self._dialect = _Dialect(line_end="\n", null="")

        def set_field_delimiter(self, c: str) -> CsvRowSerializationSchema.Builder:
            """Set the delimiter between fields; by default a comma."""
            return self._set(delimiter=c)

        def set_line_delimiter(self, delimiter: str) -> CsvRowSerializationSchema.Builder:
            """Set the line end, which may be empty; by default a line feed."""
            return self._set(line_end=delimiter)

        def set_array_element_delimiter(self, delimiter: str) -> CsvRowSerializationSchema.Builder:
            """Set the delimiter between the elements of an array; by default a semicolon."""
            return self._set(array_delimiter=delimiter)

        def disable_quote_character(self) -> CsvRowSerializationSchema.Builder:
            """Disable quotes, even for fields that contain a delimiter."""
            return self._set(quote=None)

        def set_quote_character(self, c: str) -> CsvRowSerializationSchema.Builder:
            """Set the quote character, which encloses fields that contain a delimiter; by default ``"``."""
            return self._set(quote=c)

        def set_escape_character(self, c: str) -> CsvRowSerializationSchema.Builder:
            """Set the character that escapes the next one."""
            return self._set(escape=c)

        def set_null_literal(self, s: str) -> CsvRowSerializationSchema.Builder:
            """Set the text that represents None; by default empty."""
            return self._set(null=s)

        def build(self) -> CsvRowSerializationSchema:
            """Build the schema."""
            return CsvRowSerializationSchema(self._type_info, self._dialect)

        def _set(self, **changed: Any) -> CsvRowSerializationSchema.Builder:
            self._dialect = replace(self._dialect, **changed)
            return self


def _reader(type_info: TypeInformation, dialect: _Dialect) -> Callable[[str], Any]:
    parse = _parser(type_info, dialect)
    if dialect.null is None and type_info != Types.STRING():
        return lambda text: parse(text) if text else None  # an empty field is None, except for strings
    return lambda text: None if text == dialect.null else parse(text)


def _parser(type_info: TypeInformation, dialect: _Dialect) -> Callable[[str], Any]:
    if isinstance(type_info, _ARRAYS):
        element = _reader(type_info.elem_type, dialect)
        return lambda text: [element(part) for part in text.split(dialect.array_delimiter)] if text else []
    if type_info == _BYTES:
        return lambda text: base64.b64decode(text, validate=True)
    if type(type_info) in _TIMES:
        return _TIMES[type(type_info)]
    if not isinstance(type_info, BasicTypeInfo) or type_info.basic_type is BasicType.INSTANT:
        raise TypeMismatchError(f"{type_info} cannot be represented in CSV")
    kind = type_info.basic_type
    if kind in (BasicType.STRING, BasicType.CHAR):
        return str
    if kind is BasicType.BOOLEAN:
        return _boolean
    if kind is BasicType.BIG_DEC:
        return Decimal
    if kind in (BasicType.FLOAT, BasicType.DOUBLE):
        return float

    def parse(text: str) -> int:
        number = int(text)
        type_info.validate(number)
        return number

    return parse


def _boolean(text: str) -> bool:
    found = _BOOLEANS.get(text.strip().lower())
    if found is None:
        raise SerializationError(f"{text!r} is neither true nor false")
    return found


def _writer(type_info: TypeInformation, dialect: _Dialect) -> Callable[[Any], str | None]:
    if isinstance(type_info, _ARRAYS):
        element = _writer(type_info.elem_type, dialect)

        def write(value: Any) -> str | None:
            return dialect.null if value is None else dialect.array_delimiter.join(str(element(each)) for each in value)

        return write
    if type_info == _BYTES:
        return lambda value: dialect.null if value is None else base64.b64encode(bytes(value)).decode()
    if type_info == Types.BOOLEAN():
        return lambda value: dialect.null if value is None else str(value).lower()
    if type(type_info) in _TIMES:
        return lambda value: dialect.null if value is None else value.isoformat()
    return lambda value: dialect.null if value is None else str(value)


def _row_type(type_info: TypeInformation) -> RowTypeInfo:
    if not isinstance(type_info, RowTypeInfo):
        raise TypeMismatchError(f"CSV requires a row type: use Types.ROW(types), not {type_info}")
    return type_info
