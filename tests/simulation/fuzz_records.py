"""The records of fuzzed programs: a key, a number and a note, in a tuple, list, dict or Row."""

from __future__ import annotations

import zlib
from typing import Any, Final

from tidemill.common import Row, TypeInformation, Types

KEYS: Final = ("a", "b", "c", "d", "e", "f")
FORMS: Final = ("tuple", "list", "dict", "row")
#: Numbers stay below it, so that conditions on them hold now and then, whatever was computed before.
MODULUS: Final = 97
_LONGEST_NOTE: Final = 70

_FIELDS: Final = [Types.STRING(), Types.LONG(), Types.STRING()]
_TUPLES: Final = Types.TUPLE(_FIELDS)
_ROWS: Final = Types.ROW_NAMED(["k", "n", "note"], _FIELDS)


def parts(value: Any) -> tuple[str, int, str]:
    """Key, number and note of a record in any form."""
    if isinstance(value, dict):
        return value["k"], value["n"], value["note"]
    return value[0], value[1], value[2]


def made(form: str, key: str, number: int, note: str) -> Any:
    """A record in a form. A long note keeps its beginning and a checksum of the whole."""
    if len(note) > _LONGEST_NOTE:
        note = f"{note[:40]}#{zlib.crc32(note.encode())}"
    number %= MODULUS
    if form == "tuple":
        return key, number, note
    if form == "list":
        return [key, number, note]
    if form == "dict":
        return {"k": key, "n": number, "note": note}
    return Row(k=key, n=number, note=note)


def form_like(value: Any) -> str:
    """The form that a record has."""
    if isinstance(value, Row):
        return "row"
    return "dict" if isinstance(value, dict) else "list" if isinstance(value, list) else "tuple"


def change(value: Any, number: int) -> None:
    """Set the number of a record that can be changed, in place."""
    value["n" if isinstance(value, dict) else 1] = number % MODULUS


def digest(text: str) -> int:
    """A number that changes if the text does."""
    return zlib.crc32(text.encode()) % MODULUS


def key_of(value: Any) -> str:
    return parts(value)[0]


#: How records are keyed: by the text, by a number or a tuple that stands for it, with a declared type or without.
KEY_KINDS: Final = ("text", "untyped text", "number", "tuple")
_NAMES: Final = (*KEYS, "all", "")


class KeyOf:
    """A key selector."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def __call__(self, value: Any) -> Any:
        name = key_of(value)
        if self.kind == "number":
            return _NAMES.index(name) * 1.0 if parts(value)[1] % 2 else _NAMES.index(name)  # equal keys of two types
        return (name, 1) if self.kind == "tuple" else name

    def type(self) -> TypeInformation | None:
        return Types.STRING() if self.kind == "text" else None


def name_of(key: Any) -> str:
    """The key of a record whose selected key this is."""
    if isinstance(key, tuple):
        return str(key[0])
    return key if isinstance(key, str) else _NAMES[int(key)]


def type_of(form: str, *, typed: bool) -> TypeInformation | None:
    """The declared type of a form, if it has one and the caller wants it."""
    if not typed:
        return None
    return {"tuple": _TUPLES, "row": _ROWS}.get(form)
