"""Arrays in CSV files: text with a separator between the elements, which Spark reads as strings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa

from tidemill.common.types import Row
from tidemill.connectors.sources import RecordBatch, RowDecoder
from tidemill.connectors.spark.schema_types import ArrayOf, Atom, Field, StructOf
from tidemill.errors import GraphError, SerializationError, TypeMismatchError

__all__ = ["ArrayDecoder", "array_field", "array_text", "with_strings"]

_BOOLEANS: Final = {"true": True, "false": False}


def _boolean(text: str) -> bool:
    found = _BOOLEANS.get(text.strip().lower())
    if found is None:
        raise ValueError(f"{text!r} is neither true nor false")
    return found


_PARSERS: Final[Mapping[str, Callable[[str], Any]]] = {
    "STRING": str,
    "BOOLEAN": _boolean,
    **dict.fromkeys(("TINYINT", "SMALLINT", "INT", "BIGINT"), int),
    **dict.fromkeys(("FLOAT", "DOUBLE"), float),
    "DECIMAL": Decimal,
}


def array_field(name: str, element: Any) -> Field:
    """Return the field of an array. Raises :class:`GraphError` for elements that text cannot represent."""
    if not isinstance(element, Atom) or element.name not in _PARSERS:
        raise GraphError(f"column {name!r}: an array in a CSV file cannot contain {element}")
    return Field(name, ArrayOf(element))


def with_strings(struct: StructOf) -> StructOf:
    """Return the columns that Spark reads: a string for each array."""
    return StructOf(
        tuple(
            Field(field.name, Atom("STRING")) if isinstance(field.type, ArrayOf) else field for field in struct.fields
        )
    )


def array_text(value: list[Any], separator: str, text: Callable[[Any], str]) -> str:
    """Return an array as text. Raises :class:`TypeMismatchError` for an element that contains the separator."""
    parts = ["" if each is None else text(each) for each in value]
    for part in parts:
        if separator in part:
            raise TypeMismatchError(f"{part!r} contains {separator!r}, which separates the elements of its array")
    return separator.join(parts)


class ArrayDecoder(RowDecoder):
    """Converts the strings of array columns to lists. An empty string is an empty list, an empty number is None."""

    def __init__(self, struct: StructOf, separators: Mapping[str, str]) -> None:
        self._names = struct.names
        self._arrays = {
            field.name: (str(field.type), field.type.element.name, separators[field.name])
            for field in struct.fields
            if isinstance(field.type, ArrayOf) and isinstance(field.type.element, Atom)
        }

    def decode(self, rows: pa.RecordBatch) -> RecordBatch:
        """Return rows with the columns of the schema. Raises :class:`SerializationError` for an invalid element."""
        columns = []
        for name in self._names:
            values = rows.column(name).to_pylist()
            columns.append(self._lists(name, values) if name in self._arrays else values)
        return RecordBatch(list(Row.of_columns(self._names, columns)))

    def _lists(self, name: str, texts: list[str | None]) -> list[list[Any] | None]:
        kind, element, separator = self._arrays[name]
        parse = _PARSERS[element]
        keeps_empty = element == "STRING"
        found: list[list[Any] | None] = []
        for text in texts:
            if not text:
                found.append(None if text is None else [])
                continue
            try:
                found.append([parse(part) if part or keeps_empty else None for part in text.split(separator)])
            except (ValueError, ArithmeticError) as error:
                raise SerializationError(f"column {name!r} has {text!r}, not {kind}: {error}") from error
        return found
