"""Values as bytes, according to their declared type: one entry of a local store at a time.

An entry begins with a byte of flags: 1, the original of an inexact key precedes the value (see
:mod:`tidemill.state.rocksdb.key_encoding`); 2, the value is None; 4, the value is in the tagged form
(:mod:`tidemill.state.codecs.tagged_writer`), because its type is not declared or it does not fit the type. The value
follows the flags.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from tidemill.common.typeinfo import (
    BasicType,
    BasicTypeInfo,
    DataclassTypeInfo,
    EnumTypeInfo,
    ListTypeInfo,
    MapTypeInfo,
    NamedTupleTypeInfo,
    OptionalTypeInfo,
    PrimitiveArrayTypeInfo,
    RowTypeInfo,
    TupleTypeInfo,
    TypeInformation,
)
from tidemill.common.types import Row, RowKind
from tidemill.state.codecs.class_names import is_plain_dataclass
from tidemill.state.codecs.tagged_reader import TaggedReader, build_dataclass
from tidemill.state.codecs.tagged_writer import TaggedWriter, has_only_fields, write_count
from tidemill.state.codecs.ttl import Stamped, StampedTypeInfo

__all__ = ["EntryCodec", "entry_codec", "with_original", "without_original"]

ORIGINAL: Final = 1
NONE: Final = 2
TAGGED: Final = 4

_LONG: Final = struct.Struct("<Bq")
_DOUBLE: Final = struct.Struct("<Bd")
_KINDS: Final = tuple(RowKind)

#: The exceptions of an encoder for a value that does not fit its type; it is then stored in the tagged form.
_MISFIT: Final = (struct.error, TypeError, ValueError, AttributeError, LookupError, OverflowError)


class EntryCodec(NamedTuple):
    """``dumps(value)`` returns the bytes of an entry, ``loads(data)`` the value; a new object if it is mutable."""

    dumps: Callable[[Any], bytes]
    loads: Callable[[bytes], Any]


def entry_codec(type_info: TypeInformation | None) -> EntryCodec:
    """The codec for values of a declared type; None for an unknown type."""
    if isinstance(type_info, OptionalTypeInfo):
        return entry_codec(type_info.elem_type)
    if isinstance(type_info, BasicTypeInfo):
        if type_info.basic_type in _LONGS:
            return EntryCodec(_dumps_long, _loads_long)
        if type_info.basic_type in _DOUBLES:
            return EntryCodec(_dumps_double, _loads_double)
        if type_info.basic_type in _STRINGS:
            return EntryCodec(_dumps_str, _loads_str)
    field = _field(type_info)
    if field is _TAGGED_FIELD:
        return EntryCodec(_dumps_tagged, _loads_other)
    return EntryCodec(_dumps_by(field.write), _loads_by(field.read))


def with_original(data: bytes, original: bytes) -> bytes:
    """An entry with the original of its inexact key."""
    out = bytearray((data[0] | ORIGINAL,))
    write_count(out, len(original))
    out += original
    out += data[1:]
    return bytes(out)


def without_original(data: bytes) -> tuple[bytes, bytes]:
    """The original of an entry's key (empty if the key is exact), and the entry without it."""
    if not data[0] & ORIGINAL:
        return b"", data
    length, at = _count(data, 1)
    return data[at : at + length], bytes((data[0] & ~ORIGINAL,)) + data[at + length :]


# --- single values, optimized for size and speed


def _dumps_long(value: Any) -> bytes:
    try:
        return _LONG.pack(0, value)
    except struct.error:
        return _dumps_tagged(value)


def _loads_long(data: bytes) -> Any:
    if data[0]:
        return _loads_other(data, _loads_long)
    return _LONG.unpack(data)[1]


def _dumps_double(value: Any) -> bytes:
    try:
        return _DOUBLE.pack(0, value)
    except (struct.error, OverflowError):
        return _dumps_tagged(value)


def _loads_double(data: bytes) -> Any:
    if data[0]:
        return _loads_other(data, _loads_double)
    return _DOUBLE.unpack(data)[1]


def _dumps_str(value: Any) -> bytes:
    try:
        encoded: bytes = value.encode()
        return b"\0" + encoded
    except (AttributeError, UnicodeEncodeError):
        return _dumps_tagged(value)


def _loads_str(data: bytes) -> Any:
    if data[0]:
        return _loads_other(data, _loads_str)
    return data[1:].decode()


def _dumps_tagged(value: Any) -> bytes:
    return b"\2" if value is None else b"\4" + TaggedWriter().dumps(value)


def _loads_other(data: bytes, plain: Callable[[bytes], Any] | None = None) -> Any:
    """The value of an entry with flags."""
    flags = data[0]
    if flags & ORIGINAL:
        _, data = without_original(data)
        flags = data[0]
    if flags & NONE:
        return None
    if flags & TAGGED or plain is None:
        return TaggedReader().loads(data[1:])
    return plain(data)


# --- composite values


class _Field(NamedTuple):
    """Writes a value that is part of another, or raises one of ``_MISFIT``; reads it back, with its end offset."""

    write: Callable[[bytearray, Any], None]
    read: Callable[[bytes, int], tuple[Any, int]]


def _dumps_by(write: Callable[[bytearray, Any], None]) -> Callable[[Any], bytes]:
    def dumps(value: Any) -> bytes:
        out = bytearray(b"\0")
        try:
            write(out, value)
        except _MISFIT:
            return _dumps_tagged(value)
        return bytes(out)

    return dumps


def _loads_by(read: Callable[[bytes, int], tuple[Any, int]]) -> Callable[[bytes], Any]:
    def loads(data: bytes) -> Any:
        if data[0]:
            return _loads_other(data, loads)
        return read(data, 1)[0]

    return loads


def _count(data: bytes, at: int) -> tuple[int, int]:
    n = data[at]
    at += 1
    if n < 0x80:
        return n, at
    n &= 0x7F
    shift = 7
    while True:
        byte = data[at]
        at += 1
        n |= (byte & 0x7F) << shift
        if byte < 0x80:
            return n, at
        shift += 7


def _block(out: bytearray, data: bytes) -> None:
    write_count(out, len(data))
    out += data


def _block_at(data: bytes, at: int) -> tuple[bytes, int]:
    length, at = _count(data, at)
    return data[at : at + length], at + length


def _of(kind: type, value: Any) -> Any:
    if type(value) is not kind:
        raise TypeError
    return value


def _write_long(out: bytearray, value: Any) -> None:
    out += _LONG.pack(0, value)


def _read_long(data: bytes, at: int) -> tuple[Any, int]:
    return _LONG.unpack_from(data, at)[1], at + 9


def _write_double(out: bytearray, value: Any) -> None:
    out += _DOUBLE.pack(0, value)


def _read_double(data: bytes, at: int) -> tuple[Any, int]:
    return _DOUBLE.unpack_from(data, at)[1], at + 9


def _write_bool(out: bytearray, value: Any) -> None:
    out.append(_of(bool, value))


def _read_bool(data: bytes, at: int) -> tuple[Any, int]:
    return data[at] == 1, at + 1


def _write_str(out: bytearray, value: Any) -> None:
    _block(out, value.encode())


def _read_str(data: bytes, at: int) -> tuple[Any, int]:
    raw, at = _block_at(data, at)
    return raw.decode(), at


def _write_bytes(out: bytearray, value: Any) -> None:
    _block(out, _of(bytes, value))


def _write_tagged(out: bytearray, value: Any) -> None:
    _block(out, TaggedWriter().dumps(value))


def _read_tagged(data: bytes, at: int) -> tuple[Any, int]:
    raw, at = _block_at(data, at)
    return TaggedReader().loads(raw), at


_TAGGED_FIELD: Final = _Field(_write_tagged, _read_tagged)


def _nullable(field: _Field) -> _Field:
    """A field that may be None: a byte indicates whether a value follows."""
    write_present, read_present = field

    def write(out: bytearray, value: Any) -> None:
        if value is None:
            out.append(0)
        else:
            out.append(1)
            write_present(out, value)

    def read(data: bytes, at: int) -> tuple[Any, int]:
        return read_present(data, at + 1) if data[at] else (None, at + 1)

    return _Field(write, read)


def _parts(fields: list[_Field]) -> tuple[Callable[[bytearray, Any], None], Callable[[bytes, int], tuple[Any, int]]]:
    """Functions that write and read values with exactly these fields."""
    writers, readers = [field.write for field in fields], [field.read for field in fields]

    def write(out: bytearray, values: Any) -> None:
        for writer, value in zip(writers, values, strict=True):
            writer(out, value)

    def read(data: bytes, at: int) -> tuple[list[Any], int]:
        values = []
        for reader in readers:
            value, at = reader(data, at)
            values.append(value)
        return values, at

    return write, read


def _tuple_field(kind: Any, types: list[Any], make: Callable[[list[Any]], Any]) -> _Field:
    write, read = _parts([_nullable(_field(type_info)) for type_info in types])

    def read_tuple(data: bytes, at: int) -> tuple[Any, int]:
        values, at = read(data, at)
        return make(values), at

    return _Field(lambda out, value: write(out, _of(kind, value)), read_tuple)


def _named_tuple_field(kind: Any, types: list[Any]) -> _Field:
    plain = _tuple_field(kind, types, kind._make)

    def write(out: bytearray, value: Any) -> None:
        if getattr(value, "__dict__", None):
            raise ValueError
        plain.write(out, value)

    return _Field(write, plain.read)


def _dataclass_field(type_info: Any) -> _Field:
    kind, names = type_info.python_class, list(type_info.get_field_names())
    if not is_plain_dataclass(kind):
        return _TAGGED_FIELD
    write_values, read_values = _parts([_nullable(_field(inner)) for inner in type_info.get_field_types()])

    def write(out: bytearray, value: Any) -> None:
        if not has_only_fields(_of(kind, value), names):
            raise ValueError
        write_values(out, [getattr(value, name) for name in names])

    def read(data: bytes, at: int) -> tuple[Any, int]:
        values, at = read_values(data, at)
        return build_dataclass(kind, dict(zip(names, values, strict=True))), at

    return _Field(write, read)


def _row_field(type_info: Any) -> _Field:
    write_values, read_values = _parts([_nullable(_field(inner)) for inner in type_info.get_field_types()])
    names = list(type_info.get_field_names())

    def write(out: bytearray, value: Any) -> None:
        given = _of(Row, value).get_field_names()
        if given is not None and list(given) != names:
            raise ValueError
        out += bytes((value.get_row_kind().value, given is not None))
        write_values(out, list(value))

    def read(data: bytes, at: int) -> tuple[Any, int]:
        kind, named = data[at], data[at + 1]
        values, at = read_values(data, at + 2)
        row = Row.of_kind(_KINDS[kind], *values)
        if named:
            row.set_field_names(names)
        return row, at

    return _Field(write, read)


def _list_field(element: TypeInformation | None) -> _Field:
    write_element, read_element = _nullable(_field(element))

    def write(out: bytearray, value: Any) -> None:
        write_count(out, len(_of(list, value)))
        for item in value:
            write_element(out, item)

    def read(data: bytes, at: int) -> tuple[Any, int]:
        count, at = _count(data, at)
        items = []
        for _ in range(count):
            item, at = read_element(data, at)
            items.append(item)
        return items, at

    return _Field(write, read)


def _map_field(type_info: Any) -> _Field:
    key, value = _nullable(_field(type_info.key_type)), _nullable(_field(type_info.value_type))

    def write(out: bytearray, entries: Any) -> None:
        write_count(out, len(_of(dict, entries)))
        for name, item in entries.items():
            key.write(out, name)
            value.write(out, item)

    def read(data: bytes, at: int) -> tuple[Any, int]:
        count, at = _count(data, at)
        entries = {}
        for _ in range(count):
            name, at = key.read(data, at)
            entries[name], at = value.read(data, at)
        return entries, at

    return _Field(write, read)


def _enum_field(type_info: Any) -> _Field:
    kind = type_info.python_class

    def write(out: bytearray, value: Any) -> None:
        _write_str(out, _of(kind, value).name)

    def read(data: bytes, at: int) -> tuple[Any, int]:
        name, at = _read_str(data, at)
        return kind[name], at

    return _Field(write, read)


def _stamped_field(type_info: Any) -> _Field:
    write_value, read_value = _nullable(_field(type_info.elem_type))

    def write(out: bytearray, stamped: Any) -> None:
        _write_long(out, _of(Stamped, stamped).time)
        write_value(out, stamped.value)

    def read(data: bytes, at: int) -> tuple[Any, int]:
        time, at = _read_long(data, at)
        value, at = read_value(data, at)
        return Stamped(value, time), at

    return _Field(write, read)


_LONGS: Final = frozenset((BasicType.BYTE, BasicType.SHORT, BasicType.INT, BasicType.LONG))
_DOUBLES: Final = frozenset((BasicType.FLOAT, BasicType.DOUBLE))
_STRINGS: Final = frozenset((BasicType.STRING, BasicType.CHAR))

_MAKERS: dict[type, Callable[[Any], _Field]] = {
    OptionalTypeInfo: lambda type_info: _field(type_info.elem_type),
    ListTypeInfo: lambda type_info: _list_field(type_info.elem_type),
    MapTypeInfo: _map_field,
    TupleTypeInfo: lambda type_info: _tuple_field(tuple, type_info.get_field_types(), tuple),
    NamedTupleTypeInfo: lambda type_info: _named_tuple_field(type_info.python_class, type_info.get_field_types()),
    RowTypeInfo: _row_field,
    DataclassTypeInfo: _dataclass_field,
    EnumTypeInfo: _enum_field,
    StampedTypeInfo: _stamped_field,
}


def _field(type_info: TypeInformation | None) -> _Field:
    if isinstance(type_info, BasicTypeInfo):
        if type_info.basic_type in _LONGS:
            return _Field(_write_long, _read_long)
        if type_info.basic_type in _DOUBLES:
            return _Field(_write_double, _read_double)
        if type_info.basic_type in _STRINGS:
            return _Field(_write_str, _read_str)
        return _Field(_write_bool, _read_bool) if type_info.basic_type is BasicType.BOOLEAN else _TAGGED_FIELD
    if isinstance(type_info, PrimitiveArrayTypeInfo) and type_info.elem_type == BasicTypeInfo(BasicType.BYTE):
        return _Field(_write_bytes, _block_at)
    make = _MAKERS.get(type(type_info))
    return _TAGGED_FIELD if make is None else make(type_info)
