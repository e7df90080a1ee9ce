"""Columnar batches: records from Arrow sources stay columns until an operator needs Python objects.

If a source is followed by ``key_by`` on a field, it creates no Python objects: the key column determines the targets of
the rows, the rows cross the exchange as Arrow data, and the receiver creates the records and takes the keys from the
column that it has converted anyway.

These convert columns to Python objects:

- any operator that reads :attr:`ColumnBatch.values` or calls ``where``, which reads it. All operators except the source
  do: even a ``filter`` or the assignment of timestamps between source and ``key_by`` ends the columnar path;
- a source with a decoder, or a source that yields Python records;
- an exchange other than ``key_by`` on a field, and keys that are null, floats or computed by a function
  (:func:`key_column`).

See ``docs/decisions/0006-columns-through-key-by.md``.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.common.typeinfo import RowTypeInfo, TupleTypeInfo, TypeInformation
from tidemill.common.types import Row
from tidemill.datastream.program.key_selectors import FieldSelector, PositionSelector
from tidemill.runtime.batch.records import Batch
from tidemill.state.keys.key_groups import TargetCache

#: The column with the number of a row's file, which exists if Spark reads several files and the source has event time.
FILE_COLUMN: Final = "tidemill_file"

_SHAPE: Final = b"tidemill.shape"
_KEY: Final = b"tidemill.key"


class RecordShape(enum.Enum):
    """The form of a record: a tuple, a :class:`Row`, or the value of the only column."""

    TUPLE = "tuple"
    ROW = "row"
    SINGLE = "single"

    @classmethod
    def of(cls, type_info: TypeInformation | None) -> RecordShape:
        """Return the shape for the declared type of a source."""
        if isinstance(type_info, TupleTypeInfo):
            return cls.TUPLE
        return cls.ROW if type_info is None or isinstance(type_info, RowTypeInfo) else cls.SINGLE


def records_of(names: tuple[str, ...], columns: list[list[Any]], shape: RecordShape) -> list[Any]:
    """Convert columns of Python values to records."""
    if shape is RecordShape.TUPLE:
        return list(zip(*columns, strict=True))
    if shape is RecordShape.ROW:
        return Row.of_columns(names, columns)
    return columns[0]


def values_of(column: pa.Array) -> list[Any]:
    """Convert a column to Python values."""
    if pa.types.is_nested(column.type):  # by default, Arrow converts a map to a list of pairs
        nested: list[Any] = column.to_pylist(maps_as_pydicts="strict")
        return nested
    values: list[Any] = column.to_pylist()
    return values


class ColumnBatch(Batch):
    """A batch without timestamps whose values are created from Arrow columns when they are first read.

    ``where`` is inherited: it reads the values, and returns a batch of Python objects.
    """

    __slots__ = ("_values", "columns", "shape")

    def __init__(self, columns: pa.RecordBatch, shape: RecordShape) -> None:
        self.columns = columns
        self.shape = shape
        self.timestamps = None
        self.keys = None
        self._values: list[Any] | None = None

    @property
    def values(self) -> list[Any]:
        """The records, created once."""
        if self._values is None:
            lists = [values_of(column) for column in self.columns.columns]
            self._values = records_of(tuple(self.columns.schema.names), lists, self.shape)
        return self._values

    @values.setter
    def values(self, values: list[Any]) -> None:
        self._values = values

    def again(self) -> ColumnBatch:
        """Return a batch of the same rows, for a consumer that creates its own records."""
        return ColumnBatch(self.columns, self.shape)

    def __len__(self) -> int:
        rows: int = self.columns.num_rows
        return rows


def key_column(batch: ColumnBatch, selector: Any) -> int | None:
    """Return the index of the column that contains the keys; None if rows cannot be distributed by a column.

    The column must consist of integers or strings without nulls: other keys, such as NaN, have a canonical form.
    """
    if isinstance(selector, PositionSelector) and batch.shape is not RecordShape.SINGLE:
        index = selector.position
    elif isinstance(selector, FieldSelector) and batch.shape is RecordShape.ROW:
        index = batch.columns.schema.get_field_index(selector.path)
    else:
        return None
    if not 0 <= index < batch.columns.num_columns:
        return None
    column = batch.columns.column(index)
    kind = column.type
    plain = pa.types.is_integer(kind) or pa.types.is_string(kind) or pa.types.is_large_string(kind)
    return index if plain and not column.null_count else None


def deal_columns(
    batch: ColumnBatch, key: int, targets: int, target_of: TargetCache
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Distribute the rows of a batch to targets. Each distinct key is looked up once, however many rows have it."""
    if targets == 1:
        yield 0, batch.columns
        return
    encoded = batch.columns.column(key).dictionary_encode()
    chosen = np.array(target_of.targets(encoded.dictionary.to_pylist()), dtype=np.int64)[encoded.indices.to_numpy()]
    for target in np.unique(chosen).tolist():
        yield target, batch.columns.take(pa.array(np.flatnonzero(chosen == target)))


def encode_columns(batches: list[pa.RecordBatch], shape: RecordShape, key: int) -> bytes:
    """Encode rows for an exchange as one Arrow IPC stream."""
    metadata = {_SHAPE: shape.value.encode(), _KEY: str(key).encode()}
    sink = pa.BufferOutputStream()
    schema = batches[0].schema.with_metadata(metadata)
    with pa.ipc.new_stream(sink, schema) as writer:
        for batch in batches:
            writer.write_batch(batch.replace_schema_metadata(metadata))
    data: bytes = sink.getvalue().to_pybytes()
    return data


def rows_by_file(rows: pa.RecordBatch) -> list[tuple[int | None, pa.RecordBatch]]:
    """Return runs of adjacent rows of one file, with its number if known, without the column that contains it."""
    index = rows.schema.get_field_index(FILE_COLUMN)
    if index < 0:
        return [(None, rows)]
    runs = pc.run_end_encode(rows.column(index))
    rows = rows.remove_column(index)
    starts = [0, *runs.run_ends.to_pylist()]
    return [
        (file, rows.slice(start, stop - start))
        for file, start, stop in zip(runs.values.to_pylist(), starts, starts[1:], strict=False)
    ]


def rows_by_partition(rows: pa.RecordBatch, columns: Sequence[str]) -> list[tuple[str, pa.RecordBatch]]:
    """Group rows by the values of the columns, in order: ``"3"``, or for several columns ``"clicks/3"``."""
    texts = [rows.column(column).cast(pa.string()) for column in columns]
    names = pc.binary_join_element_wise(*texts, "/", null_handling="replace", null_replacement="null")
    known = names.unique().to_pylist()
    if len(known) == 1:
        return [(known[0], rows)]
    return [(name, rows.filter(pc.equal(names, name))) for name in known]


def decode_columns(data: bytes | memoryview) -> Iterator[Batch]:
    """Return the batches of a parcel, with their keys."""
    with pa.ipc.open_stream(pa.py_buffer(data)) as reader:
        metadata = reader.schema.metadata
        shape, key = RecordShape(metadata[_SHAPE].decode()), int(metadata[_KEY])
        names = tuple(reader.schema.names)
        for columns in reader:
            lists = [values_of(column) for column in columns.columns]
            yield Batch(records_of(names, lists, shape), None, lists[key])
