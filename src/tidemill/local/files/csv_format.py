"""Reads CSV files with the rules of Spark's CSV reader."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

import pyarrow as pa

from tidemill.connectors.spark.schema_types import Atom, StructOf
from tidemill.connectors.spark.type_mapping import arrow_schema_of
from tidemill.errors import GraphError
from tidemill.local.files.format import BadRecordError, ReadFormat, UnreadableFileError
from tidemill.local.files.lines import line_batches
from tidemill.local.files.text_values import Parse, text_parser

__all__ = ["CsvDialect", "CsvFormat"]


@dataclass(frozen=True)
class CsvDialect:
    """The syntax of CSV lines."""

    separator: str = ","
    quote: str = '"'
    escape: str = "\\"
    null: str = ""
    comment: str = ""
    header: bool = False
    #: Whether the header must have the names of the schema.
    strict_header: bool = False
    #: Whether lines that do not fit are dropped instead of raising an error.
    drops: bool = False

    def fields(self, line: str) -> list[str]:
        """Split a line; an empty field without quotes is null. Raises ``ValueError`` for a quote that is not closed."""
        if not self.quote or self.quote not in line:
            fields = line.split(self.separator)
            return [text or self.null for text in fields] if self.null else fields
        fields = []
        at = 0
        while True:
            text, at = self._quoted(line, at) if line.startswith(self.quote, at) else self._plain(line, at)
            fields.append(text)
            if at >= len(line):
                return fields
            at += 1
            if at == len(line):
                return [*fields, self.null]

    def _plain(self, line: str, at: int) -> tuple[str, int]:
        end = line.find(self.separator, at)
        end = len(line) if end < 0 else end
        return line[at:end] or self.null, end

    def _quoted(self, line: str, start: int) -> tuple[str, int]:
        """Return the text of a quoted field, and the place of the separator after it.

        If something other than white space follows the closing quote, the field is the text as it is, with its quotes.
        """
        quote, escape = self.quote, self.escape
        text: list[str] = []
        at = start + 1
        while at < len(line):
            char = line[at]
            following = line[at + 1 : at + 2]
            if char == escape and following == quote:
                text.append(quote)
                at += 2
            elif char == escape != quote and following == escape:
                text.append(escape)
                at += 2
            elif char == quote:
                end = at + 1
                while line[end : end + 1] in (" ", "\t"):
                    end += 1
                if end >= len(line) or line[end] == self.separator:
                    return "".join(text), end
                return self._plain(line, start)
            else:
                text.append(char)
                at += 1
        raise ValueError(line)


class CsvFormat(ReadFormat):
    """Lines with a field for each column."""

    def __init__(self, struct: StructOf, dialect: CsvDialect, zone: dt.tzinfo | None) -> None:
        """``zone`` is the time zone of timestamps without one; None is that of this machine."""
        self._names = struct.names
        self._schema = arrow_schema_of(struct)
        self._dialect = dialect
        self._parsers: list[Parse] = []
        for field in struct.fields:
            if not isinstance(field.type, Atom):
                raise GraphError(f"column {field.name!r}: a CSV file cannot contain {field.type}")
            self._parsers.append(text_parser(field.type, zone))
        self._texts = [isinstance(field.type, Atom) and field.type.name == "STRING" for field in struct.fields]

    def schema(self, example: BinaryIO | None) -> pa.Schema:
        return self._schema

    def batches(self, file: BinaryIO, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        comment, expects_header = self._dialect.comment, self._dialect.header
        for raw in line_batches(file):
            lines = [line for line in map(_decoded, raw) if line.strip() and not (comment and line.startswith(comment))]
            if expects_header and lines:
                self._check_header(lines.pop(0))
                expects_header = False
            if lines:
                yield pa.RecordBatch.from_arrays(self._columns(lines), schema=schema)

    def _check_header(self, line: str) -> None:
        if not self._dialect.strict_header:
            return
        found = [name.lower() for name in self._dialect.fields(line)]
        if found != [name.lower() for name in self._names]:
            raise UnreadableFileError(f"its header is {line!r}, but the columns are {', '.join(self._names)}")

    def _columns(self, lines: Sequence[str]) -> list[pa.Array]:
        try:
            rows = [self._dialect.fields(line) for line in lines]
            texts = list(zip(*rows, strict=True))
            if len(texts) != len(self._names):
                raise ValueError(len(texts))
            columns = [self._column(index, column) for index, column in enumerate(texts)]
        except (ValueError, ArithmeticError):
            return self._columns_of_good(lines)
        return [pa.array(values, field.type) for values, field in zip(columns, self._schema, strict=True)]

    def _columns_of_good(self, lines: Sequence[str]) -> list[pa.Array]:
        """Convert line by line, to find the lines that do not fit."""
        good: list[list[Any]] = []
        for line in lines:
            try:
                fields = self._dialect.fields(line)
                if len(fields) != len(self._names):
                    raise ValueError(line)
                good.append([self._column(index, [text])[0] for index, text in enumerate(fields)])
            except (ValueError, ArithmeticError) as error:
                if not self._dialect.drops:
                    raise BadRecordError(line) from error
        columns = list(zip(*good, strict=True)) or [()] * len(self._names)
        return [pa.array(values, field.type) for values, field in zip(columns, self._schema, strict=True)]

    def _column(self, index: int, texts: Sequence[str]) -> list[Any]:
        null, parse = self._dialect.null, self._parsers[index]
        if self._texts[index]:
            return [None if text == null else text for text in texts]
        return [None if text == null else parse(text) for text in texts]


def _decoded(line: bytes) -> str:
    return line.decode("utf-8", "replace")


def options_of_dialect(options: Mapping[str, str], *, drops: bool) -> CsvDialect:
    """Return the dialect of Spark's options, whose names are in lower case."""
    return CsvDialect(
        separator=options.get("sep", options.get("delimiter", ",")),
        quote=options.get("quote", '"'),
        escape=options.get("escape", "\\"),
        null=options.get("nullvalue", ""),
        comment=options.get("comment", ""),
        header=options.get("header", "false").lower() == "true",
        strict_header=options.get("enforceschema", "true").lower() == "false",
        drops=drops,
    )
