"""Spark's types as plain data, without Spark: reads and writes schemas in Spark's DDL.

>>> schema = parse_schema("id LONG, tags ARRAY<STRING>, `at` TIMESTAMP NOT NULL, price DECIMAL(10, 2)")
>>> schema.ddl()
'`id` BIGINT, `tags` ARRAY<STRING>, `at` TIMESTAMP NOT NULL, `price` DECIMAL(10,2)'
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from tidemill.errors import GraphError

__all__ = ["ArrayOf", "Atom", "Field", "MapOf", "SparkType", "StructOf", "parse_schema", "schema_from_json"]

#: All names of simple types in DDL and in JSON, and the canonical name of each.
_ATOMS: Final = {
    "BOOLEAN": "BOOLEAN",
    "BYTE": "TINYINT",
    "TINYINT": "TINYINT",
    "SHORT": "SMALLINT",
    "SMALLINT": "SMALLINT",
    "INT": "INT",
    "INTEGER": "INT",
    "LONG": "BIGINT",
    "BIGINT": "BIGINT",
    "FLOAT": "FLOAT",
    "REAL": "FLOAT",
    "DOUBLE": "DOUBLE",
    "STRING": "STRING",
    "BINARY": "BINARY",
    "DATE": "DATE",
    "TIMESTAMP": "TIMESTAMP",
    "TIMESTAMP_LTZ": "TIMESTAMP",
    "TIMESTAMP_NTZ": "TIMESTAMP_NTZ",
    "DECIMAL": "DECIMAL",
    "DEC": "DECIMAL",
    "NUMERIC": "DECIMAL",
    # Only tables check lengths; a DataFrame has plain strings.
    "CHAR": "STRING",
    "CHARACTER": "STRING",
    "VARCHAR": "STRING",
}
#: Names that are followed by a length.
_LENGTHS: Final = frozenset({"CHAR", "CHARACTER", "VARCHAR"})
_TOKENS: Final = re.compile(r"\s*(?:(`(?:[^`]|``)*`)|('(?:[^'\\]|\\.)*')|([\w$.]+)|([<>(),:]))")


@dataclass(frozen=True)
class Atom:
    """A simple type; ``parameters`` are the numbers in parentheses."""

    name: str
    parameters: tuple[int, ...] = ()

    def __str__(self) -> str:
        return self.name + (f"({','.join(map(str, self.parameters))})" if self.parameters else "")


@dataclass(frozen=True)
class ArrayOf:
    """A list of elements, which may be None if ``nullable``."""

    element: SparkType
    nullable: bool = True

    def __str__(self) -> str:
        return f"ARRAY<{self.element}>"


@dataclass(frozen=True)
class MapOf:
    """A dict with values that may be None if ``nullable``."""

    key: SparkType
    value: SparkType
    nullable: bool = True

    def __str__(self) -> str:
        return f"MAP<{self.key}, {self.value}>"


@dataclass(frozen=True)
class Field:
    """A column, or a field of a struct."""

    name: str
    type: SparkType
    nullable: bool = True

    def ddl(self, between: str) -> str:
        """Return the field in Spark's DDL."""
        name = self.name.replace("`", "``")
        return f"`{name}`{between}{self.type}{'' if self.nullable else ' NOT NULL'}"


@dataclass(frozen=True)
class StructOf:
    """A struct with named fields, or the schema of a DataFrame."""

    fields: tuple[Field, ...]

    def __post_init__(self) -> None:
        names = [field.name for field in self.fields]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise GraphError(f"a schema has two columns of the same name: {', '.join(twice)}")

    def __str__(self) -> str:
        return f"STRUCT<{', '.join(field.ddl(': ') for field in self.fields)}>"

    def ddl(self) -> str:
        """Return the schema of a DataFrame in Spark's DDL."""
        return ", ".join(field.ddl(" ") for field in self.fields)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(field.name for field in self.fields)


SparkType = Atom | ArrayOf | MapOf | StructOf


def parse_schema(ddl: str) -> StructOf:
    """Parse a schema in Spark's DDL. Raises :class:`~tidemill.errors.GraphError` with the position of an error."""
    reader = _Reader(ddl)
    fields = reader.fields(end=None)
    if not fields:
        raise GraphError(f"a schema needs at least one column: {ddl!r}")
    return StructOf(fields)


def schema_from_json(data: Mapping[str, Any]) -> StructOf:
    """Create a schema from the ``jsonValue()`` of a ``StructType``."""
    found = _from_json(data, "the schema")
    if not isinstance(found, StructOf):
        raise GraphError(f"a schema must be a struct, not {found}")
    return found


def atom(name: str, parameters: tuple[int, ...] = (), where: str = "") -> Atom:
    """Return a simple type by any of its names. Raises :class:`~tidemill.errors.GraphError` for unsupported types."""
    known = _ATOMS.get(name.upper())
    if known is None:
        raise GraphError(
            f"{where}type {name!r} is not supported; supported are {', '.join(sorted(set(_ATOMS)))}, ARRAY, MAP and "
            "STRUCT. Cast the column, for example to STRING or BIGINT."
        )
    if name.upper() in _LENGTHS:
        return Atom(known)
    if known != "DECIMAL":
        if parameters:
            raise GraphError(f"{where}{name} has no parameters, but here it has {parameters}")
        return Atom(known)
    numbers = (*parameters, *(10, 0)[len(parameters) :])
    if len(numbers) > 2 or not 0 <= numbers[1] <= numbers[0] <= 38 or not numbers[0]:
        raise GraphError(
            f"{where}DECIMAL{parameters} is invalid: the precision must be 1 to 38, and the scale 0 to the precision"
        )
    return Atom(known, numbers)


class _Reader:
    """Parses DDL from left to right."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens: list[tuple[str, int]] = []
        place = 0
        while text[place:].strip():
            match = _TOKENS.match(text, place)
            if match is None:
                raise self._error(place)
            self._tokens.append((match[0].strip(), place))
            place = match.end()
        self._next = 0

    def fields(self, end: str | None) -> tuple[Field, ...]:
        found: list[Field] = []
        while self._peek() != end:
            if found:
                self._expect(",")
            name = self._take()
            if name[0] in "<>(),:'":
                raise self._error(self._tokens[self._next - 1][1])
            if self._peek() == ":":
                self._take()
            kind = self._type()
            nullable = True
            if self._word() == "NOT":
                self._take()
                self._expect("NULL")
                nullable = False
            if self._word() == "COMMENT":
                self._take()
                while (self._peek() or "").startswith("'"):
                    self._take()
            found.append(Field(name[1:-1].replace("``", "`") if name[0] == "`" else name, kind, nullable))
        return tuple(found)

    def _type(self) -> SparkType:
        name = self._take()
        kind = name.upper()
        if kind == "ARRAY":
            self._expect("<")
            element = self._type()
            self._expect(">")
            return ArrayOf(element)
        if kind == "MAP":
            self._expect("<")
            key = self._type()
            self._expect(",")
            value = self._type()
            self._expect(">")
            return MapOf(key, value)
        if kind == "STRUCT":
            self._expect("<")
            fields = self.fields(end=">")
            self._expect(">")
            return StructOf(fields)
        return atom(name, self._numbers(), f"schema {self._text!r}: ")

    def _numbers(self) -> tuple[int, ...]:
        if self._peek() != "(":
            return ()
        self._take()
        numbers = [self._number()]
        while self._peek() == ",":
            self._take()
            numbers.append(self._number())
        self._expect(")")
        return tuple(numbers)

    def _number(self) -> int:
        token = self._take()
        if not token.isdigit():
            raise self._error(self._tokens[self._next - 1][1])
        return int(token)

    def _word(self) -> str | None:
        token = self._peek()
        return None if token is None else token.upper()

    def _peek(self) -> str | None:
        return self._tokens[self._next][0] if self._next < len(self._tokens) else None

    def _take(self) -> str:
        token = self._peek()
        if token is None:
            raise self._error(len(self._text))
        self._next += 1
        return token

    def _expect(self, wanted: str) -> None:
        if self._take().upper() != wanted:
            raise self._error(self._tokens[self._next - 1][1])

    def _error(self, place: int) -> GraphError:
        before, after = self._text[:place], self._text[place:]
        return GraphError(f"a schema in Spark's DDL cannot be read here: {before!r} >>> {after!r}")


_BRACKETS: Final = re.compile(r"(\w+)\(([\d, ]+)\)")


def _from_json(data: Any, where: str) -> SparkType:
    if isinstance(data, str):
        match = _BRACKETS.fullmatch(data)
        if match is None:
            return atom(data, (), f"{where}: ")
        return atom(match[1], tuple(int(number) for number in match[2].split(",")), f"{where}: ")
    kind = data.get("type")
    if kind == "struct":
        return StructOf(
            tuple(
                Field(field["name"], _from_json(field["type"], f"column {field['name']!r}"), field["nullable"])
                for field in data["fields"]
            )
        )
    if kind == "array":
        return ArrayOf(_from_json(data["elementType"], where), data["containsNull"])
    if kind == "map":
        key, value = _from_json(data["keyType"], where), _from_json(data["valueType"], where)
        return MapOf(key, value, data["valueContainsNull"])
    return atom(str(kind), (), f"{where}: ")
