"""Reads Parquet and ORC files, with the columns and types of a schema or of the file itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

import pyarrow as pa

from tidemill.connectors.spark.schema_types import StructOf
from tidemill.connectors.spark.type_mapping import arrow_schema_of
from tidemill.local.files.format import BATCH_ROWS, ReadFormat, UnreadableFileError

__all__ = ["OrcFormat", "ParquetFormat"]


class _ColumnarFormat(ReadFormat):
    may_be_compressed = False

    def __init__(self, struct: StructOf | None) -> None:
        """Without a schema, the one of the first file is used."""
        self._declared = None if struct is None else arrow_schema_of(struct)

    def schema(self, example: BinaryIO | None) -> pa.Schema:
        if self._declared is not None:
            return self._declared
        if example is None:
            raise UnreadableFileError("there is no file that could tell the schema: specify one")
        _, found = self._opened(example)
        return pa.schema([pa.field(field.name, _canonical(field.type, field.name)) for field in found])

    def batches(self, file: BinaryIO, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        read, found = self._opened(file)
        columns: list[tuple[pa.Field, str | None]] = []
        for field in schema:
            same = [one for one in found.names if one == field.name]
            alike = same or [one for one in found.names if one.lower() == field.name.lower()]
            if len(alike) > 1:
                raise UnreadableFileError(f"it has several columns {field.name!r}")
            if alike and not _fits(found.field(alike[0]).type, field.type):
                raise UnreadableFileError(
                    f"column {field.name!r} is {found.field(alike[0]).type}, but the schema requires {field.type}"
                )
            columns.append((field, alike[0] if alike else None))
        for batch in read([name for _, name in columns if name is not None]):
            arrays = [
                pa.nulls(batch.num_rows, field.type) if name is None else _cast(batch, found, name, field.type)
                for field, name in columns
            ]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    def _opened(self, file: BinaryIO) -> tuple[Callable[[list[str]], Iterator[pa.RecordBatch]], pa.Schema]:
        """Return a function that reads columns, and the schema of the file."""
        raise NotImplementedError


class ParquetFormat(_ColumnarFormat):
    """Parquet files."""

    def _opened(self, file: BinaryIO) -> tuple[Callable[[list[str]], Iterator[pa.RecordBatch]], pa.Schema]:
        import pyarrow.parquet as pq

        opened = pq.ParquetFile(file, coerce_int96_timestamp_unit="us")
        physical = {
            opened.schema.column(index).path: opened.schema.column(index).physical_type
            for index in range(len(opened.schema))
        }
        # INT96 is always a moment, although its type has no zone.
        schema = pa.schema(
            [
                pa.field(one.name, pa.timestamp("us", "UTC") if physical.get(one.name) == "INT96" else one.type)
                for one in opened.schema_arrow
            ]
        )

        def read(columns: list[str]) -> Iterator[pa.RecordBatch]:
            if not columns:
                return iter([_empty(opened.metadata.num_rows)])
            found: Iterator[pa.RecordBatch] = opened.iter_batches(batch_size=BATCH_ROWS, columns=columns)
            return found

        return read, schema


class OrcFormat(_ColumnarFormat):
    """ORC files."""

    def _opened(self, file: BinaryIO) -> tuple[Callable[[list[str]], Iterator[pa.RecordBatch]], pa.Schema]:
        from pyarrow import orc

        opened = orc.ORCFile(file)

        def read(columns: list[str]) -> Iterator[pa.RecordBatch]:
            if not columns:
                yield _empty(opened.nrows)
                return
            for index in range(opened.nstripes):
                stripe = opened.read_stripe(index, columns=columns)
                for start in range(0, stripe.num_rows, BATCH_ROWS):
                    yield stripe.slice(start, BATCH_ROWS)

        return read, opened.schema


def _empty(rows: int) -> pa.RecordBatch:
    """Return rows without columns of interest."""
    return pa.RecordBatch.from_arrays([pa.nulls(rows)], names=[""])


def _cast(batch: pa.RecordBatch, found: pa.Schema, name: str, kind: pa.DataType) -> Any:
    column = batch.column(batch.schema.get_field_index(name))
    known = found.field(name).type
    if column.type != known and pa.types.is_timestamp(known):
        column = column.cast(known)
    return column if column.type == kind else column.cast(kind)


def _fits(found: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether values of one type are read as another, as Spark's readers do, without loss."""
    types = pa.types
    if found == wanted:
        return True
    if types.is_dictionary(found):
        return _fits(found.value_type, wanted)
    if types.is_signed_integer(found) and types.is_signed_integer(wanted):
        return bool(found.bit_width <= wanted.bit_width)
    if types.is_float64(wanted):
        return bool(types.is_float32(found) or (types.is_signed_integer(found) and found.bit_width <= 32))
    if types.is_timestamp(found) and types.is_timestamp(wanted):
        return (found.tz is None) == (wanted.tz is None)
    if types.is_decimal(found) and types.is_decimal(wanted):
        return bool(found.scale == wanted.scale and found.precision <= wanted.precision)
    if types.is_large_string(found) or types.is_large_binary(found):
        return bool(types.is_string(wanted) if types.is_large_string(found) else types.is_binary(wanted))
    if types.is_list(found) and types.is_list(wanted):
        return _fits(found.value_type, wanted.value_type)
    if types.is_map(found) and types.is_map(wanted):
        return _fits(found.key_type, wanted.key_type) and _fits(found.item_type, wanted.item_type)
    if types.is_struct(found) and types.is_struct(wanted):
        names = [found.field(index).name for index in range(found.num_fields)]
        return names == [wanted.field(index).name for index in range(wanted.num_fields)] and all(
            _fits(found.field(index).type, wanted.field(index).type) for index in range(found.num_fields)
        )
    return False


def _canonical(kind: pa.DataType, name: str) -> pa.DataType:
    """Return the type that Spark's columns have for a type of a file."""
    types = pa.types
    if types.is_dictionary(kind):
        return _canonical(kind.value_type, name)
    if types.is_timestamp(kind):
        return pa.timestamp("us", None if kind.tz is None else "UTC")
    if types.is_large_string(kind):
        return pa.string()
    if types.is_large_binary(kind):
        return pa.binary()
    if types.is_list(kind) or types.is_large_list(kind):
        return pa.list_(pa.field("element", _canonical(kind.value_type, name)))
    if types.is_map(kind):
        return pa.map_(_canonical(kind.key_type, name), pa.field("value", _canonical(kind.item_type, name)))
    if types.is_struct(kind):
        return pa.struct([pa.field(field.name, _canonical(field.type, name)) for field in kind])
    plain = (
        types.is_boolean(kind)
        or types.is_signed_integer(kind)
        or types.is_float32(kind)
        or types.is_float64(kind)
        or types.is_string(kind)
        or types.is_binary(kind)
        or types.is_date32(kind)
        or types.is_decimal128(kind)
    )
    if not plain:
        raise UnreadableFileError(f"column {name!r} has type {kind}, which Spark's columns do not have")
    return kind
