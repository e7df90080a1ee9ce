"""Turning what the user wrote into bytes, and naming the culprit where that fails."""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Iterator
from typing import Any

import cloudpickle

from tidemill.datastream.transformations import Transformation
from tidemill.errors import SerializationError
from tidemill.graph.topology import place

_MAX_DEPTH = 20


def to_bytes(value: Any, node: Transformation, part: str, function: Any) -> bytes:
    """``value`` pickled; ``part`` and ``function`` say in an error what of the operator it is.

    Raises ``SerializationError`` that names the operator, the user's line, the function and the smallest thing inside
    it that cannot be pickled.
    """
    try:
        data: bytes = cloudpickle.dumps(value)
    except Exception as error:
        raise SerializationError(_explain(error, node, part, function)) from error
    return data


def find_culprit(value: Any, name: str) -> tuple[str, Any]:
    """The smallest part of a value that cannot be pickled, as a path from ``name``, and the part itself.

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
    """A function, or function object, as the user knows it."""
    name = getattr(function, "__qualname__", None) or type(function).__qualname__
    return str(name).replace("<locals>.", "")


def _explain(error: Exception, node: Transformation, part: str, function: Any) -> str:
    name = function_name(function)
    path, culprit = find_culprit(function, name)
    cause = f"{type(error).__name__}: {error}"
    where = f"{part} {name} of {place(node)} cannot be sent to the workers"
    if culprit is function:
        return f"{where}: {cause}. It must be picklable, with everything it refers to."
    return (
        f"{where}, because {path} is a {type(culprit).__module__}.{type(culprit).__qualname__} ({cause}). "
        "Connections, locks, files and the like belong to the worker: create them in open(), not in the program."
    )


def _can_pickle(value: Any) -> bool:
    try:
        cloudpickle.dumps(value)
    except Exception:  # whatever a user's __reduce__ may raise
        return False
    return True


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    """What a value refers to that is pickled with it, with the step that leads there."""
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
