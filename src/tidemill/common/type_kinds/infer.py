"""Infers type information from Python type hints."""

from __future__ import annotations

import dataclasses
import datetime as dt
import types
import typing
from collections.abc import Mapping
from decimal import Decimal
from enum import Enum
from typing import Any

from tidemill.common.time import Instant
from tidemill.common.type_kinds.base import TypeInformation
from tidemill.common.type_kinds.basic import (
    BasicType,
    BasicTypeInfo,
    DateTypeInfo,
    PickledBytesTypeInfo,
    TimestampTypeInfo,
    TimeTypeInfo,
)
from tidemill.common.type_kinds.composite import (
    ListTypeInfo,
    MapTypeInfo,
    OptionalTypeInfo,
    PrimitiveArrayTypeInfo,
    TupleTypeInfo,
)
from tidemill.common.type_kinds.python import DataclassTypeInfo, EnumTypeInfo, NamedTupleTypeInfo, is_named_tuple
from tidemill.python_versions import NotRequired, Required

_PICKLED = PickledBytesTypeInfo()
_SIMPLE: dict[Any, TypeInformation] = {
    int: BasicTypeInfo(BasicType.LONG),
    str: BasicTypeInfo(BasicType.STRING),
    float: BasicTypeInfo(BasicType.DOUBLE),
    bool: BasicTypeInfo(BasicType.BOOLEAN),
    bytes: PrimitiveArrayTypeInfo(BasicTypeInfo(BasicType.BYTE)),
    Decimal: BasicTypeInfo(BasicType.BIG_DEC),
    Instant: BasicTypeInfo(BasicType.INSTANT),
    dt.date: DateTypeInfo(),
    dt.time: TimeTypeInfo(),
    dt.datetime: TimestampTypeInfo(),
}


def infer_type_from_hint(hint: Any) -> TypeInformation:
    """The type that a type hint describes, or pickled objects if no type matches.

    >>> infer_type_from_hint(tuple[str, list[int]])
    TupleTypeInfo(String, ListTypeInfo<Long>)
    >>> infer_type_from_hint(int | None)
    OptionalTypeInfo<Long>
    >>> infer_type_from_hint(set[int])
    PickledByteArrayTypeInfo
    """
    return _infer(hint, ())


def dataclass_fields(cls: Any) -> dict[str, TypeInformation]:
    """The fields of a dataclass with the types inferred from their hints."""
    return _dataclass_fields(cls, ())


def named_tuple_fields(cls: Any) -> dict[str, TypeInformation]:
    """The fields of a NamedTuple class with the types inferred from their hints."""
    return _named_tuple_fields(cls, ())


def _infer(hint: Any, outer: tuple[type, ...]) -> TypeInformation:
    """``outer`` are the classes whose fields are being inferred: a recursive field is pickled."""
    while True:  # remove wrappers that do not affect the value's type
        if isinstance(hint, typing.NewType):
            hint = hint.__supertype__
        elif typing.get_origin(hint) in (typing.Annotated, typing.Final, Required, NotRequired):
            hint = typing.get_args(hint)[0]
        else:
            break
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is not None:
        return _infer_generic(origin, args, outer)
    try:
        simple = _SIMPLE.get(hint)
    except TypeError:  # a hint that cannot be hashed
        return _PICKLED
    if simple is not None:
        return simple
    if not isinstance(hint, type) or hint in outer:
        return _PICKLED
    if issubclass(hint, Enum):
        return EnumTypeInfo(hint)
    if is_named_tuple(hint):
        return NamedTupleTypeInfo(hint, _named_tuple_fields(hint, outer))
    if dataclasses.is_dataclass(hint):
        return DataclassTypeInfo(hint, _dataclass_fields(hint, outer))
    return _PICKLED


def _infer_generic(origin: Any, args: tuple[Any, ...], outer: tuple[type, ...]) -> TypeInformation:
    if origin in (typing.Union, types.UnionType):
        others = [arg for arg in args if arg is not type(None)]
        if len(others) != 1:
            return _PICKLED
        inner = _infer(others[0], outer)
        return inner if inner.nullable else OptionalTypeInfo(inner)
    if origin is typing.Literal:
        kinds = {type(arg) for arg in args}
        return _infer(kinds.pop(), outer) if len(kinds) == 1 else _PICKLED
    if origin is tuple and args and Ellipsis not in args:
        return TupleTypeInfo([] if args == ((),) else [_infer(arg, outer) for arg in args])
    if origin is list and len(args) == 1:
        return ListTypeInfo(_infer(args[0], outer))
    if origin is dict and len(args) == 2:
        return MapTypeInfo(_infer(args[0], outer), _infer(args[1], outer))
    return _PICKLED


def _dataclass_fields(cls: Any, outer: tuple[type, ...]) -> dict[str, TypeInformation]:
    hints = _hints(cls)
    names = [field.name for field in dataclasses.fields(cls)] if dataclasses.is_dataclass(cls) else []
    return {name: _infer(hints.get(name, Any), (*outer, cls)) for name in names}


def _named_tuple_fields(cls: Any, outer: tuple[type, ...]) -> dict[str, TypeInformation]:
    hints = _hints(cls)
    return {name: _infer(hints.get(name, Any), (*outer, cls)) for name in getattr(cls, "_fields", ())}


def _hints(cls: Any) -> Mapping[str, Any]:
    try:
        return typing.get_type_hints(cls, include_extras=True)
    except Exception:  # a hint may be any expression; ignore hints that cannot be evaluated
        return {}
