"""Looks up names of programs in Tidemill's modules: what exists, what a call returns, which arguments it takes."""

from __future__ import annotations

import importlib
import inspect
import re
import types
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

__all__ = [
    "Absent",
    "Known",
    "annotated",
    "is_ours",
    "member",
    "module_member",
    "parameter",
    "refused_arguments",
    "returned",
]

#: The packages whose classes annotations may refer to by name alone.
_COMMON: Final = ("tidemill.datastream", "tidemill.common", "tidemill.datastream.window", "tidemill.datastream.state")


@dataclass(frozen=True)
class Known:
    """A value of a program that is known: a module, class or function of Tidemill, or an ``instance`` of a class.

    ``owner`` is the class whose member a function is. ``bound``: a call of the function passes ``self``.
    """

    what: Any
    instance: bool = False
    owner: type | None = None
    bound: bool = False

    @property
    def names(self) -> frozenset[str]:
        """The names by which tables refer to it: ``Class``, or ``Class.method`` for each class that inherits it.

        A class in another has its qualified name, too: ``ProcessFunction.Context``.
        """
        if self.owner is not None:
            name = getattr(self.what, "__name__", "")
            bases = self.owner.__mro__
            return frozenset(f"{base}.{name}" for one in bases for base in (one.__name__, one.__qualname__))
        if isinstance(self.what, type) and not self.instance:
            return frozenset({self.what.__name__, self.what.__qualname__})
        return frozenset()


@dataclass(frozen=True)
class Absent:
    """A name that does not exist in Tidemill. ``package`` is a package that must be installed to know."""

    package: str | None = None


def is_ours(value: Any) -> bool:
    """Whether an object belongs to Tidemill."""
    name = value.__name__ if isinstance(value, types.ModuleType) else getattr(value, "__module__", None)
    return isinstance(name, str) and name.partition(".")[0] == "tidemill"


@cache
def module_member(module: str, name: str | None) -> Known | Absent:
    """A module, or a name in it. A module that cannot be imported without another package is not absent."""
    try:
        found = importlib.import_module(module)
        if name is None:
            return Known(found)
        if not hasattr(found, name) and hasattr(found, "__path__"):
            return Known(importlib.import_module(f"{module}.{name}"))
    except ModuleNotFoundError as error:
        ours = error.name is None or error.name.partition(".")[0] == "tidemill"
        return Absent(None if ours else error.name)
    return Known(getattr(found, name)) if hasattr(found, name) else Absent()


def member(value: Known, name: str) -> Known | Absent | None:
    """A member of a value, or None if it is not known whether there is one."""
    what = value.what
    if isinstance(what, types.ModuleType):
        return module_member(what.__name__, name)
    if not isinstance(what, type):
        return None
    try:
        static = inspect.getattr_static(what, name)
    except AttributeError:
        if _has_others(what, instance=value.instance) or name in _set_by_init(what):
            return None
        # An annotation names a base class: `get_state_backend()` returns a StateBackend, which may be any of them.
        return None if value.instance and any(hasattr(one, name) for one in _subclasses(what)) else Absent()
    if isinstance(static, property):
        return _instance_of(static.fget, what) if value.instance else None
    if isinstance(static, types.FunctionType):
        return Known(static, owner=what, bound=value.instance)
    found = getattr(what, name)
    if isinstance(static, staticmethod | classmethod):
        return Known(found, owner=what)
    return Known(found) if isinstance(found, type) else None


def returned(function: Known) -> Known | None:
    """What a call of a class or function returns, by its annotation."""
    what = function.what
    if isinstance(what, type):
        return Known(what, instance=True) if is_ours(what) else None
    return _instance_of(what, function.owner)


def parameter(function: Known, position: int) -> Known | None:
    """The type of a parameter, by its annotation. Position 0 is ``self``."""
    parameters = list(inspect.signature(function.what).parameters.values())
    if position >= len(parameters):
        return None
    return annotated(parameters[position].annotation, function.what, function.owner)


def refused_arguments(function: Known, positions: int, names: list[str]) -> str | None:
    """Why a call with this number of arguments and with these names is refused, or None."""
    what = function.what
    if isinstance(what, type) and not is_ours(what):
        return None
    try:
        signature = inspect.signature(what)
    except (TypeError, ValueError):
        return None
    given: list[None] = [None] * (positions + function.bound)
    try:
        signature.bind(*given, **dict.fromkeys(names))
    except TypeError as error:
        return str(error)
    return None


def annotated(annotation: Any, function: Any, owner: type | None) -> Known | None:
    """The class that an annotation names, if it is one class of Tidemill."""
    if isinstance(annotation, type):
        return Known(annotation, instance=True) if is_ours(annotation) else None
    if not isinstance(annotation, str):
        return None
    names = [part.strip() for part in re.sub(r"\[.*\]", "", annotation).split("|")]
    names = [name for name in names if name != "None"]
    if len(names) != 1:
        return None
    if names[0] == "Self":
        return None if owner is None else Known(owner, instance=True)
    found = _class_named(names[0], getattr(inspect.unwrap(function), "__module__", ""))
    return None if found is None else Known(found, instance=True)


def _instance_of(function: Any, owner: type | None) -> Known | None:
    annotations = getattr(inspect.unwrap(function), "__annotations__", {})
    return annotated(annotations.get("return"), function, owner)


@cache
def _class_named(name: str, module: str) -> type | None:
    """A class by the name that an annotation has for it, also one that the module imports for its types alone."""
    first, *rest = name.split(".")
    for place in (module, *_COMMON):
        if not place.startswith("tidemill"):
            continue
        found = getattr(importlib.import_module(place), first, None)
        for part in rest:
            found = getattr(found, part, None)
        if isinstance(found, type) and is_ours(found):
            return found
    return None


def _subclasses(what: type) -> Iterator[type]:
    found: list[type] = what.__subclasses__()
    for one in found:
        yield one
        yield from _subclasses(one)


def _has_others(what: type, *, instance: bool) -> bool:
    """Whether a class can have members that are not in its definition."""
    if not instance:
        return type(what) is not type and hasattr(type(what), "__getattr__")
    method = getattr(what, "__getattr__", None)
    return method is not None and method.__annotations__.get("return") != "NoReturn"


@cache
def _set_by_init(what: type) -> frozenset[str]:
    """The attributes that a class declares, or that its methods set."""
    found: set[str] = set()
    for base in what.__mro__:
        if is_ours(base):
            found.update(getattr(base, "__annotations__", {}), getattr(base, "__slots__", ()))
            for value in vars(base).values():
                if isinstance(value, types.FunctionType):
                    found.update(value.__code__.co_names)
    return frozenset(found)
