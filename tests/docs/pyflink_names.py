"""What programs can import from PyFlink 1.12 to 2.3, and what is not here or differs.

`tests/fixtures/pyflink/names.json` has the names; `tools/pyflink_names.py` extracts them and describes their form. A
difference is named as here: `datastream.window.Time` for a name of a module, `common.time:Time.seconds` for a member of
a class, and `common.time:Time.seconds(seconds)` for one that does not take these arguments.
"""

from __future__ import annotations

import importlib
import inspect
import json
import re
from collections.abc import Iterator
from functools import cache, reduce
from pathlib import Path
from typing import Any, Final, NamedTuple

FOLDER: Final = Path(__file__).parents[1] / "fixtures" / "pyflink"
_FOUND: Final = json.loads((FOLDER / "names.json").read_text(encoding="utf-8"))
VERSIONS: Final[list[str]] = _FOUND["versions"]
#: By module, then by name: where it is defined, and in which versions it can be imported.
MODULES: Final[dict[str, dict[str, list[str]]]] = _FOUND["modules"]
#: By class, then by member: the versions of each signature.
CLASSES: Final[dict[str, dict[str, dict[str, str]]]] = _FOUND["classes"]
#: Members and parameters that are Java objects or return them.
JAVA: Final = re.compile(r"(^|\.)(get_java_\w+|j_\w+|java_\w+|(to|from)_(java|j)_\w+)$")
#: Methods that Python calls: only their existence matters. The others of this kind, such as those for pickling, do not.
OPERATORS: Final = frozenset(
    f"__{name}__"
    for name in (
        *("call", "contains", "delitem", "enter", "exit", "getitem", "iter", "len", "next", "setitem"),
        *("eq", "ge", "gt", "hash", "le", "lt"),
    )
)
_NEWEST: Final = VERSIONS[-1]


class Parameter(NamedTuple):
    """A parameter of a method of PyFlink. ``kind`` is empty, ``*``, ``**``, or ``keyword``."""

    name: str
    optional: bool
    kind: str


def expanded(ranges: str) -> list[str]:
    """The versions in ranges such as ``1.12-1.16 2.0``."""
    found: list[str] = []
    for part in ranges.split():
        first, _, last = part.partition("-")
        found += VERSIONS[VERSIONS.index(first) : VERSIONS.index(last or first) + 1]
    return found


@cache
def imported(module: str) -> Any:
    """Our module under this path of PyFlink, or None."""
    try:
        return importlib.import_module(f"tidemill.{module}")
    except ModuleNotFoundError as error:
        if not f"tidemill.{module}.".startswith(f"{error.name}."):
            raise
        return None


def absent_names(module: str) -> Iterator[str]:
    """The names of a module that cannot be imported from it here."""
    ours = imported(module)
    for name in MODULES[module]:
        if ours is None or not hasattr(ours, name):
            yield f"{module}.{name}"


def owner_of(cls: str) -> Any:
    """Our class under this name, or None."""
    module, _, name = cls.partition(":")
    return getattr(imported(module), name, None)


def differing_members(cls: str) -> Iterator[str]:
    """The members of a class that are not here, or cannot be called as in PyFlink. Nothing if the class is not here."""
    owner = owner_of(cls)
    if owner is None:
        return
    for member, signatures in CLASSES[cls].items():
        name = member.rpartition(".")[2]
        if JAVA.search(member) or (name.startswith("__") and name not in OPERATORS and name != "__init__"):
            continue
        newest = next((one for one, versions in signatures.items() if _NEWEST in expanded(versions)), None)
        for signature in signatures:
            if any(JAVA.search(one.name) and not one.optional for one in parameters_of(signature)):
                continue
            if not has(owner, member):
                yield f"{cls}.{member}"
                break
            if signature != "@" and name not in OPERATORS and not takes(found(owner, member), signature, newest):
                yield f"{cls}.{member}({signature})"


def has(owner: Any, member: str) -> bool:
    """Whether a class has a member, or sets it in its instances."""
    *path, name = member.split(".")
    cls = found(owner, ".".join(path)) if path else owner
    if cls is None:
        return False
    if name.startswith("__") and name != "__init__":
        return getattr(cls, name, None) not in (None, getattr(object, name, None))
    return hasattr(cls, name) or any(name in _set_by(base) for base in getattr(cls, "__mro__", ()))


def found(owner: Any, member: str) -> Any:
    """A member of a class, or None."""
    try:
        return reduce(getattr, member.split("."), owner)
    except AttributeError:
        return None


@cache
def _set_by(cls: type) -> frozenset[str]:
    try:
        source = inspect.getsource(cls)
    except (OSError, TypeError):
        source = ""
    return frozenset(inspect.get_annotations(cls)) | set(re.findall(r"self\.([a-z]\w*)\b.* = ", source))


def parameters_of(signature: str) -> list[Parameter]:
    """The parameters of a signature as the fixture has it."""
    found, keyword = [], False
    for text in "" if signature == "@" else signature.split():
        stars = text[: len(text) - len(text.lstrip("*"))]
        if stars == "*" or keyword:
            kind = stars or "keyword"
            keyword = True
        else:
            kind = stars
        name = text.lstrip("*")
        if name:
            found.append(Parameter(name.rstrip("="), name.endswith("="), kind))
    return found


def takes(method: Any, signature: str, newest: str | None = None) -> bool:
    """Whether a method can be called with these arguments, by position and by name.

    Where the newest version of PyFlink has another name for a parameter, the old one is not needed.
    """
    if not callable(method):
        return True
    try:
        ours = [one for one in inspect.signature(method).parameters.values() if one.name not in ("self", "cls")]
    except ValueError:
        return True
    theirs = [one for one in parameters_of(signature) if not JAVA.search(one.name)]
    renamed = [one.name for one in parameters_of(newest or "@")]
    kinds = {one.kind for one in ours}
    rest, any_name = inspect.Parameter.VAR_POSITIONAL in kinds, inspect.Parameter.VAR_KEYWORD in kinds
    places = [one for one in ours if one.kind in (one.POSITIONAL_OR_KEYWORD, one.POSITIONAL_ONLY)]
    names = {one.name for one in ours if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)}
    used = {one.name for one in theirs if one.kind == "keyword"}
    for position, one in enumerate(each for each in theirs if not each.kind):
        if position >= len(places):
            if not rest and one.name not in names:
                return False
            continue
        there = places[position]
        used.add(there.name)
        is_renamed = position < len(renamed) and renamed[position] != one.name
        if there.name != one.name and not (is_renamed or any_name or rest):
            return False
        if one.optional and there.default is there.empty:
            return False
    for kind, fits in (("*", rest), ("**", any_name)):
        if not fits and any(one.kind == kind for one in theirs):
            return False
    if not any_name and not {one.name for one in theirs if one.kind == "keyword"} <= names:
        return False
    needed = {one.name for one in ours if one.name in names and one.default is one.empty}
    return needed <= used or any(one.kind == "*" for one in theirs)


@cache
def differences(module: str) -> tuple[str, ...]:
    """Everything of a module that is not here or differs."""
    classes = [cls for cls in CLASSES if cls.partition(":")[0] == module]
    return (*absent_names(module), *(member for cls in classes for member in differing_members(cls)))


if __name__ == "__main__":
    for each in MODULES:
        for difference in differences(each):
            print(difference)
