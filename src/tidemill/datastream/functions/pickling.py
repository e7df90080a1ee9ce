"""Pickles user objects, and explains which part of an object cannot be pickled."""

from __future__ import annotations

import functools
import inspect
import io
import pickle
import types
from collections.abc import Callable, Iterator, Mapping
from enum import Enum, EnumMeta
from typing import Any, TypeVar

import cloudpickle

from tidemill.datastream.functions.user_line import find_user_line
from tidemill.errors import SerializationError

__all__ = ["copied", "find_culprit", "function_name", "given", "pickled_by_value", "to_bytes"]

_MAX_DEPTH = 20

T = TypeVar("T")


def pickled_by_value(value: Any) -> bytes:
    """Pickle ``value`` together with functions and classes that no other process can import: those of a main script.

    >>> pickle.loads(pickled_by_value(lambda number: number + 1))(1)
    2
    """
    buffer = io.BytesIO()
    _Pickler(buffer).dump(value)
    return buffer.getvalue()


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc] # cloudpickle has no types
    """Pickles enums with all their names.

    cloudpickle sends the members that iteration returns, and then sets other names as attributes of the new class. An
    alias, or a named combination of flags, is thus no member of it; where the class itself is found, in the process
    that defined it, setting the name fails.
    """

    def reducer_override(self, value: Any) -> Any:
        reduced = super().reducer_override(value)
        if not isinstance(value, EnumMeta) or not isinstance(reduced, tuple):
            return reduced
        make, (bases, name, qualname, _, *others), (attributes, slots), *setter = reduced
        named: Mapping[str, Enum] = value.__members__
        members = {each: member.value for each, member in named.items()}
        attributes = {each: found for each, found in attributes.items() if each not in members}
        return make, (bases, name, qualname, members, *others), (attributes, slots), *setter


def to_bytes(value: Any, part: str, function: Any, where: str) -> bytes:
    """Pickle ``value`` for the workers. ``part``, ``function`` and ``where`` describe it in error messages.

    Raises ``SerializationError`` with the location, the function and the smallest part of it that cannot be pickled.
    """
    try:
        return pickled_by_value(value)
    except Exception as error:
        raise SerializationError(_explain(error, part, function, where)) from error


def copied(value: T, part: str, where: str, kept: Callable[[Any], bool] = lambda inside: False) -> T:
    """Return a copy of ``value`` for use in this process. Later changes to ``value`` do not affect the copy.

    Functions are copied with their captured variables, as they are sent to the workers. Classes are not copied:
    unpickling a class of the main script by value would replace the program's methods by copies. Objects inside
    ``value`` for which ``kept`` returns true are not copied either.

    >>> numbers = []
    >>> taken = copied({"count": lambda: len(numbers)}, "example", "here")
    >>> numbers.append(1)
    >>> taken["count"]()
    0
    """
    buffer = io.BytesIO()
    pickler = _Keeping(buffer, kept)
    try:
        pickler.dump(value)
        loader = _Finding(io.BytesIO(buffer.getvalue()))
        loader.found = pickler.found
        copy: T = loader.load()
    except Exception as error:
        raise SerializationError(_explain(error, part, value, where)) from error
    return copy


def given(value: T, part: str, method: str) -> T:
    """Copy an argument that the user passed to ``method()``, for methods that do not create an operator yet."""
    return copied(value, part, f"{method}() ({find_user_line()})")


class _Keeping(_Pickler):
    """Pickles classes and other objects that must not be copied as indexes into ``found``."""

    def __init__(self, file: io.BytesIO, kept: Callable[[Any], bool]) -> None:
        super().__init__(file)
        self._kept = kept
        self.found: list[Any] = []

    def persistent_id(self, value: Any) -> int | None:
        if not isinstance(value, type) and not self._kept(value):
            return None
        self.found.append(value)
        return len(self.found) - 1


class _Finding(pickle.Unpickler):
    found: list[Any]

    def persistent_load(self, pid: Any) -> Any:
        return self.found[pid]


def find_culprit(value: Any, name: str) -> tuple[str, Any]:
    """Find the smallest part of a value that cannot be pickled. Returns its path, starting at ``name``, and the part.

    >>> import threading
    >>> class Client:
    ...     def __init__(self):
    ...         self.settings, self.lock = {}, threading.Lock()
    >>> path, part = find_culprit({"client": Client()}, "config")
    >>> path
    "config['client'].lock"
    """
    seen: set[int] = set()
    for _ in range(_MAX_DEPTH):
        seen.add(id(value))
        for step, part in _parts(value):
            if id(part) not in seen and not _can_pickle(part):
                name, value = name + step, part
                break
        else:
            break
    return name, value


def function_name(function: Any) -> str:
    """The name of a function or function object as it appears in the user's program."""
    name = getattr(function, "__qualname__", None) or type(function).__qualname__
    return str(name).replace("<locals>.", "")


def _explain(error: Exception, part: str, function: Any, where: str) -> str:
    name = function_name(function)
    path, culprit = find_culprit(function, name)
    cause = f"{type(error).__name__}: {error}"
    what = f"{part} {name} of {where} cannot be sent to the workers"
    if culprit is function:
        return f"{what}: {cause}. It must be picklable, with everything it refers to."
    return (
        f"{what}, because {path} is a {type(culprit).__module__}.{type(culprit).__qualname__} ({cause}). "
        "Connections, locks, files and the like belong to the worker: create them in open(), not in the program."
    )


def _can_pickle(value: Any) -> bool:
    try:
        pickled_by_value(value)
    except Exception:  # a user's __reduce__ may raise anything
        return False
    return True


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    """The objects that are pickled together with a value, each with its step in the path."""
    if isinstance(value, types.MethodType):
        yield "", value.__self__
        yield "", value.__func__
    elif isinstance(value, types.FunctionType):
        yield from _parts_of_function(value)
    elif isinstance(value, functools.partial):
        yield ".func", value.func
        yield ".args", value.args
        yield ".keywords", value.keywords
    elif isinstance(value, dict):
        for key, item in value.items():
            yield f"[{key!r}]", item
    elif isinstance(value, (list, tuple, set, frozenset)):
        for index, item in enumerate(value):
            yield f"[{index}]", item
    elif isinstance(value, type):
        yield from ((f".{name}", item) for name, item in vars(value).items() if not name.startswith("__"))
    else:
        yield from ((f".{name}", item) for name, item in getattr(value, "__dict__", {}).items())
        for slot in _slots(type(value)):
            if hasattr(value, slot):
                yield f".{slot}", getattr(value, slot)
        yield "", type(value)


def _parts_of_function(function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    variables = inspect.getclosurevars(function)
    for name, item in variables.nonlocals.items():
        yield f" -> captured variable {name!r}", item
    for name, item in variables.globals.items():
        yield f" -> global variable {name!r}", item
    for index, item in enumerate(function.__defaults__ or ()):
        yield f" -> default {index}", item
    yield from ((f".{name}", item) for name, item in function.__dict__.items())


def _slots(kind: type) -> Iterator[str]:
    for base in kind.__mro__:
        slots = base.__dict__.get("__slots__", ())
        yield from (slots,) if isinstance(slots, str) else slots
