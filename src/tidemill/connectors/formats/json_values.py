"""Converts between the values of the ``json`` module and values of declared types.

Dates and times are strings in ISO 8601, bytes are strings in base64, decimals are numbers. Rows and maps are objects,
and tuples are arrays. Null is None for every type.
"""

from __future__ import annotations

import base64
import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final, TypeAlias

from tidemill.common.type_kinds.basic import (
    BasicType,
    BasicTypeInfo,
    DateTypeInfo,
    PickledBytesTypeInfo,
    TimestampTypeInfo,
    TimeTypeInfo,
)
from tidemill.common.type_kinds.composite import (
    BasicArrayTypeInfo,
    ListTypeInfo,
    MapTypeInfo,
    ObjectArrayTypeInfo,
    OptionalTypeInfo,
    PrimitiveArrayTypeInfo,
    RowTypeInfo,
    TupleTypeInfo,
)
from tidemill.common.typeinfo import TypeInformation, Types
from tidemill.common.types import Row
from tidemill.errors import SerializationError, TidemillError, TypeMismatchError
from tidemill.python_versions import date_from_iso, datetime_from_iso, time_from_iso

Convert: TypeAlias = Callable[[Any], Any]

_BYTES: Final = Types.PRIMITIVE_ARRAY(Types.BYTE())
_ARRAYS: Final = (ListTypeInfo, ObjectArrayTypeInfo, BasicArrayTypeInfo, PrimitiveArrayTypeInfo)
_FLOATS: Final = frozenset({BasicType.FLOAT, BasicType.DOUBLE})
_NUMBERS: Final = (int, float, Decimal)


def reader(type_info: TypeInformation, *, missing: bool = True) -> Convert:
    """Return a function that converts a value read by ``json`` to a value of a type.

    With ``missing``, missing fields of a row are None. The function raises :class:`SerializationError` for a value that
    does not match the type.
    """
    make = _reader(type_info, missing=missing)

    def read(value: Any) -> Any:
        return None if value is None else make(value)

    return read


def _reader(type_info: TypeInformation, *, missing: bool) -> Convert:
    if isinstance(type_info, RowTypeInfo):
        return _row_reader(type_info, missing=missing)
    if isinstance(type_info, TupleTypeInfo):
        fields = [reader(field, missing=missing) for field in type_info.get_field_types()]
        return lambda value: tuple(read(each) for read, each in zip(fields, _checked(value, list), strict=True))
    if isinstance(type_info, MapTypeInfo):
        if type_info.key_type != Types.STRING():
            raise TypeMismatchError(f"a map in JSON must have string keys, not {type_info.key_type}")
        item = reader(type_info.value_type, missing=missing)
        return lambda value: {key: item(each) for key, each in _checked(value, dict).items()}
    if type_info == _BYTES:
        return lambda value: base64.b64decode(_checked(value, str), validate=True)
    if isinstance(type_info, OptionalTypeInfo):
        return reader(type_info.elem_type, missing=missing)
    if isinstance(type_info, _ARRAYS):
        element = reader(type_info.elem_type, missing=missing)
        return lambda value: [element(each) for each in _checked(value, list)]
    if type(type_info) in _TIMES:
        parse = _TIMES[type(type_info)]
        return lambda value: parse(_checked(value, str))
    if isinstance(type_info, PickledBytesTypeInfo):
        return _plain
    if isinstance(type_info, BasicTypeInfo) and type_info.basic_type is not BasicType.INSTANT:
        return _basic_reader(type_info)
    raise TypeMismatchError(f"{type_info} cannot be represented in JSON")


def _basic_reader(type_info: BasicTypeInfo) -> Convert:
    kind = type_info.basic_type
    if kind in _FLOATS:
        return lambda value: float(_checked(value, _NUMBERS))
    if kind is BasicType.BIG_DEC:
        return lambda value: Decimal(_checked(value, _NUMBERS))
    if kind is BasicType.BOOLEAN:
        return lambda value: _checked(value, bool)
    if kind is BasicType.STRING:
        return lambda value: _checked(value, str)
    if kind is BasicType.BIG_INT:
        return lambda value: _checked(value, int)
    if kind is BasicType.CHAR:
        return lambda value: _valid(type_info, _checked(value, str))
    bits = _BITS[kind]
    low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1

    def read(value: Any) -> Any:
        return value if type(value) is int and low <= value <= high else _valid(type_info, _checked(value, int))

    return read


_BITS: Final = {BasicType.BYTE: 8, BasicType.SHORT: 16, BasicType.INT: 32, BasicType.LONG: 64}


def _valid(type_info: TypeInformation, value: Any) -> Any:
    type_info.validate(value)
    return value


def _row_reader(type_info: RowTypeInfo, *, missing: bool) -> Convert:
    names = type_info.get_field_names()
    kinds = type_info.get_field_types()
    fields = [(name, reader(kind, missing=missing)) for name, kind in zip(names, kinds, strict=True)]
    # The classes of values that need no conversion, as most values do not.
    quick = [(name, _as_they_are(kind), read) for (name, read), kind in zip(fields, kinds, strict=True)]
    template = Row(*names)

    def read(value: Any) -> Row:
        found = _checked(value, dict)
        if not missing:
            absent = next((name for name in names if name not in found), None)
            if absent is not None:
                raise SerializationError(f"field {absent!r} is missing")
        get = found.get
        try:
            return template(
                *[value if type(value := get(name)) in plain else convert(value) for name, plain, convert in quick]
            )
        except (TidemillError, ValueError):
            raise _named(found, fields) from None

    return read


def _as_they_are(type_info: TypeInformation) -> frozenset[type]:
    kind = type_info.basic_type if isinstance(type_info, BasicTypeInfo) else None
    return frozenset({type(None), *_CLASSES.get(kind, ())})


_CLASSES: Final[dict[BasicType | None, tuple[type, ...]]] = {
    BasicType.STRING: (str,),
    BasicType.BOOLEAN: (bool,),
    BasicType.BIG_INT: (int,),
    BasicType.FLOAT: (float,),
    BasicType.DOUBLE: (float,),
    BasicType.BIG_DEC: (Decimal,),
}


def _named(found: dict[str, Any], fields: list[tuple[str, Convert]]) -> SerializationError:
    """Return the error of the first invalid field, with the field's name."""
    for name, convert in fields:
        try:
            convert(found.get(name))
        except (TidemillError, ValueError) as error:
            return SerializationError(f"field {name!r}: {error}")
    return SerializationError("the object could not be read, but no invalid field was found")


def _checked(value: Any, wanted: Any) -> Any:
    if not isinstance(value, wanted) or (isinstance(value, bool) and wanted is not bool):
        raise SerializationError(f"{value!r} is not {_NAMES[wanted]}")
    return value


_NAMES: Final[dict[Any, str]] = {
    dict: "an object",
    list: "an array",
    str: "text",
    bool: "true or false",
    int: "an integer",
    _NUMBERS: "a number",
}


def _timestamp(text: str) -> dt.datetime:
    """Parse a timestamp, and convert it to UTC without a time zone, as in Flink's type."""
    found = datetime_from_iso(text)
    return found if found.tzinfo is None else found.astimezone(dt.timezone.utc).replace(tzinfo=None)


_TIMES: Final[dict[type, Callable[[str], Any]]] = {
    DateTypeInfo: date_from_iso,
    TimeTypeInfo: lambda text: time_from_iso(text).replace(tzinfo=None),
    TimestampTypeInfo: _timestamp,
}


def _plain(value: Any) -> Any:
    """Convert decimals in any value to floats, as ``json`` reads them by default."""
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return {key: _plain(each) for key, each in value.items()} if isinstance(value, dict) else value


def writer(type_info: TypeInformation) -> Convert:
    """Return a function that converts a value of a type to one that ``json`` can write; decimals are not converted."""
    make = _writer(type_info)

    def write(value: Any) -> Any:
        return None if value is None else make(value)

    return write


def _writer(type_info: TypeInformation) -> Convert:
    if isinstance(type_info, RowTypeInfo):
        names = type_info.get_field_names()
        fields = [writer(field) for field in type_info.get_field_types()]

        def write(row: Any) -> dict[str, Any]:
            return {name: each(value) for name, each, value in zip(names, fields, row, strict=True)}

        return write
    if isinstance(type_info, TupleTypeInfo):
        parts = [writer(field) for field in type_info.get_field_types()]
        return lambda value: [each(part) for each, part in zip(parts, value, strict=True)]
    if isinstance(type_info, MapTypeInfo):
        item = writer(type_info.value_type)
        return lambda value: {str(key): item(each) for key, each in value.items()}
    if type_info == _BYTES:
        return lambda value: base64.b64encode(bytes(value)).decode()
    if isinstance(type_info, OptionalTypeInfo):
        return writer(type_info.elem_type)
    if isinstance(type_info, _ARRAYS):
        element = writer(type_info.elem_type)
        return lambda value: [element(each) for each in value]
    if isinstance(type_info, (DateTypeInfo, TimeTypeInfo)):
        return lambda value: value.isoformat()
    if isinstance(type_info, TimestampTypeInfo):
        return lambda value: _timestamp(value.isoformat()).isoformat() + "Z"
    return lambda value: value
