"""Explains why a record of a JSON or CSV file does not fit its schema: which field is invalid, and why."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from tidemill.connectors.spark.schema_types import ArrayOf, Atom, MapOf, SparkType, StructOf, parse_schema
from tidemill.errors import FailureSite, GraphError, TypeMismatchError

__all__ = ["Misfit", "misfit_error"]

_BITS: Final = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}
_INTEGER: Final = re.compile(r"\s*[+-]?\d+\s*")
#: Errors for records that Spark can read and Python cannot: separators of several characters, very long numbers, ...
_UNCLEAR: Final = (csv.Error, TypeError, ValueError, RecursionError, GraphError)
_KINDS: Final = {dict: "an object", list: "an array", str: "a string", bool: "a boolean"}


@dataclass(frozen=True)
class Misfit:
    """A record of a file that does not fit the schema; ``options`` are Spark's, with their names in lower case.

    The description of the problem contains neither values nor keys of maps, because the record is the user's data.
    Entries of a map are numbered from 0, as elements of an array are.

    >>> Misfit("json", '{"id": 1, "at": {"x": "two"}}', "id LONG, at STRUCT<x: DOUBLE>").problem()
    "field 'at.x' is a string, but the schema requires DOUBLE"
    >>> Misfit("csv", "1;x", "id LONG, price DOUBLE", {"sep": ";"}).problem()
    "column 'price' is not a valid DOUBLE"
    """

    format: str
    record: str
    schema: str
    options: Mapping[str, str] | None = None

    def problem(self) -> str:
        """Describe what does not fit, if it can be determined. Dates are not checked: Spark accepts many formats."""
        try:
            struct = parse_schema(self.schema)
            told = _json_problem(self.record, struct) if self.format == "json" else self._csv_problem(struct)
        except _UNCLEAR:
            told = None
        return told or f"the schema is {self.schema}"

    def _csv_problem(self, struct: StructOf) -> str | None:
        options = self.options or {}
        quote = options.get("quote", '"')
        escape = options.get("escape", "\\")
        lines = csv.reader(
            [self.record],
            delimiter=options.get("sep", options.get("delimiter", ",")),
            quotechar=quote or None,
            quoting=csv.QUOTE_MINIMAL if quote else csv.QUOTE_NONE,
            escapechar=escape if escape not in ("", quote) else None,
        )
        values = next(lines, [])
        nothing = {"", options.get("nullvalue", "")}
        for field, value in zip(struct.fields, values, strict=False):
            if value not in nothing and isinstance(field.type, Atom) and not _text_fits(value, field.type):
                return f"column {field.name!r} is not a valid {field.type}"
        if len(values) != len(struct.fields):
            return f"it has {len(values)} values, but the schema has {len(struct.fields)} columns"
        return None


def misfit_error(uid: str, misfit: Misfit, file: str, record: str, called: str = "") -> TypeMismatchError:
    """Return the error for a record of a file that the source with this uid reads; ``record`` is its shortened text.

    ``called`` is what errors call the source.
    """
    error = TypeMismatchError(
        f"the source {called or f'with uid {uid!r}'} could not be read: file {file} has a record that does not fit the "
        f"schema: {misfit.problem()}. It is record {record}\nCorrect the file; or read it with read_{misfit.format}() "
        "and the option mode: DROPMALFORMED skips such records, PERMISSIVE (on Spark) replaces values that do not fit "
        "by None."
    )
    error.site = FailureSite(uid=uid, exception=TypeMismatchError.__name__, record=record)
    return error


def _json_problem(text: str, struct: StructOf) -> str | None:
    try:
        found = json.loads(text)
    except json.JSONDecodeError as error:
        return f"it is not valid JSON: {error.msg} at character {error.pos + 1}"
    for row in found if isinstance(found, list) else [found]:
        if not isinstance(row, dict):
            return f"it is {_kind(row)}, not an object"
        for path, value, kind in _misfits(row, struct, ""):
            return f"field {path.removeprefix('.')!r} is {_kind(value)}, but the schema requires {kind}"
    return None


def _misfits(value: Any, kind: SparkType, path: str) -> Iterator[tuple[str, Any, SparkType]]:
    """Yield the innermost values that certainly do not have their type, each with its path and the type."""
    if value is None:
        return
    if isinstance(kind, StructOf) and isinstance(value, dict):
        for field in kind.fields:
            yield from _misfits(value.get(field.name), field.type, f"{path}.{field.name}")
    elif isinstance(kind, ArrayOf) and isinstance(value, list):
        for index, element in enumerate(value):
            yield from _misfits(element, kind.element, f"{path}[{index}]")
    elif isinstance(kind, MapOf) and isinstance(value, dict):
        for index, inner in enumerate(value.values()):  # keys are user data and must not be part of the path
            yield from _misfits(inner, kind.value, f"{path}[entry {index}]")
    elif not isinstance(kind, Atom) or not _json_fits(value, kind):
        yield path, value, kind


def _json_fits(value: Any, kind: Atom) -> bool:
    if kind.name == "STRING":
        return True  # Spark also reads numbers and objects as strings
    if kind.name == "BOOLEAN" or isinstance(value, bool):
        return kind.name == "BOOLEAN" and isinstance(value, bool)
    if kind.name in _BITS:
        return isinstance(value, int) and _in_range(value, _BITS[kind.name])
    if kind.name in ("FLOAT", "DOUBLE"):
        return isinstance(value, (int, float)) or value in ("NaN", "Infinity", "-Infinity", "+INF", "-INF", "INF")
    if kind.name == "DECIMAL":
        return isinstance(value, (int, float)) or (isinstance(value, str) and _made(Decimal, value))
    return isinstance(value, (str, int))


def _text_fits(text: str, kind: Atom) -> bool:
    if kind.name in _BITS:
        return _INTEGER.fullmatch(text) is not None and _in_range(int(text), _BITS[kind.name])
    if kind.name in ("FLOAT", "DOUBLE"):
        return _made(float, text)
    if kind.name == "DECIMAL":
        return _made(Decimal, text)
    if kind.name == "BOOLEAN":
        return text.lower() in ("true", "false")
    return True


def _in_range(number: int, bits: int) -> bool:
    return -(1 << (bits - 1)) <= number < 1 << (bits - 1)


def _made(make: Callable[[str], object], text: str) -> bool:
    try:
        make(text)
    except (ValueError, InvalidOperation):
        return False
    return True


def _kind(value: Any) -> str:
    return _KINDS.get(type(value), "a number")
