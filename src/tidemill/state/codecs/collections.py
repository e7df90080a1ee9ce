"""Codecs of lists, dicts and enums."""

from __future__ import annotations

from array import array as primitive_array
from collections.abc import Mapping
from enum import Enum, Flag
from itertools import chain, pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from tidemill.errors import SerializationError
from tidemill.state.codecs.base import NONE, ColumnCodec, Loading, kinds_of, null_mask, put_nulls, refuse, restore_codec
from tidemill.state.codecs.basic import BigIntCodec, StringCodec
from tidemill.state.codecs.class_names import class_name
from tidemill.state.codecs.fields import TupleCodec
from tidemill.state.codecs.tagged import TaggedCodec

__all__ = ["EntriesCodec", "EnumCodec", "ListCodec", "MapCodec"]


class ListCodec(ColumnCodec):
    """large_list: lists; tuples and ``array.array`` are treated as lists."""

    name = "list"

    def __init__(self, element: ColumnCodec) -> None:
        self._element = element
        self.arrow_type = pa.large_list(element.arrow_type)

    def _encode(self, values: list[Any], *, exact: bool) -> tuple[ColumnCodec, Any]:
        kinds = kinds_of(values)
        if not kinds <= {list, NONE} and not all(issubclass(k, (list, tuple, primitive_array, NONE)) for k in kinds):
            refuse(values, "a list", lambda value: isinstance(value, (list, tuple, primitive_array)))
        nulls = NONE in kinds
        rows = [value or () for value in values] if nulls else values
        element, array = self._element._encode(list(chain.from_iterable(rows)), exact=exact)
        codec = self if element is self._element else ListCodec(element)
        mask = null_mask(values) if nulls else None
        return codec, pa.LargeListArray.from_arrays(_offsets(rows, np.int64), array, mask=mask)

    def decode(self, array: Any) -> list[Any]:
        if not len(array):
            return []
        bounds = array.offsets.to_pylist()
        first, last = bounds[0], bounds[-1]
        flat = self._element.decode(array.values.slice(first, last - first))
        values: list[Any] = [flat[a - first : b - first] for a, b in pairwise(bounds)]
        return put_nulls(values, array)

    def _parameters(self) -> dict[str, Any]:
        return {"element": self._element.spec()}

    def classes(self) -> dict[str, type]:
        return self._element.classes()

    @classmethod
    def _restore(cls, spec: Mapping[str, Any], loading: Loading) -> ColumnCodec:
        return cls(restore_codec(spec["element"], loading))


class MapCodec(ColumnCodec):
    """map: dicts. Arrow maps cannot have null keys: a batch with a None key becomes an :class:`EntriesCodec` column."""

    name = "map"

    def __init__(self, key: ColumnCodec, value: ColumnCodec) -> None:
        self._key = key
        self._value = value
        self.arrow_type = pa.map_(key.arrow_type, value.arrow_type)

    def _encode(self, values: list[Any], *, exact: bool) -> tuple[ColumnCodec, Any]:
        if not all(issubclass(kind, (dict, NONE)) for kind in kinds_of(values)):
            refuse(values, "a dict", lambda value: isinstance(value, dict))
        rows = [value or {} for value in values]
        keys = list(chain.from_iterable(rows))
        if NONE in kinds_of(keys):
            if exact:
                raise SerializationError("a dict with the key None cannot be stored in a map column")
            return EntriesCodec(self._key, self._value)._encode(values, exact=False)
        key, key_array = self._key._encode(keys, exact=exact)
        if key_array.type == pa.null():  # there are no keys, so their type is unknown
            return EntriesCodec(self._key, self._value)._encode(values, exact=False)
        items = list(chain.from_iterable(row.values() for row in rows))
        value, value_array = self._value._encode(items, exact=exact)
        codec = self if key is self._key and value is self._value else MapCodec(key, value)
        offsets = pa.array(_offsets(rows, np.int32), mask=np.array([*map(_is_none, values), False]))
        return codec, pa.MapArray.from_arrays(offsets, key_array, value_array)

    def decode(self, array: Any) -> list[Any]:
        if not len(array):
            return []
        bounds = array.offsets.to_pylist()
        first, last = bounds[0], bounds[-1]
        keys = self._key.decode(array.keys.slice(first, last - first))
        items = self._value.decode(array.items.slice(first, last - first))
        values: list[Any] = [
            dict(zip(keys[a - first : b - first], items[a - first : b - first], strict=True))
            for a, b in pairwise(bounds)
        ]
        return put_nulls(values, array)

    def _parameters(self) -> dict[str, Any]:
        return {"key": self._key.spec(), "value": self._value.spec()}

    def classes(self) -> dict[str, type]:
        return {**self._key.classes(), **self._value.classes()}

    @classmethod
    def _restore(cls, spec: Mapping[str, Any], loading: Loading) -> ColumnCodec:
        return cls(restore_codec(spec["key"], loading), restore_codec(spec["value"], loading))


class EntriesCodec(ColumnCodec):
    """large_list of struct: dicts as lists of (key, value), for keys that may be None."""

    name = "entries"

    def __init__(self, key: ColumnCodec, value: ColumnCodec) -> None:
        self._set(ListCodec(TupleCodec([key, value])))

    def _set(self, entries: ColumnCodec) -> None:
        self._entries = entries
        self.arrow_type = entries.arrow_type

    def _encode(self, values: list[Any], *, exact: bool) -> tuple[ColumnCodec, Any]:
        rows = [value if value is None else list(value.items()) for value in values]
        entries, array = self._entries._encode(rows, exact=exact)
        if entries is self._entries:
            return self, array
        codec = EntriesCodec.__new__(EntriesCodec)
        codec._set(entries)
        return codec, array

    def decode(self, array: Any) -> list[Any]:
        return [value if value is None else dict(value) for value in self._entries.decode(array)]

    def _parameters(self) -> dict[str, Any]:
        return {"entries": self._entries.spec()}

    def classes(self) -> dict[str, type]:
        return self._entries.classes()

    @classmethod
    def _restore(cls, spec: Mapping[str, Any], loading: Loading) -> ColumnCodec:
        codec = cls.__new__(cls)
        codec._set(restore_codec(spec["entries"], loading))
        return codec


class EnumCodec(ColumnCodec):
    """large_string: the names of the members of one enum; for a Flag, whose members combine, its bits as an int."""

    name = "enum"

    def __init__(self, cls: type[Enum], stored: ColumnCodec | None = None) -> None:
        self._cls: Any = cls
        self._stored = stored or (BigIntCodec() if issubclass(cls, Flag) else StringCodec())
        self.arrow_type = self._stored.arrow_type

    def _encode(self, values: list[Any], *, exact: bool) -> tuple[ColumnCodec, Any]:
        cls = self._cls
        if not kinds_of(values) <= {cls, NONE} and not all(value is None or isinstance(value, cls) for value in values):
            refuse(values, f"a member of {class_name(cls)}", lambda value: isinstance(value, cls))
        get = _flag_value if issubclass(cls, Flag) else _member_name
        try:
            stored, array = self._stored._encode([v if v is None else get(v) for v in values], exact=exact)
        except SerializationError:
            if exact:
                raise
            return TaggedCodec()._encode(values, exact=False)
        return (self if stored is self._stored else EnumCodec(cls, stored)), array

    def decode(self, array: Any) -> list[Any]:
        cls = self._cls
        stored = self._stored.decode(array)
        find: Any = cls if issubclass(cls, Flag) else cls.__members__.__getitem__
        try:
            members = {value: find(value) for value in set(stored) if value is not None}
        except (KeyError, ValueError) as error:
            raise SerializationError(f"{class_name(cls)} has no member {error}; was it removed or renamed?") from error
        return list(map(members.get, stored))

    def _parameters(self) -> dict[str, Any]:
        return {"class": class_name(self._cls), "stored": self._stored.spec()}

    def classes(self) -> dict[str, type]:
        return {class_name(self._cls): self._cls}

    @classmethod
    def _restore(cls, spec: Mapping[str, Any], loading: Loading) -> ColumnCodec:
        return cls(loading.find(spec["class"], "enum"), restore_codec(spec["stored"], loading))


def _offsets(rows: list[Any], kind: Any) -> Any:
    offsets = np.zeros(len(rows) + 1, kind)
    np.cumsum(np.fromiter(map(len, rows), kind, len(rows)), out=offsets[1:])
    return offsets


def _is_none(value: Any) -> bool:
    return value is None


def _flag_value(member: Any) -> Any:
    return member._value_


def _member_name(member: Any) -> Any:
    return member._name_
