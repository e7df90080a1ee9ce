"""Reads values written by :mod:`tidemill.state.codecs.tagged_writer`; the format is described there.

Every length is checked against the remaining data before anything is allocated, and no code from the file runs unless
the caller trusts the file (:class:`~tidemill.state.codecs.class_names.Loading`).
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import struct
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

from tidemill.common.moved import unpickle
from tidemill.common.types import Row, RowKind
from tidemill.errors import SerializationError
from tidemill.state.codecs.class_names import TRUSTED, Loading, class_name

__all__ = ["TaggedReader", "build_dataclass"]

_KINDS = tuple(RowKind)
_DOUBLE = struct.Struct("<d")
_COMPLEX = struct.Struct("<dd")
_DATE = struct.Struct("<I")
_DATETIME = struct.Struct("<IBBBIB")
_TIME = struct.Struct("<BBBIB")


class TaggedReader:
    """Decodes values, one at a time. Without ``pickles``, a pickled value is an error."""

    def __init__(self, loading: Loading = TRUSTED, *, pickles: bool = True) -> None:
        # --- configuration
        self._loading = loading
        self._pickles = pickles
        # --- transient
        self._data = b""
        self._at = 0

    def loads(self, data: bytes) -> Any:
        """The value in ``data``. Raises :class:`SerializationError` if it is not a value, or may not be read."""
        self._data, self._at = data, 0
        try:
            value = self._read()
        except SerializationError:
            raise
        except RecursionError as error:
            raise SerializationError("a stored value is nested too deeply to be read") from error
        except Exception as error:
            raise SerializationError(f"a stored value cannot be read at byte {self._at}: {error!r}") from error
        if self._at != len(data):
            raise SerializationError(f"a stored value ends at byte {self._at} of {len(data)}")
        return value

    def _read(self) -> Any:
        tag = self._take(1)
        reader = _READERS.get(tag)
        if reader is None:
            raise SerializationError(f"a stored value has the unknown tag {tag!r}; was it written by a newer version?")
        return reader(self)

    def _take(self, n: int) -> bytes:
        start = self._at
        end = start + n
        if end > len(self._data):
            raise SerializationError(f"a stored value ends early: {n} bytes at byte {start} of {len(self._data)}")
        self._at = end
        return self._data[start:end]

    def _count(self) -> int:
        n = shift = 0
        while True:
            byte = self._take(1)[0]
            n |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
        if n > len(self._data) - self._at:  # every counted item takes at least one byte
            raise SerializationError(f"a stored value ends early: it claims {n} items at byte {self._at}")
        return n

    def _block(self) -> bytes:
        return self._take(self._count())

    def _text(self) -> str:
        return self._block().decode("utf-8", "surrogatepass")

    def _int(self) -> int:
        return int.from_bytes(self._block(), "big", signed=True)

    def _items(self) -> list[Any]:
        return [self._read() for _ in range(self._count())]

    def _dict(self) -> dict[Any, Any]:
        return {self._read(): self._read() for _ in range(self._count())}

    def _zone(self) -> dt.tzinfo | None:
        form = self._take(1)
        if form == b"\x00":
            return None
        if form == b"\x01":
            offset, name = dt.timedelta(microseconds=self._int()), self._read()
            return dt.timezone(offset) if name is None else dt.timezone(offset, name)
        return ZoneInfo(self._text())

    def _datetime(self) -> dt.datetime:
        ordinal, hour, minute, second, micro, fold = _DATETIME.unpack(self._take(_DATETIME.size))
        time = dt.time(hour, minute, second, micro, self._zone(), fold=fold)
        return dt.datetime.combine(dt.date.fromordinal(ordinal), time)

    def _time(self) -> dt.time:
        hour, minute, second, micro, fold = _TIME.unpack(self._take(_TIME.size))
        return dt.time(hour, minute, second, micro, self._zone(), fold=fold)

    def _row(self) -> Row:
        kind, named = self._take(2)
        names: list[str] = []
        values = []
        for _ in range(self._count()):
            if named:
                names.append(self._text())
            values.append(self._read())
        row = Row.of_kind(_KINDS[kind], *values)
        if named:
            row.set_field_names(names)
        return row

    def _enum(self) -> Any:
        cls: Any = self._loading.find(self._text(), "enum")
        return cls[self._text()]

    def _flag(self) -> Any:
        cls: Any = self._loading.find(self._text(), "enum")
        return cls(self._read())

    def _nameless_tuple(self) -> Any:
        """A NamedTuple as earlier versions stored it, without the names of its fields."""
        cls: Any = self._loading.find(self._text(), "named_tuple")
        items = self._items()
        self._loading.check_fields(cls, len(items))
        return cls._make(items)

    def _named_tuple(self) -> Any:
        cls = self._loading.find(self._text(), "named_tuple")
        values = self._fields()
        self._loading.check_fields(cls, tuple(values))
        return build_named_tuple(cls, values)

    def _dataclass(self) -> Any:
        cls = self._loading.find(self._text(), "dataclass")
        values = self._fields()
        self._loading.check_fields(cls, tuple(values))
        return build_dataclass(cls, values)

    def _fields(self) -> dict[str, Any]:
        return {self._text(): self._read() for _ in range(self._count())}

    def _pickle(self) -> Any:
        data = self._block()
        if not self._loading.allow_pickle:
            raise SerializationError("a stored value is pickled, and may not be unpickled (allow_pickle=False)")
        if not self._pickles:
            raise SerializationError("a stored value is pickled, but its column is declared to contain no pickles")
        return unpickle(data)


# Forms that contain classes are called on the instance, because subclasses may read them without the classes.
_READERS: dict[bytes, Callable[[TaggedReader], Any]] = {
    b"N": lambda r: None,
    b"T": lambda r: True,
    b"F": lambda r: False,
    b"i": TaggedReader._int,
    b"f": lambda r: _DOUBLE.unpack(r._take(8))[0],
    b"c": lambda r: complex(*_COMPLEX.unpack(r._take(16))),
    b"s": TaggedReader._text,
    b"b": TaggedReader._block,
    b"a": lambda r: bytearray(r._block()),
    b"t": lambda r: tuple(r._items()),
    b"l": TaggedReader._items,
    b"d": TaggedReader._dict,
    b"S": lambda r: set(r._items()),
    b"Z": lambda r: frozenset(r._items()),
    b"D": lambda r: Decimal(r._text()),
    b"U": lambda r: UUID(bytes=r._take(16)),
    b"y": lambda r: dt.date.fromordinal(_DATE.unpack(r._take(4))[0]),
    b"p": lambda r: dt.timedelta(microseconds=r._int()),
    b"m": TaggedReader._datetime,
    b"h": TaggedReader._time,
    b"R": TaggedReader._row,
    b"E": lambda r: r._enum(),
    b"G": lambda r: r._flag(),
    b"M": lambda r: r._nameless_tuple(),
    b"n": lambda r: r._named_tuple(),
    b"C": lambda r: r._dataclass(),
    b"P": lambda r: r._pickle(),
}


def build_named_tuple(cls: Any, values: Mapping[str, Any]) -> Any:
    """An instance of ``cls`` with these fields.

    Stored fields that the class no longer has are dropped; new ones get their default.
    """
    defaults = cls._field_defaults
    unknown = [name for name in cls._fields if name not in values and name not in defaults]
    if unknown:
        raise SerializationError(f"stored values of {class_name(cls)} have no field '{unknown[0]}'")
    return cls._make(values[name] if name in values else defaults[name] for name in cls._fields)


def build_dataclass(cls: type, values: Mapping[str, Any]) -> Any:
    """An instance of ``cls`` with these fields, created without ``__init__`` and ``__post_init__``, like unpickling.

    Stored fields that the class no longer has are dropped; new ones get their default, see :func:`missing_default`.
    """
    instance: Any = object.__new__(cls)
    for field in dataclasses.fields(cls):
        value = values[field.name] if field.name in values else missing_default(cls, field)
        object.__setattr__(instance, field.name, value)
    return instance


def missing_default(cls: type, field: dataclasses.Field[Any]) -> Any:
    """The value of a field that was added to the class; raises :class:`SerializationError` if it has no default."""
    if field.default is not dataclasses.MISSING:
        return field.default
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    raise SerializationError(
        f"stored values of {class_name(cls)} have no field '{field.name}'; give it a default to read them"
    )
