"""CSV files, read through Spark and written as a bulk format, with the same schema."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO

from tidemill.common.serialization import BulkWriter, BulkWriterFactory
from tidemill.common.typeinfo import TypeInformation, Types
from tidemill.connectors.file_system.csv_arrays import ArrayDecoder, array_field, array_text, with_strings
from tidemill.connectors.file_system.formats import BatchWriter, MergingBulkWriterFactory
from tidemill.connectors.file_system.source import STRICT, StreamFormat
from tidemill.connectors.spark.records import RecordColumns
from tidemill.connectors.spark.schema_types import Atom, Field, StructOf
from tidemill.connectors.spark.type_mapping import schema_of
from tidemill.errors import GraphError, TypeMismatchError
from tidemill.table.types import DataType

__all__ = ["CsvBulkWriters", "CsvReaderFormat", "CsvSchema", "CsvSchemaBuilder"]


@dataclass(frozen=True)
class CsvSchema:
    """The columns and the syntax of CSV files.

    >>> schema = CsvSchema.builder().add_number_column("id").add_string_column("name").set_use_header().build()
    >>> len(schema)
    2
    """

    fields: tuple[Field, ...] = ()
    separator: str = ","
    quote: str = '"'
    escape: str = ""
    null_value: str = ""
    line_separator: str = "\n"
    header: bool = False
    strict_header: bool = False
    skips_first_line: bool = False
    comments: bool = False
    #: The separators of the elements of array columns, by column, and the one of columns that have none.
    array_separators: Mapping[str, str] = field(default_factory=dict)
    array_separator: str = ";"

    @staticmethod
    def builder() -> CsvSchemaBuilder:
        """Start building a schema."""
        return CsvSchemaBuilder()

    @property
    def struct(self) -> StructOf:
        """The columns and their types."""
        return StructOf(self.fields)

    @property
    def separators(self) -> dict[str, str]:
        """The separators of all array columns."""
        return {name: own or self.array_separator for name, own in self.array_separators.items()}

    def size(self) -> int:
        """Return the number of columns."""
        return len(self.fields)

    def __len__(self) -> int:
        return self.size()


class CsvSchemaBuilder:
    """Builds a :class:`CsvSchema`."""

    def __init__(self) -> None:
        self._schema = CsvSchema()

    def build(self) -> CsvSchema:
        """Build the schema."""
        if not self._schema.fields:
            raise GraphError("a CSV schema needs at least one column")
        unseparated = [name for name, separator in self._schema.separators.items() if not separator]
        if unseparated:
            raise GraphError(f"array column {unseparated[0]!r} needs a separator between its elements")
        return self._schema

    def add_boolean_column(self, name: str) -> CsvSchemaBuilder:
        """Add a boolean column."""
        return self.add_column(name, Types.BOOLEAN())

    def add_number_column(self, name: str, number_type: TypeInformation | DataType | None = None) -> CsvSchemaBuilder:
        """Add a column of numbers, by default ``Types.LONG()``; ``DataTypes.INT()`` and the like are accepted too."""
        return self.add_column(name, number_type or Types.LONG())

    def add_string_column(self, name: str) -> CsvSchemaBuilder:
        """Add a string column."""
        return self.add_column(name, Types.STRING())

    def add_column(self, name: str, column_type: TypeInformation | DataType | str) -> CsvSchemaBuilder:
        """Add a column of any type that is not nested, also in Spark's DDL: ``"DECIMAL(10, 2)"``. Not in PyFlink."""
        ddl = f"value {column_type}" if isinstance(column_type, str) else column_type
        (column,) = schema_of(ddl).fields
        if not isinstance(column.type, Atom) or column.type.name == "BINARY":
            raise GraphError(f"column {name!r}: a CSV file cannot contain {column.type}")
        return self._set(fields=(*self._schema.fields, Field(name, column.type)))

    def add_array_column(
        self, name: str, separator: str = ";", element_type: TypeInformation | DataType | None = None
    ) -> CsvSchemaBuilder:
        """Add an array of texts, numbers or booleans, by default ``Types.STRING()``, with a separator between them.

        An element cannot contain the separator. An empty array is written as an empty pair of quotes.
        """
        (element,) = schema_of(element_type or Types.STRING()).fields
        separators = {**self._schema.array_separators, name: separator}
        return self._set(fields=(*self._schema.fields, array_field(name, element.type)), array_separators=separators)

    def set_array_element_separator(self, separator: str) -> CsvSchemaBuilder:
        """Set the separator of array columns without one of their own; by default a semicolon."""
        return self._set(array_separator=separator)

    def disable_array_element_separator(self) -> CsvSchemaBuilder:
        """Remove the separator of array columns without one of their own; such columns are then an error."""
        return self._set(array_separator="")

    def remove_array_element_separator(self, index: int) -> CsvSchemaBuilder:
        """Remove the separator of one array column, by its index, so that it has the one of the schema."""
        name = self._schema.fields[index].name
        if name not in self._schema.array_separators:
            raise ValueError(f"column {name!r} is not an array")
        return self._set(array_separators={**self._schema.array_separators, name: ""})

    def set_any_property_name(self, name: str) -> CsvSchemaBuilder:
        """Accepted without effect: a line with more fields than the schema has columns is an error."""
        return self

    def add_columns_from(self, schema: CsvSchema) -> CsvSchemaBuilder:
        """Add the columns of another schema."""
        separators = {**self._schema.array_separators, **schema.array_separators}
        return self._set(fields=(*self._schema.fields, *schema.fields), array_separators=separators)

    def clear_columns(self) -> CsvSchemaBuilder:
        """Remove all columns."""
        return self._set(fields=(), array_separators={})

    def set_allow_comments(self, allow: bool = True) -> CsvSchemaBuilder:
        """Skip lines that begin with ``#`` when reading."""
        return self._set(comments=allow)

    def set_column_separator(self, char: str) -> CsvSchemaBuilder:
        """Set the separator between columns."""
        return self._set(separator=_one(char, "column separator"))

    def set_escape_char(self, char: str) -> CsvSchemaBuilder:
        """Set the character that escapes a quote within quotes; by default quotes are doubled."""
        return self._set(escape=_one(char, "escape character"))

    def disable_escape_char(self) -> CsvSchemaBuilder:
        """Double quotes within quotes, which is the default."""
        return self._set(escape="")

    def set_quote_char(self, char: str) -> CsvSchemaBuilder:
        """Set the quote character, for strings that need quotes."""
        return self._set(quote=_one(char, "quote character"))

    def disable_quote_char(self) -> CsvSchemaBuilder:
        """Disable quotes; writing a string that needs them is an error."""
        return self._set(quote="")

    def set_null_value(self, null_value: str) -> CsvSchemaBuilder:
        """Set how None is written; by default as an empty field, while an empty string is an empty pair of quotes."""
        return self._set(null_value=null_value)

    def set_line_separator(self, separator: str) -> CsvSchemaBuilder:
        """Set the line end for writing."""
        return self._set(line_separator=separator)

    def set_use_header(self, use: bool = True) -> CsvSchemaBuilder:
        """Use the first line of each file as a header with the names of the columns."""
        return self._set(header=use)

    def set_skip_first_data_row(self, skip: bool = True) -> CsvSchemaBuilder:
        """Skip the first line of each file when reading."""
        return self._set(skips_first_line=skip)

    def set_strict_headers(self, strict: bool = True) -> CsvSchemaBuilder:
        """Require that the header contains the names of the schema, in its order."""
        return self._set(strict_header=strict)

    def size(self) -> int:
        """Return the number of columns so far."""
        return len(self._schema)

    def __len__(self) -> int:
        return self.size()

    def _set(self, **changes: Any) -> CsvSchemaBuilder:
        self._schema = replace(self._schema, **changes)
        return self


def _one(char: str, what: str) -> str:
    if len(char) != 1:
        raise ValueError(f"the {what} must be a single character, not {char!r}")
    return char


class CsvReaderFormat(StreamFormat):
    """Reads CSV files as rows, for ``FileSource.for_record_stream_format``.

    A line that does not fit the schema is an error that contains the line. With ``set_strict_headers``, a file whose
    header differs from the schema is an error that names the file.
    """

    @staticmethod
    def for_schema(schema: CsvSchema) -> CsvReaderFormat:
        """Create a format for a schema.

        >>> schema = CsvSchema.builder().add_number_column("id").add_string_column("name").build()
        >>> CsvReaderFormat.for_schema(schema).schema
        '`id` BIGINT, `name` STRING'
        """
        options = {
            **STRICT,
            "sep": schema.separator,
            "quote": schema.quote,
            "escape": schema.escape or schema.quote or "\\",
            # If it is empty, Spark also reads an empty pair of quotes as null.
            "nullValue": schema.null_value or "\0",
            "header": str(schema.header or schema.skips_first_line).lower(),
            "enforceSchema": str(not schema.strict_header).lower(),
        }
        if schema.comments:
            options["comment"] = "#"
        decoder = ArrayDecoder(schema.struct, schema.separators) if schema.array_separators else None
        columns = with_strings(schema.struct).ddl()
        return CsvReaderFormat("csv", tuple(options.items()), schema=columns, decoder=decoder)


class CsvBulkWriters:
    """Writers of CSV files, for ``FileSink.for_bulk_format``."""

    @staticmethod
    def for_schema(schema: CsvSchema) -> BulkWriterFactory[Any]:
        """Create a factory of writers for rows, tuples, dicts or dataclasses.

        >>> import io
        >>> file = io.BytesIO()
        >>> schema = CsvSchema.builder().add_number_column("id").add_string_column("name").set_use_header().build()
        >>> writer = CsvBulkWriters.for_schema(schema).create(file)
        >>> writer.add_element((1, 'a "b"'))
        >>> writer.add_element((None, ""))
        >>> writer.finish()
        >>> print(file.getvalue().decode(), end="")
        id,name
        1,"a ""b\"""
        ,""
        """
        return _CsvWriterFactory(schema)


class _CsvWriterFactory(MergingBulkWriterFactory):
    def __init__(self, schema: CsvSchema) -> None:
        self._schema = schema

    def create(self, stream: BinaryIO) -> BulkWriter[Any]:
        return _CsvWriter(self._schema, stream)

    def merge(self, sources: Sequence[Path], stream: BinaryIO) -> None:
        """Concatenate the files, with one header."""
        skipped = len(_CsvWriter(self._schema, None).header())
        stream.writelines(source.read_bytes()[skipped if index else 0 :] for index, source in enumerate(sources))


class _CsvWriter(BatchWriter):
    def __init__(self, schema: CsvSchema, stream: BinaryIO | None) -> None:
        self._schema = schema
        self._columns = RecordColumns(schema.struct)
        self._stream = stream
        special = {schema.separator, schema.quote, schema.escape, "\r", "\n", "#" if schema.comments else ""} - {""}
        self._special = special
        self._separators = [schema.separators.get(name, "") for name in schema.struct.names]
        if stream is not None:
            stream.write(self.header())

    def header(self) -> bytes:
        """Return the header line of each file, which may be empty."""
        return self._line(self._schema.struct.names) if self._schema.header else b""

    def add_batch(self, elements: list[Any]) -> None:
        columns = [column.to_pylist() for column in self._columns.batch(elements).columns]
        if self._stream is not None:
            self._stream.write(b"".join(self._line(values) for values in zip(*columns, strict=True)))

    def finish(self) -> None:
        pass

    def _line(self, values: Sequence[Any]) -> bytes:
        texts = [self._text(value, separator) for value, separator in zip(values, self._separators, strict=True)]
        return (self._schema.separator.join(texts) + self._schema.line_separator).encode()

    def _text(self, value: Any, separator: str = "") -> str:
        if isinstance(value, list):
            return self._quoted(array_text(value, separator, _plain_text))
        if value is None:
            return self._schema.null_value
        if not isinstance(value, str):
            return _plain_text(value)
        return self._quoted(value)

    def _quoted(self, text: str) -> str:
        quote = self._schema.quote
        plain = text and text != self._schema.null_value and text.strip() == text
        if plain and not any(char in text for char in self._special):
            return text
        if not quote:
            raise TypeMismatchError(f"{text!r} needs quotes, but quotes are disabled in this CSV schema")
        if self._schema.escape:
            text = text.replace(self._schema.escape, self._schema.escape * 2)
        return f"{quote}{text.replace(quote, (self._schema.escape or quote) + quote)}{quote}"


def _plain_text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (dt.date, dt.datetime)):
        return value.isoformat()
    text = str(value)
    return text if isinstance(value, str) else {"inf": "Inf", "-inf": "-Inf", "nan": "NaN"}.get(text, text)
