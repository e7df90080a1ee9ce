"""A self-describing binary form of single Python values, for columns whose values are not all of one simple type.

Every value is a tag (one byte) followed by its content. Lengths and counts are unsigned LEB128 (``n`` below), ``str``
is n and that many bytes of UTF-8 in which lone surrogates are kept (as in WTF-8). ::

    N T F  None, True, False                    i  int: n, two's complement, big endian
    f      float: 8 bytes, little endian        c  complex: 16 bytes                    D  Decimal: str
    s      str                                  b  bytes: n, bytes                      a  bytearray: n, bytes
    t l    tuple, list: n, values               d  dict: n, key, value, ...             U  UUID: 16 bytes
    S Z    set, frozenset: n, values, sorted by their encoded bytes
    y      date: u32 ordinal                    p  timedelta: int (days, seconds, microseconds in microseconds)
    m      datetime: u32 ordinal, then as h     h  time: u8 hour, minute, second, u32 microsecond, u8 fold, zone
           zone: 0 = none; 1 = fixed offset, int of microseconds, value of the name or N; 2 = IANA, str
    E      Enum: str class, str member          G  Flag: str class, value of the bits
    C      dataclass: str class, n, (str name, value) ...           n  NamedTuple: str class, n, (str name, value) ...
    M      NamedTuple, only in older files: str class, n, values
    R      Row: u8 kind, u8 named, n, (str name, if named; value) ...
        P      pickle of protocol 5: n, bytes. Only for values without another form.

Types round trip exactly; shared references to the same object are not preserved.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import pickle
import struct
from collections.abc import Callable
from decimal import Decimal
from enum import Enum, Flag
from operator import attrgetter
from traceback import format_exception_only
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

from tidemill.common.type_kinds.python import is_named_tuple
from tidemill.common.types import Row
from tidemill.errors import SerializationError
from tidemill.state.codecs.class_names import class_name, is_findable, is_plain_dataclass

__all__ = ["TaggedWriter"]

_US = dt.timedelta(microseconds=1)
_Writer = Callable[["TaggedWriter", bytearray, Any], None]


class TaggedWriter:
    """Encodes values; ``used_pickle`` is whether one of them had to be pickled."""

    def __init__(self) -> None:
        self.used_pickle = False

    def dumps(self, value: Any) -> bytes:
        """The bytes of ``value``. Raises :class:`SerializationError` if it cannot even be pickled."""
        out = bytearray()
        try:
            self.write(out, value)
        except RecursionError:  # deeply nested, or a value that contains itself, which pickle supports
            out.clear()
            _write_pickle(self, out, value)
        return bytes(out)

    def write(self, out: bytearray, value: Any) -> None:
        kind = type(value)
        (_WRITERS.get(kind) or _writer_for(kind))(self, out, value)


def write_count(out: bytearray, n: int) -> None:
    while n > 0x7F:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    out.append(n)


def _block(out: bytearray, data: bytes | bytearray) -> None:
    write_count(out, len(data))
    out += data


def _text(out: bytearray, text: str) -> None:
    _block(out, text.encode("utf-8", "surrogatepass"))


def _int(out: bytearray, value: int, tag: bytes = b"") -> None:
    out += tag
    _block(out, value.to_bytes(value.bit_length() // 8 + 1, "big", signed=True))


def _write_str(writer: TaggedWriter, out: bytearray, value: str) -> None:
    out += b"s"
    _text(out, value)


def _write_decimal(writer: TaggedWriter, out: bytearray, value: Decimal) -> None:
    out += b"D"
    _text(out, str(value))


def _write_timedelta(writer: TaggedWriter, out: bytearray, value: dt.timedelta) -> None:
    out += b"p"
    _int(out, value // _US)


def _write_datetime(writer: TaggedWriter, out: bytearray, value: dt.datetime) -> None:
    zone = _zone(writer, value.tzinfo)
    if zone is None:
        return _write_pickle(writer, out, value)
    out += b"m"
    out += struct.pack("<I", value.toordinal()) + _clock(value)
    out += zone
    return None


def _write_time(writer: TaggedWriter, out: bytearray, value: dt.time) -> None:
    zone = _zone(writer, value.tzinfo)
    if zone is None:
        return _write_pickle(writer, out, value)
    out += b"h"
    out += _clock(value)
    out += zone
    return None


def _clock(value: dt.datetime | dt.time) -> bytes:
    return struct.pack("<BBBIB", value.hour, value.minute, value.second, value.microsecond, value.fold)


def _zone(writer: TaggedWriter, zone: dt.tzinfo | None) -> bytearray | None:
    out = bytearray(b"\x00")
    if type(zone) is dt.timezone:
        offset, *name = zone.__getinitargs__()  # type: ignore[attr-defined]
        out = bytearray(b"\x01")
        _int(out, offset // _US)
        writer.write(out, name[0] if name else None)
    elif type(zone) is ZoneInfo and zone.key is not None:
        out = bytearray(b"\x02")
        _text(out, zone.key)
    elif zone is not None:
        return None
    return out


def _write_dict(writer: TaggedWriter, out: bytearray, value: dict[Any, Any]) -> None:
    out += b"d"
    write_count(out, len(value))
    for key, item in value.items():
        writer.write(out, key)
        writer.write(out, item)


def _sequence_writer(tag: bytes) -> _Writer:
    def write(writer: TaggedWriter, out: bytearray, value: Any) -> None:
        out += tag
        write_count(out, len(value))
        for item in value:
            writer.write(out, item)

    return write


def _set_writer(tag: bytes) -> _Writer:
    def write(writer: TaggedWriter, out: bytearray, value: Any) -> None:
        parts = []
        for item in value:
            part = bytearray()
            writer.write(part, item)
            parts.append(part)
        out += tag
        write_count(out, len(parts))
        for part in sorted(parts):
            out += part

    return write


def _constant(data: bytes) -> _Writer:
    return lambda writer, out, value: out.extend(data)


def _packed(tag: bytes, pack: Callable[[Any], bytes]) -> _Writer:
    return lambda writer, out, value: out.extend(tag + pack(value))


def _blob(tag: bytes) -> _Writer:
    def write(writer: TaggedWriter, out: bytearray, value: Any) -> None:
        out += tag
        _block(out, value)

    return write


def _write_row(writer: TaggedWriter, out: bytearray, value: Row) -> None:
    names, values = value.get_field_names(), list(value)
    if names is not None and len(names) != len(values):
        return _write_pickle(writer, out, value)
    out += b"R" + bytes((value.get_row_kind().value, names is not None))
    write_count(out, len(values))
    for i, item in enumerate(values):
        if names is not None:
            _text(out, names[i])
        writer.write(out, item)
    return None


def _write_enum(writer: TaggedWriter, out: bytearray, value: Enum) -> None:
    out += b"E"
    _text(out, class_name(type(value)))
    _text(out, value.name)


def _write_flag(writer: TaggedWriter, out: bytearray, value: Flag) -> None:
    out += b"G"
    _text(out, class_name(type(value)))
    writer.write(out, value.value)


def _write_named_tuple(writer: TaggedWriter, out: bytearray, value: Any) -> None:
    if getattr(value, "__dict__", None):
        return _write_pickle(writer, out, value)
    out += b"n"
    _text(out, class_name(type(value)))
    write_count(out, len(value))
    for name, item in zip(value._fields, value, strict=True):
        _text(out, name)
        writer.write(out, item)
    return None


def _write_dataclass(writer: TaggedWriter, out: bytearray, value: Any) -> None:
    names = [f.name for f in dataclasses.fields(value)]
    if not has_only_fields(value, names):
        return _write_pickle(writer, out, value)
    out += b"C"
    _text(out, class_name(type(value)))
    write_count(out, len(names))
    for name in names:
        _text(out, name)
        writer.write(out, getattr(value, name))
    return None


def has_only_fields(value: Any, names: list[str]) -> bool:
    """Whether this instance of a dataclass has all fields set, and no other attributes."""
    attributes = getattr(value, "__dict__", None)
    if attributes is not None and not attributes.keys() <= set(names):
        return False
    try:
        attrgetter(*names)(value) if names else None
    except AttributeError:
        return False
    return True


def _write_pickle(writer: TaggedWriter, out: bytearray, value: Any) -> None:
    try:
        data = pickle.dumps(value, protocol=5)
    except Exception as error:
        cause = "".join(format_exception_only(error)).strip()  # also of an exception whose str() raises
        raise SerializationError(
            f"a value of type {class_name(type(value))} cannot be stored: {cause}. Declare "
            "the type of the state (for instance Types.DATACLASS), or define the class at the top level of a module"
        ) from error
    writer.used_pickle = True
    out += b"P"
    _block(out, data)


_WRITERS: dict[type, _Writer] = {
    type(None): _constant(b"N"),
    bool: _packed(b"", lambda value: b"T" if value else b"F"),
    int: lambda writer, out, value: _int(out, value, b"i"),
    float: _packed(b"f", struct.Struct("<d").pack),
    complex: _packed(b"c", lambda value: struct.pack("<dd", value.real, value.imag)),
    str: _write_str,
    bytes: _blob(b"b"),
    bytearray: _blob(b"a"),
    tuple: _sequence_writer(b"t"),
    list: _sequence_writer(b"l"),
    dict: _write_dict,
    set: _set_writer(b"S"),
    frozenset: _set_writer(b"Z"),
    Decimal: _write_decimal,
    UUID: _packed(b"U", lambda value: value.bytes),
    dt.date: _packed(b"y", lambda value: struct.pack("<I", value.toordinal())),
    dt.datetime: _write_datetime,
    dt.time: _write_time,
    dt.timedelta: _write_timedelta,
    Row: _write_row,
}


def _writer_for(kind: type) -> _Writer:
    """The writer for a class; not cached, because whether a class can be found by its name may change."""
    if not is_findable(kind):
        return _write_pickle
    if issubclass(kind, Enum):
        return _write_flag if issubclass(kind, Flag) else _write_enum
    if is_named_tuple(kind) and kind.__reduce_ex__ is object.__reduce_ex__:
        return _write_named_tuple
    return _write_dataclass if is_plain_dataclass(kind) else _write_pickle
