"""``stable_hash``: a 64-bit hash of a key that is the same in every process, platform and Python version.

Key groups are computed from it and key groups are durable, so **the numbers must never change**: the golden vectors in
the tests are part of the file format.

Algorithm: every supported value is reduced to an integer and a salt for its type is added, which gives ``x``; then
``x`` is mixed by a middle square: ``stable_hash = bits 60 to 123 of x * x * 0x9E3779B97F4A7C15``. The reductions:

- numbers: Python's numeric hash (language reference, ``sys.hash_info.modulus == 2**61 - 1``), the only rule by which
  1 == 1.0 == True == Decimal(1) == Fraction(1) agree;
- str and bytes: the UTF-8 (lone surrogates as in WTF-8) or raw bytes, as a little-endian integer modulo 2**61 - 1,
  xor crc32 << 29;
- tuples: ``p = ((p + 1) * 0xD1342543DE82EF95 + x of the element) mod 2**64`` over the elements, from 0, then mixed;
- everything else: a tuple or integer of the values that its ``==`` compares.

It does not protect against keys chosen to collide.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import sys
import zlib
from collections.abc import Callable, Iterable
from decimal import Decimal
from enum import Enum, Flag
from fractions import Fraction
from typing import Any
from uuid import UUID

from tidemill.errors import InvalidKeyError
from tidemill.state.keys.canonical_key import SIMPLE_TYPES, canonical_key, canonical_keys

__all__ = ["canonical_key", "canonical_keys", "stable_hash"]

if sys.hash_info.modulus != (1 << 61) - 1:  # pragma: no cover
    raise ImportError("Tidemill needs a 64-bit Python: key groups are computed from the numeric hash modulo 2**61 - 1")

_GOLDEN = 0x9E3779B97F4A7C15
_MASK = 0xFFFFFFFFFFFFFFFF

# Salts: arbitrary odd numbers of 65 bits, so that a salted x (|x| < 2**64) stays positive.
_NUMBER = 0x12D358DCCAA6C78A5
_STR = 0x18BB84B93962EACC9
_BYTES = 0x14B33A62ED433D4A3
_TUPLE = 0x1AF36D01EF7518DBB
_SET = 0x1589965CC75374CC3
_OBJECT = 0x1E7037ED1A0B428DB

_X_NONE = 0x5F3C9D21
_X_NAN = 0x7A1E44B7
_DAY_US = 86_400_000_000
_US = dt.timedelta(microseconds=1)

_crc32 = zlib.crc32
_from_bytes = int.from_bytes
_Reducer = Callable[[Any], int]


def stable_hash(key: Any) -> int:
    """The hash of ``key``, 0 <= hash < 2**64. Keys that are equal (``==``) have equal hashes; so do all NaNs.

    Raises :class:`InvalidKeyError` for a key that is mutable, unhashable, or has no reproducible hash in another
    process; the message names the type and an alternative.

    >>> stable_hash(1) == stable_hash(1.0) == stable_hash(True), stable_hash("a") == stable_hash(b"a")
    (True, False)
    """
    kind = type(key)
    if kind is int:
        x = hash(key) + 0x12D358DCCAA6C78A5  # constants instead of globals: 30 % faster
    elif kind is str:
        x = _reduce_str(key)
    else:
        x = (_REDUCERS.get(kind) or _reducer_for(kind))(key)
    return x * x * 0x9E3779B97F4A7C15 >> 60 & 0xFFFFFFFFFFFFFFFF


def _mix(x: int) -> int:
    return x * x * _GOLDEN >> 60 & _MASK


def _reduce_str(key: str) -> int:
    try:
        data = key.encode()
    except UnicodeEncodeError:
        data = key.encode("utf-8", "surrogatepass")
    return (hash(_from_bytes(data, "little")) ^ _crc32(data) << 29) + 0x18BB84B93962EACC9


def _reduce_bytes(key: bytes) -> int:
    return (hash(_from_bytes(key, "little")) ^ _crc32(key) << 29) + _BYTES


def _reduce_number(key: Any) -> int:
    return (hash(key) if key == key else _X_NAN) + _NUMBER


def _reduce_decimal(key: Decimal) -> int:
    if key.is_snan():
        raise InvalidKeyError("a signaling NaN cannot be a key: it cannot be compared; use Decimal('NaN')")
    return (_X_NAN if key.is_nan() else hash(key)) + _NUMBER


def _reduce_complex(key: complex) -> int:
    if key != key:
        raise InvalidKeyError(f"{key!r} cannot be a key: a complex NaN is equal to nothing, not even to itself")
    return hash(key) + _NUMBER


def _reduce_none(key: None) -> int:
    return _X_NONE + _OBJECT


def _reduce_tuple(key: Iterable[Any], salt: int = _TUPLE) -> int:
    x = 0
    for element in key:
        kind = type(element)
        if kind is int:
            e = hash(element) + 0x12D358DCCAA6C78A5
        elif kind is str:
            e = _reduce_str(element)
        else:
            e = (_REDUCERS.get(kind) or _reducer_for(kind))(element)
        x = (x + 1) * 0xD1342543DE82EF95 + e & 0xFFFFFFFFFFFFFFFF
    x += salt  # mixed before it can become an element, because polynomials of polynomials would collide
    return (x * x * 0x9E3779B97F4A7C15 >> 60 & 0xFFFFFFFFFFFFFFFF) + salt


def _reduce_frozenset(key: frozenset[Any]) -> int:
    for element in key:
        _refuse_nan(element, "frozenset")
    return _mix((sum([stable_hash(element) for element in key]) & _MASK) + _SET) + _SET


def _reduce_datetime(key: dt.datetime) -> int:
    # ``fold`` is not part of ==, so the offset is that of fold 0, as in Python's own hash.
    offset = None if key.tzinfo is None else key.replace(fold=0).utcoffset()
    seconds = (key.toordinal() * 24 + key.hour) * 3600 + key.minute * 60 + key.second
    x = seconds * 1_000_000 + key.microsecond
    return (x if offset is None else x - offset // _US) + _OBJECT + 2


def _reduce_date(key: dt.date) -> int:
    return key.toordinal() + _OBJECT + 4


def _reduce_time(key: dt.time) -> int:
    offset = None if key.tzinfo is None else key.replace(fold=0).utcoffset()
    x = ((key.hour * 60 + key.minute) * 60 + key.second) * 1_000_000 + key.microsecond
    return (x if offset is None else x - offset // _US) + _OBJECT + 6


def _reduce_timedelta(key: dt.timedelta) -> int:
    return hash(key // _US) + _OBJECT + 8


def _reduce_uuid(key: UUID) -> int:
    return (hash(key.int) ^ _crc32(key.bytes) << 29) + _OBJECT + 10


def _reduce_enum(key: Enum) -> int:
    return _reduce_str(key.name) + 12


def _reduce_flag(key: Flag) -> int:
    return stable_hash(key.value) + _OBJECT + 14


def _reduce_row(key: Any) -> int:
    names = key.get_field_names()  # equal rows may have their names in a different order
    values = list(key) if names is None else key.get_fields_by_names(sorted(names))
    for value in values:
        _refuse_nan(value, "Row")
    return _reduce_tuple(values, _OBJECT + 16)


_REDUCERS: dict[type, _Reducer] = {
    str: _reduce_str,
    bool: _reduce_number,
    int: _reduce_number,
    float: _reduce_number,
    Fraction: _reduce_number,
    Decimal: _reduce_decimal,
    complex: _reduce_complex,
    bytes: _reduce_bytes,
    type(None): _reduce_none,
    tuple: _reduce_tuple,
    frozenset: _reduce_frozenset,
    dt.datetime: _reduce_datetime,
    dt.date: _reduce_date,
    dt.time: _reduce_time,
    dt.timedelta: _reduce_timedelta,
    UUID: _reduce_uuid,
}
_BASES = frozenset(_REDUCERS)

_ADVICE: dict[type, str] = {
    list: "use tuple(...)",
    dict: "use tuple(sorted(d.items())) or a frozen dataclass",
    set: "use frozenset(...)",
    bytearray: "use bytes(...)",
    memoryview: "use bytes(...)",
}


def _reducer_for(kind: type) -> _Reducer:
    reducer = _REDUCERS[kind] = _find_reducer(kind)
    return reducer


def _find_reducer(kind: type) -> _Reducer:
    """The reducer for a type seen for the first time; raises if the type cannot be a key."""
    from tidemill.common.types import Row  # not at the top: Row keys are rare

    if kind.__module__ == "numpy":
        return _reduce_numpy
    unhashable: Any = kind.__hash__  # may be None, contrary to the stubs
    if unhashable is None:
        if dataclasses.is_dataclass(kind):
            raise _invalid(kind, "it is a mutable dataclass; declare it with @dataclass(frozen=True)")
        advice = next((text for base, text in _ADVICE.items() if issubclass(kind, base)), None)
        raise _invalid(kind, f"it is unhashable; {advice or 'use a tuple or a frozen dataclass of its fields'}")
    if issubclass(kind, Row):
        return _reduce_row
    if dataclasses.is_dataclass(kind) and not issubclass(kind, Enum):
        return _dataclass_reducer(kind)
    for base in kind.__mro__:
        if base in _BASES and _compares_like(kind, base):
            return _REDUCERS[base]  # a subclass that compares like its base: NamedTuple, IntEnum, StrEnum
    if issubclass(kind, Flag):
        return _reduce_flag
    if issubclass(kind, Enum) and (_generated_eq(kind) or _same_eq(kind, object)):
        return _reduce_enum
    if _compares_like(kind, object):
        raise _invalid(kind, "its hash is its address in memory; use a tuple or a frozen dataclass of its fields")
    advice = _ADVICE.get(kind, "use a tuple or a frozen dataclass of its fields")
    raise _invalid(kind, f"its own __eq__ and __hash__ may not be the same in every process; {advice}")


def _dataclass_reducer(kind: type) -> _Reducer:
    params = kind.__dataclass_params__  # type: ignore[attr-defined]
    if not params.frozen:
        raise _invalid(kind, "it is a mutable dataclass; declare it with @dataclass(frozen=True)")
    if not _generated_eq(kind):
        raise _invalid(kind, "it does not compare by its fields; leave __eq__ to @dataclass(frozen=True)")
    names = [f.name for f in dataclasses.fields(kind) if f.compare and f.hash is not False]
    label = kind.__qualname__

    def reduce_dataclass(key: Any) -> int:
        values = [getattr(key, name) for name in names]
        for value in values:
            _refuse_nan(value, label)
        return _reduce_tuple(values, _OBJECT + 18)

    return reduce_dataclass


def _compares_like(kind: Any, base: Any) -> bool:
    return _same_eq(kind, base) and kind.__hash__ is base.__hash__


def _same_eq(kind: Any, base: Any) -> bool:
    return bool(kind.__eq__ is base.__eq__)


def _generated_eq(kind: type) -> bool:
    """Whether ``==`` of ``kind`` was generated by ``@dataclass`` (code without a file)."""
    code = getattr(kind.__eq__, "__code__", None)
    return code is not None and code.co_filename == "<string>"


def _invalid(kind: type, why: str) -> InvalidKeyError:
    return InvalidKeyError(f"a value of type {kind.__module__}.{kind.__qualname__} cannot be (part of) a key: {why}")


def _refuse_nan(value: Any, where: str) -> None:
    """Reject NaN: it is found again only by identity, which only tuples guarantee in every Python version."""
    kind = type(value)
    if kind in SIMPLE_TYPES:
        return
    if kind is tuple:
        for element in value:
            _refuse_nan(element, where)
    elif (kind is float and value != value) or (kind is Decimal and value.is_nan()):
        raise InvalidKeyError(f"NaN inside a {where} cannot be a key, it would never be found; use a tuple, or None")


def _reduce_numpy(key: Any) -> int:
    value = canonical_key(key)
    return _REDUCERS[type(value)](value)
