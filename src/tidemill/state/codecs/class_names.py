"""Classes by name, for values of user classes in state files: ``module:qualname`` and back.

A file may name any class, and importing a module runs code. So a name is looked up first among the classes passed by
the caller (those of the declared types), then among the registered ones, then in modules that are already loaded. A
module is imported only if the caller trusts the file. The class must be of the kind that the file specifies: a
dataclass, a NamedTuple or an Enum, nothing that could do harm when called.
"""

from __future__ import annotations

import dataclasses
import importlib
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache
from typing import Any

from tidemill.common.moved import current_module
from tidemill.common.type_kinds.python import class_name, is_named_tuple
from tidemill.errors import SerializationError

__all__ = [
    "TRUSTED",
    "Loading",
    "class_name",
    "is_findable",
    "is_plain_dataclass",
    "register_class",
    "replaced_fields",
]

_REGISTERED: dict[str, type] = {}
_HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE: created by a class statement, not in C


@dataclass(frozen=True)
class Loading:
    """What reading a file may do.

    Without ``allow_pickle`` no code from the file runs: nothing is unpickled and nothing is imported. ``classes`` are
    available by name in any case. ``codecs`` replace the default ones, by name, for readers that need values in another
    form. ``keys``: the values are keys, whose classes must have the fields that they were stored with. A key with an
    additional field has another hash, so it would not be found where it is stored; with a missing field, two keys may
    become one.
    """

    allow_pickle: bool = True
    classes: Mapping[str, type] = field(default_factory=dict)
    codecs: Mapping[str, Callable[[Mapping[str, Any], Loading], Any]] = field(default_factory=dict)
    keys: bool = False

    def find(self, name: str, kind: str) -> type:
        """The class with this name; ``kind`` is "dataclass", "named_tuple" or "enum"."""
        found = self.classes.get(name) or _REGISTERED.get(name) or _lookup(name, may_import=self.allow_pickle)
        if found is None:
            raise SerializationError(
                f"the class {name} of a stored value cannot be found. {_how_to_find(name)}"
                + ("" if self.allow_pickle else "; its module is not imported, because the file is not trusted")
            )
        if not _KINDS[kind](found):
            raise SerializationError(f"{name} of a stored value is not a {kind}")
        return found

    def check_fields(self, cls: Any, stored: Sequence[str] | int) -> None:
        """Raise :class:`SerializationError` if a value of ``cls`` that was stored with these fields cannot be read.

        Keys must have the same fields, or the same number if only that is known. Other values may have more or fewer.
        """
        if not self.keys:
            problem = None if isinstance(stored, int) else _replaced_in(cls, tuple(stored))
            if problem is not None:
                raise SerializationError(
                    f"values of class {class_name(cls)} cannot be read: {problem}, or declare the type of "
                    "the state, and register a migration with migrate_from(Types.PICKLED_BYTE_ARRAY(), ...)"
                )
            return
        names = _field_names(cls)
        if stored == len(names) if isinstance(stored, int) else list(stored) == names:
            return
        had = f"{stored} fields" if isinstance(stored, int) else f"the fields {list(stored)}"
        raise SerializationError(
            f"keys of class {class_name(cls)} are stored with {had}, but the class now has {names}: a key with other "
            "fields is a different key"
        )


def _how_to_find(name: str) -> str:
    """What to do about a class that is not where it was."""
    module, _, path = name.partition(":")
    if "<locals>" in path:
        return f"It was defined inside a function: define it at the top of the module {module}"
    top = path.partition(".")[0]
    return (
        f"If it was moved or renamed, let {module} have it under that name too, as long as state with it exists: "
        f"'from new_module import {top}' or '{top} = NewName' in {module}"
    )


TRUSTED = Loading()


def replaced_fields(stored: Collection[str], fields: Collection[str]) -> str | None:
    """Why values with the fields ``stored`` cannot get ``fields``; None if they can.

    A renamed field looks like one that was removed and another that was added: its values would be lost.
    """
    gone = [name for name in stored if name not in fields]
    new = [name for name in fields if name not in stored]
    if not gone or not new:
        return None
    return (
        f"the stored fields {', '.join(map(repr, gone))} no longer exist, while {', '.join(map(repr, new))} are new. "
        "The values of renamed fields would be lost: keep the old fields beside the new ones"
    )


@lru_cache(maxsize=4096)  # asked for each value of a tagged column
def _replaced_in(cls: Any, stored: tuple[str, ...]) -> str | None:
    return replaced_fields(stored, _field_names(cls))


def _field_names(cls: Any) -> list[str]:
    return list(cls._fields) if is_named_tuple(cls) else [field.name for field in dataclasses.fields(cls)]


def register_class(cls: type) -> type:
    """Make ``cls`` available by name in this process although its module does not contain it.

    For classes of a script that was sent to a worker by value. Returns ``cls``, so it can be used as a decorator.
    """
    _REGISTERED[class_name(cls)] = cls
    return cls


def is_findable(cls: type) -> bool:
    """Whether the name of ``cls`` can be resolved to it."""
    name = class_name(cls)
    return _REGISTERED.get(name) is cls or _lookup(name, may_import=False) is cls


def is_plain_dataclass(cls: type) -> bool:
    """Whether instances of this dataclass consist of their fields alone: no C base class, no custom pickling."""
    return _is_plain_dataclass(cls)


@lru_cache(maxsize=4096)
def _is_plain_dataclass(cls: Any) -> bool:
    if _is_enum(cls) or not dataclasses.is_dataclass(cls):
        return False
    getstate: Any = getattr(cls, "__getstate__", None)
    return (
        cls.__reduce__ is object.__reduce__
        and cls.__reduce_ex__ is object.__reduce_ex__
        and (getstate is getattr(object, "__getstate__", None) or getstate.__module__ == "dataclasses")
        and all(base is object or base.__flags__ & _HEAP_TYPE for base in cls.__mro__)
    )


def _lookup(name: str, *, may_import: bool) -> type | None:
    stored_module, _, path = name.partition(":")
    module_name = current_module(stored_module)
    module = sys.modules.get(module_name)
    if module is None and may_import:
        try:
            module = importlib.import_module(module_name)
        except (ImportError, ValueError):
            return None
    found: Any = module
    for part in path.split("."):
        found = getattr(found, part, None)
    return found if isinstance(found, type) else None


def _is_enum(cls: type) -> bool:
    return issubclass(cls, Enum)


_KINDS: dict[str, Any] = {"dataclass": is_plain_dataclass, "named_tuple": is_named_tuple, "enum": _is_enum}
