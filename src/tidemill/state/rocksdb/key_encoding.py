"""Keys as bytes: equal for keys that are equal in Python, different for all others; no key is a prefix of another.

The encoding is local to one machine and one start of a program, so it may change from version to version. Every value
is a tag (one byte) followed by its content. Lists of values end with 00, which is not a tag; texts end with 00 01, and
a zero byte in them is 00 FF. ::

    10  None                                    11  NaN (12: of Decimal)
    1C  int below 64 bits: length, bytes        1D  int of 64 bits: 8 bytes, ordered        1E  int above: length, bytes
        1F  other number exact as float: 8 bytes, ordered              20  fraction: two ints   21  complex: two numbers
    30  str: text in WTF-8                      31  bytes: text
    40  tuple: values                           41  frozenset: values, sorted               42  Row: names, values
    50  date    51  datetime (52: aware)        53  time (54: aware)    55  timedelta       56  UUID: 16 bytes
    60  Enum: class, name                       61  Flag: class, value                      62  dataclass: class, values
    7F  anything else: its tagged form (:mod:`tidemill.state.codecs.tagged_writer`)

Ints, texts, bytes, and tuples of them, sort in the same order as in Python.

The bytes do not fully determine a key: 1, 1.0 and True have the same bytes. A key that :func:`decode_key` would return
as a different object is *inexact*; its original must be stored too.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import struct
from collections.abc import Callable, Iterable
from decimal import Decimal
from enum import Enum, Flag
from fractions import Fraction
from typing import Any, Final
from uuid import UUID

from tidemill.common.types import Row
from tidemill.errors import InvalidKeyError
from tidemill.state.codecs.class_names import class_name
from tidemill.state.codecs.tagged_reader import TaggedReader
from tidemill.state.codecs.tagged_writer import TaggedWriter
from tidemill.state.keys.canonical_key import canonical_key

__all__ = ["EXACT", "NONE_KEY", "decode_key", "encode_key", "is_exact"]

_SIGN: Final = 1 << 63
_pack_ordered = struct.Struct(">BQ").pack
_pack_length = struct.Struct(">I").pack
_pack_double = struct.Struct(">d").pack
_UNSIGNED: Final = struct.Struct(">Q")
_DOUBLE: Final = struct.Struct(">d")
_DAY_US: Final = 86_400_000_000
_US: Final = dt.timedelta(microseconds=1)
#: A Decimal beyond 10**this would need as many bytes as digits.
_MOST_DIGITS: Final = 10_000

NONE_KEY: Final = b"\x10"
_NAN: Final = canonical_key(float("nan"))

_Encoder = Callable[[Any], bytes]


def encode_key(key: Any) -> bytes:
    """The bytes of a key, or of a part of one (a namespace, a user key of a map)."""
    kind = type(key)
    if kind is int:
        try:
            return _pack_ordered(0x1D, key + 0x8000000000000000)
        except struct.error:
            return _big(key)
    if kind is str:
        data: bytes = key.encode("utf-8", "surrogatepass")
        return b"\x30" + (data.replace(b"\0", b"\0\xff") if "\0" in key else data) + b"\0\1"
    return (_ENCODERS.get(kind) or _encoder_for(kind))(key)


def is_exact(key: Any) -> bool:
    """Whether :func:`decode_key` returns exactly this value, with the same type."""
    kind = type(key)
    if kind in EXACT:
        return True
    if kind is tuple:
        return all(map(is_exact, key))
    if kind is float:
        return not key.is_integer()
    if kind is dt.datetime or kind is dt.time:
        return key.tzinfo is None and not key.fold
    return False


#: Types whose values are all exact.
EXACT: Final = frozenset((int, str, bytes, type(None), dt.date, dt.timedelta, UUID))


def decode_key(data: bytes, at: int = 0) -> tuple[Any, int]:
    """The key whose bytes begin at ``at``, and the offset of their end; for an inexact key an equal one, or None."""
    tag = data[at]
    if tag == 0x1D:
        return _UNSIGNED.unpack_from(data, at + 1)[0] - _SIGN, at + 9
    if tag == 0x30:
        raw, at = _text(data, at + 1)
        return raw.decode("utf-8", "surrogatepass"), at
    return _DECODERS[tag](data, at + 1)


# --- encoding


def _big(value: int) -> bytes:
    size = (value.bit_length() + 7) // 8
    if value > 0:
        return b"\x1e" + _pack_length(size) + value.to_bytes(size, "big")
    # The larger the size, the smaller the number.
    return b"\x1c" + _pack_length(0xFFFFFFFF - size) + (value + (1 << 8 * size)).to_bytes(size, "big")


def _float(value: float) -> bytes:
    if value.is_integer():
        return encode_key(int(value))
    if value != value:
        return b"\x11"
    bits = _UNSIGNED.unpack(_pack_double(value))[0]
    return _pack_ordered(0x1F, bits ^ (0xFFFFFFFFFFFFFFFF if bits & _SIGN else _SIGN))


def _ratio(numerator: int, denominator: int) -> bytes:
    if denominator == 1:
        return encode_key(numerator)
    if denominator & (denominator - 1) == 0:
        try:
            number = numerator / denominator
        except OverflowError:
            number = 0.0
        if number.as_integer_ratio() == (numerator, denominator):
            return _float(number)
    return b"\x20" + encode_key(numerator) + encode_key(denominator)


def _decimal(value: Decimal) -> bytes:
    if value.is_nan():
        return b"\x12"
    if value.is_infinite():
        return _float(float(value))
    if value and abs(value.adjusted()) > _MOST_DIGITS:
        raise InvalidKeyError(f"a Decimal of 10**{value.adjusted()} cannot be (part of) a key of state in RocksDB")
    return _ratio(*value.as_integer_ratio())


def _complex(value: complex) -> bytes:
    if not value.imag:
        return _float(value.real)
    return b"\x21" + _float(value.real) + _float(value.imag)


def _bytes(value: bytes) -> bytes:
    return b"\x31" + value.replace(b"\0", b"\0\xff") + b"\0\1"


def _values(tag: bytes, values: Iterable[Any]) -> bytes:
    return tag + b"".join([encode_key(value) for value in values]) + b"\0"


def _datetime(value: dt.datetime) -> bytes:
    # ``fold`` is not part of ==, so the offset is that of fold 0, as in Python's own hash.
    offset = None if value.tzinfo is None else value.replace(fold=0).utcoffset()
    seconds = (value.toordinal() * 24 + value.hour) * 3600 + value.minute * 60 + value.second
    x = seconds * 1_000_000 + value.microsecond
    return b"\x51" + encode_key(x) if offset is None else b"\x52" + encode_key(x - offset // _US)


def _time(value: dt.time) -> bytes:
    offset = None if value.tzinfo is None else value.replace(fold=0).utcoffset()
    x = ((value.hour * 60 + value.minute) * 60 + value.second) * 1_000_000 + value.microsecond
    return b"\x53" + encode_key(x) if offset is None else b"\x54" + encode_key(x - offset // _US)


def _row(value: Row) -> bytes:
    names = value.get_field_names()
    kind = value.get_row_kind().value
    if names is None:
        return _values(b"\x42", (kind, None, *value))
    ordered = sorted(zip(names, value, strict=False))
    return _values(b"\x42", (kind, *(part for field in ordered for part in field)))


def _enum(value: Enum) -> bytes:
    return b"\x60" + encode_key(class_name(type(value))) + encode_key(value.name)


def _flag(value: Flag) -> bytes:
    return b"\x61" + encode_key(class_name(type(value))) + encode_key(value.value)


def _tagged(value: Any) -> bytes:
    return b"\x7f" + TaggedWriter().dumps(value).replace(b"\0", b"\0\xff") + b"\0\1"


_ENCODERS: dict[type, _Encoder] = {
    int: encode_key,
    str: encode_key,
    type(None): lambda value: NONE_KEY,
    bool: lambda value: encode_key(int(value)),
    float: _float,
    Decimal: _decimal,
    Fraction: lambda value: _ratio(value.numerator, value.denominator),
    complex: _complex,
    bytes: _bytes,
    tuple: lambda value: _values(b"\x40", value),
    frozenset: lambda value: b"\x41" + b"".join(sorted([encode_key(element) for element in value])) + b"\0",
    dt.date: lambda value: b"\x50" + encode_key(value.toordinal()),
    dt.datetime: _datetime,
    dt.time: _time,
    dt.timedelta: lambda value: b"\x55" + encode_key(value // _US),
    UUID: lambda value: b"\x56" + value.bytes,
    Row: _row,
}
_BASES: Final = frozenset(_ENCODERS) - {bool, Row}


def _encoder_for(kind: type) -> _Encoder:
    """The encoder for a new class. ``stable_hash`` decides what may be a key, not this function."""
    found = _ENCODERS[kind] = _find_encoder(kind)
    return found


def _find_encoder(kind: Any) -> _Encoder:
    if kind.__module__ == "numpy":
        return lambda value: encode_key(canonical_key(value))
    if issubclass(kind, Row):
        return _row
    if hasattr(kind, "__dataclass_fields__") and not issubclass(kind, Enum):
        return _dataclass_encoder(kind)
    for base in kind.__mro__:
        if base in _BASES and kind.__eq__ is base.__eq__ and kind.__hash__ is base.__hash__:
            return _as_base(base)  # a subclass that compares like its base: NamedTuple, IntEnum, StrEnum
    if issubclass(kind, Flag):
        return _flag
    return _enum if issubclass(kind, Enum) else _tagged


def _as_base(base: type) -> _Encoder:
    if base is int:
        return lambda value: encode_key(int(value))
    if base is str:
        return lambda value: encode_key(str.__str__(value))
    return _ENCODERS[base]


def _dataclass_encoder(kind: Any) -> _Encoder:
    if kind.__hash__ is None or not kind.__dataclass_params__.eq:
        return _tagged
    names = [field.name for field in dataclasses.fields(kind) if field.compare]
    head = b"\x62" + encode_key(class_name(kind))
    return lambda value: _values(head, (getattr(value, name) for name in names))


# --- decoding


def _text(data: bytes, at: int) -> tuple[bytes, int]:
    """The text that begins at ``at``, and the offset after its end."""
    end = data.index(b"\0\1", at)
    return data[at:end].replace(b"\0\xff", b"\0"), end + 2


def _values_at(data: bytes, at: int) -> tuple[list[Any], int]:
    values = []
    while data[at]:
        value, at = decode_key(data, at)
        values.append(value)
    return values, at + 1


def _big_at(data: bytes, at: int) -> tuple[int, int]:
    size = int.from_bytes(data[at : at + 4], "big")
    if data[at - 1] == 0x1E:
        return int.from_bytes(data[at + 4 : at + 4 + size], "big"), at + 4 + size
    size = 0xFFFFFFFF - size
    return int.from_bytes(data[at + 4 : at + 4 + size], "big") - (1 << 8 * size), at + 4 + size


def _double_at(data: bytes, at: int) -> tuple[float, int]:
    bits = _UNSIGNED.unpack_from(data, at)[0]
    bits ^= _SIGN if bits & _SIGN else 0xFFFFFFFFFFFFFFFF
    number: float = _DOUBLE.unpack(_UNSIGNED.pack(bits))[0]
    return number, at + 8


def _bytes_at(data: bytes, at: int) -> tuple[bytes, int]:
    return _text(data, at)


def _tuple_at(data: bytes, at: int) -> tuple[tuple[Any, ...], int]:
    values, at = _values_at(data, at)
    return tuple(values), at


def _date_at(data: bytes, at: int) -> tuple[dt.date, int]:
    ordinal, at = decode_key(data, at)
    return dt.date.fromordinal(ordinal), at


def _datetime_at(data: bytes, at: int) -> tuple[dt.datetime, int]:
    micros, at = decode_key(data, at)
    days, micros = divmod(micros, _DAY_US)
    midnight = dt.datetime.combine(dt.date.fromordinal(days), dt.time())
    return midnight + dt.timedelta(microseconds=micros), at


def _time_at(data: bytes, at: int) -> tuple[dt.time, int]:
    micros, at = decode_key(data, at)
    seconds, micros = divmod(micros, 1_000_000)
    return dt.time(seconds // 3600, seconds // 60 % 60, seconds % 60, micros), at


def _timedelta_at(data: bytes, at: int) -> tuple[dt.timedelta, int]:
    micros, at = decode_key(data, at)
    return micros * _US, at


def _uuid_at(data: bytes, at: int) -> tuple[UUID, int]:
    return UUID(bytes=data[at : at + 16]), at + 16


def _tagged_at(data: bytes, at: int) -> tuple[Any, int]:
    raw, at = _text(data, at)
    return TaggedReader().loads(raw), at


def _skipped(parts: int) -> Callable[[bytes, int], tuple[Any, int]]:
    """For inexact keys, whose original is stored elsewhere: only the offset of their end is needed."""

    def skip(data: bytes, at: int) -> tuple[Any, int]:
        for _ in range(parts):
            _, at = decode_key(data, at)
        return None, at

    return skip


def _skipped_values(data: bytes, at: int) -> tuple[Any, int]:
    _, at = _values_at(data, at)
    return None, at


def _skipped_dataclass(data: bytes, at: int) -> tuple[Any, int]:
    _, at = decode_key(data, at)
    return _skipped_values(data, at)


_DECODERS: dict[int, Callable[[bytes, int], tuple[Any, int]]] = {
    0x10: lambda data, at: (None, at),
    0x11: lambda data, at: (_NAN, at),
    0x12: lambda data, at: (None, at),
    0x1C: _big_at,
    0x1E: _big_at,
    0x1F: _double_at,
    0x20: _skipped(2),
    0x21: _skipped(2),
    0x31: _bytes_at,
    0x40: _tuple_at,
    0x41: _skipped_values,
    0x42: _skipped_values,
    0x50: _date_at,
    0x51: _datetime_at,
    0x52: _skipped(1),
    0x53: _time_at,
    0x54: _skipped(1),
    0x55: _timedelta_at,
    0x56: _uuid_at,
    0x60: _skipped(2),
    0x61: _skipped(2),
    0x62: _skipped_dataclass,
    0x7F: _tagged_at,
}
