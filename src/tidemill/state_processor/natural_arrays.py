"""Converts columns of state files to the Arrow types that a query expects: structs, lists, maps, text.

A column's codec determines its encoding; each codec has one natural type (docs/state-file-format.md lists them). No
column contains Python objects. If the sections of a state differ (values without a declared type, a class with a new
field), :func:`common_type` finds the type that can represent them all: structs get all fields, and types that have
nothing in common become JSON text.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import reduce
from typing import Any, Final

import numpy as np
import pyarrow as pa

from tidemill.errors import SerializationError
from tidemill.state.codecs.base import restore_codec
from tidemill.state.codecs.class_names import Loading
from tidemill.state.codecs.plain_values import json_text

__all__ = ["TEXT", "common_type", "natural_array", "natural_type", "without_times"]

#: JSON text, if there is no better type. Plain strings are ``large_string``, which distinguishes the two.
TEXT: Final = pa.string()

_Spec = Mapping[str, Any]

_LONG: Final = {"codec": "int64"}
_AS_IT_IS: Final = frozenset({"int64", "float64", "bool", "binary", "string", "date", "timestamp", "time", "null"})
_IN_TEXT: Final = frozenset({"tagged", "any", "bigint"})
_STRINGS: Final = frozenset({"wtf8", "decimal", "uuid"})
_STRUCTS: Final = frozenset({"tuple", "row", "named_tuple", "dataclass", "instant"})


def without_times(spec: _Spec, array: Any) -> tuple[_Spec, Any, Any]:
    """Split a column into its values and the times of their last access (None if it has none).

    Returns the description and the array of the values, and an array of int64, or of lists of int64 for lists.
    """
    if spec["codec"] == "ttl":
        values, times = array.flatten()
        return spec["value"], values, times
    if spec["codec"] == "list" and spec["element"]["codec"] == "ttl":
        values, times = _elements(array).flatten()
        return {**spec, "element": spec["element"]["value"]}, _list(array, values), _list(array, times)
    return spec, array, None


def common_type(types: Iterable[Any], *, widen: bool = False) -> Any:
    """The type that can represent values of all these types; null for none. ``widen``: integers may become floats."""
    return reduce(lambda a, b: _common(a, b, widen), types, pa.null())


# --- natural types


def natural_type(spec: _Spec, encoded: Any) -> Any:
    """The natural type for the codec of this description, which encodes values as Arrow type ``encoded``."""
    name = spec.get("codec", "")
    if name in _AS_IT_IS:
        return encoded
    if name in _IN_TEXT:
        return TEXT
    if name in _STRINGS:
        return pa.large_string()
    if name in _STRUCTS:
        fields = zip(encoded, _child_specs(spec), strict=True)
        return pa.struct([(field.name, natural_type(child, field.type)) for field, child in fields])
    if name == "list":
        return pa.large_list(natural_type(spec["element"], encoded.value_type))
    if name == "map":
        return pa.map_(natural_type(spec["key"], encoded.key_type), natural_type(spec["value"], encoded.item_type))
    if name == "entries":
        types = [natural_type(child, field.type) for child, field in zip(_pair(spec), encoded.value_type, strict=True)]
        return pa.large_list(_pair_type(*types))
    if name == "enum":
        return natural_type(spec["stored"], encoded)
    raise SerializationError(f"unknown column codec {name!r}; was it written by a later version?")


def _child_specs(spec: _Spec) -> list[_Spec]:
    if spec["codec"] == "instant":
        return [_LONG, _LONG]
    return [*spec["fields"], *([_LONG] if spec.get("kinds") else [])]


def _pair(spec: _Spec) -> list[_Spec]:
    """The descriptions of the keys and values of dicts that are stored as lists of pairs."""
    fields: list[_Spec] = spec["entries"]["element"]["fields"]
    return fields


# --- common types


def _common(a: Any, b: Any, widen: bool) -> Any:
    if a == b or b == pa.null():
        return a
    if a == pa.null():
        return b
    if pa.types.is_struct(a) and pa.types.is_struct(b):
        types = {field.name: field.type for field in a}
        for field in b:
            types[field.name] = _common(types.get(field.name, pa.null()), field.type, widen)
        return pa.struct(list(types.items()))
    if pa.types.is_map(a) and pa.types.is_map(b):
        return pa.map_(_common(a.key_type, b.key_type, widen), _common(a.item_type, b.item_type, widen))
    if _is_list(a) and _is_list(b):
        if pa.types.is_map(a) and _is_empty_dict(b):
            return a
        if pa.types.is_map(b) and _is_empty_dict(a):
            return b
        return pa.large_list(_common(_element_type(a), _element_type(b), widen))
    if widen and {a, b} == {pa.int64(), pa.float64()}:
        return pa.float64()
    return TEXT


def _is_list(kind: Any) -> bool:
    return bool(pa.types.is_large_list(kind) or pa.types.is_map(kind))


def _is_empty_dict(kind: Any) -> bool:
    """Whether this is the type of a column that contains only empty dicts of undeclared types."""
    return bool(kind == pa.large_list(_pair_type(pa.null(), pa.null())))


def _element_type(kind: Any) -> Any:
    return _pair_type(kind.key_type, kind.item_type) if pa.types.is_map(kind) else kind.value_type


def _pair_type(key: Any, value: Any) -> Any:
    return pa.struct([("key", key), ("value", value)])


# --- conversion; arrays may be slices


def natural_array(spec: _Spec, array: Any, target: Any, loading: Loading) -> Any:
    """An encoded array converted to ``target``: its natural type, or a common type of it and others."""
    name = spec["codec"]
    if name == "null":
        return pa.nulls(len(array), target)
    if name == "enum":
        return natural_array(spec["stored"], array, target, loading)
    if target == TEXT or name in _STRINGS:
        values = restore_codec(spec, loading).decode(array) if len(array) else []
        return pa.array(map(json_text if target == TEXT else _string, values), target)
    if name in _STRUCTS:
        return _convert_struct(spec, array, target, loading)
    if name == "list":
        return _list(array, natural_array(spec["element"], _elements(array), target.value_type, loading))
    if name == "entries":
        pairs = _elements(array)
        if pa.types.is_map(target):  # there are no pairs
            return pa.MapArray.from_arrays(
                _map_offsets(array), pa.nulls(0, target.key_type), pa.nulls(0, target.item_type)
            )
        return _list(array, _convert_pairs(_pair(spec), [pairs.field(0), pairs.field(1)], target.value_type, loading))
    if name == "map":
        return _convert_map(spec, array, target, loading)
    return array if array.type == target else array.cast(target)


def _string(value: Any) -> str | None:
    return None if value is None else str(value).encode("utf-8", "backslashreplace").decode()


def _convert_struct(spec: _Spec, array: Any, target: Any, loading: Loading) -> Any:
    specs = _child_specs(spec)
    children = []
    for field in target:
        at = array.type.get_field_index(field.name)
        if at < 0:
            children.append(pa.nulls(len(array), field.type))
        else:
            children.append(natural_array(specs[at], array.field(at), field.type, loading))
    mask = array.is_null() if array.null_count else None
    return pa.StructArray.from_arrays(children, fields=list(target), mask=mask)


def _convert_map(spec: _Spec, array: Any, target: Any, loading: Loading) -> Any:
    first, last = _bounds(array)
    specs = [spec["key"], spec["value"]]
    parts = [array.keys.slice(first, last - first), array.items.slice(first, last - first)]
    if pa.types.is_large_list(target):
        return _list(array, _convert_pairs(specs, parts, target.value_type, loading))
    keys = natural_array(specs[0], parts[0], target.key_type, loading)
    items = natural_array(specs[1], parts[1], target.item_type, loading)
    return pa.MapArray.from_arrays(_map_offsets(array), keys, items)


def _convert_pairs(specs: list[_Spec], parts: list[Any], target: Any, loading: Loading) -> Any:
    children = [
        natural_array(spec, part, field.type, loading) for spec, part, field in zip(specs, parts, target, strict=True)
    ]
    return pa.StructArray.from_arrays(children, fields=list(target))


def _bounds(array: Any) -> tuple[int, int]:
    return (array.offsets[0].as_py(), array.offsets[-1].as_py()) if len(array) else (0, 0)


def _offsets(array: Any) -> Any:
    """The offsets of a list or map array, from 0."""
    if not len(array):
        return np.zeros(1, np.int64)
    offsets = array.offsets.to_numpy()
    return offsets - offsets[0]


def _map_offsets(array: Any) -> Any:
    nulls = np.append(array.is_null().to_numpy(zero_copy_only=False), False)
    return pa.array(_offsets(array).astype(np.int32), mask=nulls)


def _elements(array: Any) -> Any:
    first, last = _bounds(array)
    return array.values.slice(first, last - first)


def _list(array: Any, elements: Any) -> Any:
    mask = array.is_null() if array.null_count else None
    return pa.LargeListArray.from_arrays(_offsets(array).astype(np.int64), elements, mask=mask)
