"""Detects functions that keep no reference to their result, so that only the caller refers to it.

Such a function uses nothing but its arguments, constants, attributes of built-in types, and other functions of this
kind: most lambdas, and functions that build a record from parts of another one. Its result is new, or a part of its
argument. This is determined from the code, once per operator. The results of all other functions are checked while they
run (:mod:`tidemill.runtime.batch.emitted`).
"""

from __future__ import annotations

import builtins
import datetime as dt
import decimal
import dis
import inspect
import json
import math
import re
import types
from collections.abc import Iterator
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, Final

from tidemill.common.types import Row
from tidemill.state.codecs.copies import ATOMIC

_GENERATES: Final = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
_CALLS: Final = frozenset(
    {
        *(abs, all, any, bool, bytes, chr, complex, dict, divmod, enumerate, float, format, frozenset, hash, int),
        *(isinstance, len, list, max, min, ord, pow, range, repr, reversed, round, set, sorted, str, sum, tuple, zip),
        *(dt.date, dt.datetime, dt.time, dt.timedelta, decimal.Decimal, Row),
        *(json.loads, json.dumps, json.load, json.dump, re.match, re.search, re.sub, re.split, re.findall),
    }
)
_MODULES: Final = frozenset({dt, decimal, json, math, re})
#: Attributes of built-in types and modules. Attributes of other objects may be those of a class, which objects share.
_ATTRIBUTES: Final = frozenset(
    name
    for owner in (str, bytes, int, float, list, dict, tuple, decimal.Decimal, dt.datetime, dt.timedelta, *_MODULES)
    for name in dir(owner)
    if not name.startswith("_")
) | {"as_dict"}
#: Instructions that access something outside the function, in addition to those that load a global or a cell.
_REACHING: Final = frozenset(
    {
        *("STORE_GLOBAL", "DELETE_GLOBAL", "LOAD_NAME", "STORE_NAME", "DELETE_NAME", "IMPORT_NAME", "IMPORT_FROM"),
        *("LOAD_BUILD_CLASS", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF", "LOAD_FROM_DICT_OR_GLOBALS", "LOAD_LOCALS"),
    }
)


def keeps_nothing(function: Any) -> bool:
    """Whether a function cannot keep a reference to what it returns.

    >>> keeps_nothing(lambda value: {"n": value[0] + 1}), keeps_nothing(str)
    (True, True)
    >>> seen = []
    >>> keeps_nothing(lambda value: seen)
    False
    """
    return _keeps_nothing(function, set())


def _keeps_nothing(function: Any, known: set[Any]) -> bool:
    if isinstance(function, types.MethodType):
        return _ignores_self(function.__func__) and _keeps_nothing(function.__func__, known)
    if not isinstance(function, types.FunctionType):
        return _is_harmless(function)
    if function in known:  # calls itself
        return True
    known.add(function)
    held = [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
    held += [cell.cell_contents for cell in function.__closure__ or () if not _is_empty(cell)]
    if function.__dict__ or not all(_is_fixed(value) for value in held):
        return False
    if function.__code__.co_flags & _GENERATES:
        return False
    return all(_stays_inside(code, function.__globals__, known) for code in _codes(function.__code__))


def _ignores_self(function: Any) -> bool:
    """Whether a method never uses ``self``."""
    if not isinstance(function, types.FunctionType) or not function.__code__.co_argcount:
        return False
    code, itself = function.__code__, function.__code__.co_varnames[0]
    if itself in code.co_cellvars:
        return False
    for instruction in dis.get_instructions(code):
        names = instruction.argval if isinstance(instruction.argval, tuple) else (instruction.argval,)
        if "LOAD_FAST" in instruction.opname and itself in names:
            return False
    return True


def _stays_inside(code: types.CodeType, names: dict[str, Any], known: set[Any]) -> bool:
    for instruction in dis.get_instructions(code):
        name = instruction.opname
        if name in _REACHING or (name in ("STORE_DEREF", "DELETE_DEREF") and instruction.argval in code.co_freevars):
            return False
        if name in ("LOAD_ATTR", "LOAD_METHOD") and instruction.argval not in _ATTRIBUTES:
            return False
        if name == "LOAD_GLOBAL":
            missing = object()
            found = names.get(instruction.argval, getattr(builtins, instruction.argval, missing))
            if found is missing or not (_is_fixed(found) or _keeps_nothing(found, known)):
                return False
    return True


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    """Return the code of a function and of the functions inside it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes(constant)


def _is_harmless(value: Any) -> bool:
    if isinstance(value, type) and issubclass(value, BaseException):
        return value.__module__ == "builtins"
    if isinstance(value, type) and is_dataclass(value) and type(value) is type:
        return _only_sets_fields(value)
    try:
        return value in _CALLS or value in _MODULES
    except TypeError:
        return False


def _only_sets_fields(kind: Any) -> bool:
    """Whether creating an instance of a dataclass runs no user code, and shares no objects between instances."""
    code = getattr(kind.__init__, "__code__", None)
    generated = code is not None and code.co_filename == "<string>" and kind.__new__ is object.__new__
    return (
        generated
        and not hasattr(kind, "__post_init__")
        and kind.__setattr__ in (object.__setattr__, vars(kind).get("__setattr__"))
        and all(
            # A class that was sent to a worker has its own copy of MISSING.
            (isinstance(field.default, type(MISSING)) or _is_fixed(field.default))
            and (isinstance(field.default_factory, type(MISSING)) or field.default_factory in (list, dict, set))
            for field in fields(kind)
        )
    )


def _is_fixed(value: Any) -> bool:
    return type(value) in ATOMIC or (type(value) in (tuple, frozenset) and all(_is_fixed(item) for item in value))


def _is_empty(cell: Any) -> bool:
    try:
        _ = cell.cell_contents
    except ValueError:
        return True
    return False
