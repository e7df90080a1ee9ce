"""Stored values without the user's classes: for readers that have only the files.

No class that a file names is imported, and nothing is unpickled unless the caller allows it. An instance of a dataclass
becomes a :class:`PlainObject`, of a NamedTuple a :class:`PlainTuple`, an enum member a :class:`PlainMember`, a pickle a
:class:`PlainPickle`. They can be keys of a dict like the originals, and two of them are equal if the originals were (if
the class does not define its own equality).
"""

from __future__ import annotations

import base64
import dataclasses
import datetime as dt
import json
import math
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from enum import Enum, Flag
from fractions import Fraction
from typing import Any, Final
from uuid import UUID

from tidemill.common.moved import unpickle
from tidemill.common.time import Instant
from tidemill.common.type_kinds.python import class_name, is_named_tuple
from tidemill.common.types import Row
from tidemill.errors import SerializationError
from tidemill.state.codecs.base import ColumnCodec, restore_codec
from tidemill.state.codecs.class_names import Loading
from tidemill.state.codecs.fields import TupleCodec, restore_children
from tidemill.state.codecs.tagged import TaggedCodec
from tidemill.state.codecs.tagged_reader import TaggedReader
from tidemill.state.codecs.ttl import Stamped

__all__ = [
    "PlainMember",
    "PlainObject",
    "PlainPickle",
    "PlainTuple",
    "as_data",
    "as_plain",
    "holds_pickle",
    "json_text",
    "plain_loading",
    "read_plain",
]


@dataclasses.dataclass(frozen=True)
class PlainObject:
    """An instance of a dataclass: the class by name, and its fields."""

    class_name: str
    fields: tuple[tuple[str, Any], ...]


class PlainTuple(tuple[Any, ...]):  # noqa: SLOT001 - a tuple cannot have its own slots
    """An instance of a NamedTuple: a tuple that may have the names of its fields."""

    names: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class PlainMember:
    """A member of an enum by name; for a Flag, its bits."""

    class_name: str
    name: str | int


@dataclasses.dataclass(frozen=True)
class PlainPickle:
    """A pickle that was not unpickled. Two are equal if their bytes are."""

    data: bytes


class _PlainReader(TaggedReader):
    """Reads the tagged form without classes."""

    def _enum(self) -> Any:
        return PlainMember(self._text(), self._text())

    def _flag(self) -> Any:
        return PlainMember(self._text(), self._read())

    def _nameless_tuple(self) -> Any:
        self._text()
        return PlainTuple(self._items())

    def _named_tuple(self) -> Any:
        self._text()
        fields = self._fields()
        made = PlainTuple(fields.values())
        made.names = tuple(fields)
        return made

    def _dataclass(self) -> Any:
        return PlainObject(self._text(), tuple((self._text(), self._read()) for _ in range(self._count())))

    def _pickle(self) -> Any:
        data = self._block()
        return unpickle(data) if self._loading.allow_pickle else PlainPickle(data)


class _PickleFinder(_PlainReader):
    found = False

    def _pickle(self) -> Any:
        self.found = True
        return PlainPickle(self._block())


def holds_pickle(data: bytes) -> bool:
    """Whether a value in the tagged form contains a pickle. Raises like ``TaggedReader.loads``."""
    finder = _PickleFinder(Loading(allow_pickle=False))
    finder.loads(data)
    return finder.found


def read_plain(data: bytes) -> Any:
    """A value in the tagged form, without classes: nothing is imported or unpickled.

    Raises like ``TaggedReader.loads``.
    """
    return _PlainReader(Loading(allow_pickle=False)).loads(data)


class _PlainTagged(TaggedCodec):
    def __init__(self, loading: Loading) -> None:
        super().__init__(pickle=False, loading=loading)

    def decode(self, array: Any) -> list[Any]:
        loads = _PlainReader(self._loading).loads
        return [value if value is None else loads(value) for value in array.to_pylist()]


class _PlainFields(TupleCodec):
    """Structs of a user class; ``make`` receives the values of one instance."""

    def __init__(self, children: Sequence[ColumnCodec], make: Callable[[tuple[Any, ...]], Any]) -> None:
        super().__init__(children)
        self._make = make

    def _join(self, columns: list[list[Any]]) -> list[Any]:
        return [self._make(row) for row in zip(*columns, strict=True)]


class _PlainEnum(ColumnCodec):
    def __init__(self, name_of_class: str, stored: ColumnCodec) -> None:
        self._class_name = name_of_class
        self._stored = stored
        self.arrow_type = stored.arrow_type

    def _encode(self, values: list[Any], *, exact: bool) -> tuple[ColumnCodec, Any]:
        raise SerializationError("enum members can only be read without their class, not written")

    def decode(self, array: Any) -> list[Any]:
        return [name if name is None else PlainMember(self._class_name, name) for name in self._stored.decode(array)]


def _dataclass(spec: Mapping[str, Any], loading: Loading) -> ColumnCodec:
    owner, names = spec["class"], spec["names"]
    return _PlainFields(
        restore_children(spec, loading), lambda values: PlainObject(owner, tuple(zip(names, values, strict=True)))
    )


def _named_tuple(spec: Mapping[str, Any], loading: Loading) -> ColumnCodec:
    names = tuple(spec["names"])

    def make(values: tuple[Any, ...]) -> PlainTuple:
        made = PlainTuple(values)
        made.names = names
        return made

    return _PlainFields(restore_children(spec, loading), make)


_CODECS: Final[dict[str, Callable[[Mapping[str, Any], Loading], ColumnCodec]]] = {
    "tagged": lambda spec, loading: _PlainTagged(loading),
    "any": lambda spec, loading: _PlainTagged(loading),
    "dataclass": _dataclass,
    "named_tuple": _named_tuple,
    "enum": lambda spec, loading: _PlainEnum(spec["class"], restore_codec(spec["stored"], loading)),
}


def plain_loading(*, allow_pickle: bool) -> Loading:
    """The settings for reading values without classes."""
    return Loading(allow_pickle, codecs=_CODECS)


def as_plain(value: Any) -> Any:
    """Convert a caller's key to the form in which it is read here."""
    kind = type(value)
    if isinstance(value, Enum):
        return PlainMember(class_name(kind), value.value if isinstance(value, Flag) else value.name)
    if dataclasses.is_dataclass(value) and not isinstance(value, (Instant, PlainObject, PlainMember, PlainPickle)):
        fields = [(f.name, as_plain(getattr(value, f.name))) for f in dataclasses.fields(value)]
        return PlainObject(class_name(kind), tuple(fields))
    if kind is tuple or is_named_tuple(kind):
        return tuple([as_plain(element) for element in value])
    return value


def as_data(value: Any) -> Any:
    """A value as Python data: dicts for objects, names for enum members.

    Raises :class:`SerializationError` for a pickle: it cannot be shown without running it.
    """
    if isinstance(value, PlainPickle):
        raise SerializationError(
            "a stored value is pickled, and unpickling can run arbitrary code. If you trust the author of the "
            "file, read it with allow_pickle=True"
        )
    if isinstance(value, Stamped):
        return as_data(value.value)
    if isinstance(value, PlainMember):
        return value.name
    if isinstance(value, PlainObject):
        return {name: as_data(item) for name, item in value.fields}
    if isinstance(value, PlainTuple) and value.names:
        return {name: as_data(item) for name, item in zip(value.names, value, strict=True)}
    kind = type(value)
    if kind in (list, tuple, set, frozenset) or kind is PlainTuple:
        made = [as_data(element) for element in value]
        return tuple(made) if kind in (tuple, PlainTuple) else kind(made)
    if kind is dict:
        return {as_data(key): as_data(item) for key, item in value.items()}
    if kind is Row:
        row = Row.of_kind(value.get_row_kind(), *[as_data(element) for element in value])
        if value.get_field_names() is not None:
            row.set_field_names(value.get_field_names())
        return row
    return value


def json_text(value: Any) -> str | None:
    """A value as JSON text, for columns of mixed types; None as None. Never fails, and runs no code from the file."""
    return None if value is None else json.dumps(_jsonable(value), ensure_ascii=False, separators=(", ", ": "))


def _jsonable(value: Any) -> Any:
    kind = type(value)
    if value is None or kind in (bool, int):
        return value
    simple = _SIMPLE.get(kind)
    if simple is not None:
        return simple(value)
    if isinstance(value, PlainObject):
        return {name: _jsonable(item) for name, item in value.fields}
    if isinstance(value, PlainMember):
        return value.name
    if kind is Row and value.get_field_names() is not None:
        return {name: _jsonable(item) for name, item in zip(value.get_field_names(), value, strict=True)}
    if isinstance(value, (list, tuple, set, frozenset, Row)):
        return [_jsonable(item) for item in value]
    if isinstance(value, dict):
        if all(type(key) is str for key in value):
            return {key: _jsonable(item) for key, item in value.items()}
        return [[_jsonable(key), _jsonable(item)] for key, item in value.items()]
    return repr(value)


def _encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


_SIMPLE: Final[dict[type, Callable[[Any], Any]]] = {
    str: lambda value: value.encode("utf-8", "backslashreplace").decode(),
    float: lambda value: value if math.isfinite(value) else str(value),
    bytes: lambda value: {"$bytes": _encoded(value)},
    bytearray: lambda value: {"$bytes": _encoded(value)},
    PlainPickle: lambda value: {"$pickle": _encoded(value.data)},
    dt.date: dt.date.isoformat,
    dt.datetime: dt.datetime.isoformat,
    dt.time: dt.time.isoformat,
    **dict.fromkeys((Decimal, UUID, Fraction, complex, dt.timedelta), str),
}
