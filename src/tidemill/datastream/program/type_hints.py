"""Determines the types of streams from declarations or from the annotations of functions."""

from __future__ import annotations

import collections.abc
import inspect
import typing
from typing import Any

from tidemill.common.typeinfo import PickledBytesTypeInfo, TypeInformation, infer_type_from_hint
from tidemill.datastream.functions.state_descriptors import TypeSpec, resolve_type

_ITERABLES = frozenset(
    {
        list,
        collections.abc.Iterable,
        collections.abc.Iterator,
        collections.abc.Generator,
        collections.abc.Sequence,
        collections.abc.Collection,
    }
)


def output_type(declared: TypeSpec, function: Any, method: str | None, *, many: bool = False) -> TypeInformation | None:
    """The type of the records that a function emits: the declared type, else its return annotation, else None.

    ``method`` is the method of a function object that is called for each record. ``many`` indicates that it returns an
    iterable of records. An annotation is ignored if no type other than pickled objects matches it.
    """
    if declared is not None:
        return resolve_type(declared)
    target = getattr(function, method, function) if method is not None else function
    hint = _return_hint(target)
    if hint is None:
        return None
    if many:
        hint = _element_hint(hint)
    if hint in (None, Any, object):
        return None
    inferred = infer_type_from_hint(hint)
    return None if isinstance(inferred, PickledBytesTypeInfo) else inferred


def common_output_type(declared: TypeSpec, function: Any, *methods: str, many: bool = False) -> TypeInformation | None:
    """Like :func:`output_type` for a function with several methods. Returns None if their types differ."""
    if declared is not None:
        return resolve_type(declared)
    types = [output_type(None, function, method, many=many) for method in methods]
    return types[0] if all(found == types[0] for found in types) else None


def _return_hint(target: Any) -> Any:
    """The evaluated return annotation of a callable, or None if there is none or it cannot be evaluated."""
    if not (inspect.isfunction(target) or inspect.ismethod(target)):
        if inspect.isclass(target) or not hasattr(type(target), "__call__"):  # noqa: B004 - the bound method is wanted
            return None
        target = target.__call__
    if getattr(target, "__module__", "").startswith("tidemill.datastream."):
        return None  # the annotation of the abstract method does not describe the user's function
    try:
        return typing.get_type_hints(target).get("return")
    except Exception:  # an annotation may be any expression; ignore one that cannot be evaluated
        return None


def _element_hint(hint: Any) -> Any:
    """The element type of an iterable: ``int`` for ``Iterator[int]``, also inside ``... | None``."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is None:
        return None
    if origin not in _ITERABLES:
        others = [argument for argument in arguments if argument is not type(None)]
        return _element_hint(others[0]) if len(others) == 1 and len(arguments) == 2 else None
    return arguments[0] if arguments else None
