"""Reads files with one JSON object per line, with the rules of Spark's JSON reader."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO, Final

import pyarrow as pa

from tidemill.connectors.spark.schema_types import StructOf
from tidemill.connectors.spark.type_mapping import arrow_schema_of
from tidemill.local.files.format import BadRecordError, ReadFormat, UnreadableFileError
from tidemill.local.files.json_values import NumberText, RepeatedKeys, converter, object_of
from tidemill.local.files.lines import line_batches

__all__ = ["JsonFormat"]

_MISFITS: Final = (ValueError, TypeError, KeyError, ArithmeticError)
_SPACES: Final = " \t\r\n"


def _constant(text: str) -> str:
    return NumberText(text)


class JsonFormat(ReadFormat):
    """Lines with an object, or an array of objects."""

    def __init__(self, struct: StructOf, zone: dt.tzinfo | None, *, drops: bool) -> None:
        """With ``drops``, lines that do not fit are dropped instead of raising an error."""
        self._schema = arrow_schema_of(struct)
        self._columns = [(field.name, converter(field.type, zone)) for field in struct.fields]
        self._drops = drops
        exact = "STRING" in str(struct) or "DECIMAL" in str(struct)
        self._decoder = json.JSONDecoder(
            object_pairs_hook=object_of,
            parse_float=NumberText,
            parse_constant=_constant,
            parse_int=NumberText if exact else int,
        )

    def schema(self, example: BinaryIO | None) -> pa.Schema:
        return self._schema

    def batches(self, file: BinaryIO, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        for lines in line_batches(file):
            columns = self._read(lines)
            if columns and columns[0]:
                try:
                    arrays = [pa.array(values, field.type) for values, field in zip(columns, schema, strict=True)]
                except UnicodeEncodeError as error:
                    raise UnreadableFileError(f"a string is not valid Unicode: {error}") from None
                yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    def _read(self, lines: Sequence[bytes]) -> list[list[Any]]:
        try:
            return self._converted([row for line in lines for row in self._rows(line)])
        except _MISFITS:
            pass  # it is not known which line does not fit
        columns: list[list[Any]] = [[] for _ in self._columns]
        for line in lines:
            try:
                found = self._converted(self._rows(line))
            except _MISFITS as error:
                if not self._drops:
                    raise BadRecordError(line.decode("utf-8", "replace")) from error
                continue
            for column, values in zip(columns, found, strict=True):
                column.extend(values)
        return columns

    def _rows(self, line: bytes) -> list[dict[str, Any]]:
        """Return the objects of a line. What follows the first value is ignored."""
        text = line.decode("utf-8").lstrip(_SPACES)
        if not text:
            return []
        found, _ = self._decoder.raw_decode(text)
        rows = found if isinstance(found, list) else [found]
        if not all(isinstance(row, dict) for row in rows):
            raise ValueError(text)
        return rows

    def _converted(self, rows: Sequence[dict[str, Any]]) -> list[list[Any]]:
        for row in rows:
            if isinstance(row, RepeatedKeys):
                self._check(row)
        return [
            [None if (value := row.get(name)) is None else convert(value) for row in rows]
            for name, convert in self._columns
        ]

    def _check(self, row: RepeatedKeys) -> None:
        converters = dict(self._columns)
        for name, value in row.pairs:
            if name in converters and value is not None:
                converters[name](value)
