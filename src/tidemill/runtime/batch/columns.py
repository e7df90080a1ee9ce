"""Columnar batches: records from Arrow sources stay columns until an operator needs Python objects.

The keys and timestamps of a batch are columns too. The first operator that reads :attr:`ColumnBatch.values` creates one
object per record, once for the batch. ``docs/columns.md`` lists the operations that keep columns;
:mod:`tidemill.graph.columns` decides it for the operators of a plan.

See ``docs/decisions/0006-columns-through-key-by.md``.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from itertools import compress
from typing import Any, Final, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.common.typeinfo import RowTypeInfo, TupleTypeInfo, TypeInformation
from tidemill.common.types import Row
from tidemill.runtime.batch.records import Batch
from tidemill.state.keys.canonical_key import canonical_key, canonical_keys

#: The column with the number of a row's file, which exists if Spark reads several files and the source has event time.
FILE_COLUMN: Final = "tidemill_file"


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


class Reader(Protocol):
    """Counts the records that it turns into Python objects."""

    objects_made: int


class ColumnBatch(Batch):
    """A batch of Arrow columns. Its lists of values, timestamps and keys are created when they are first read.

    ``times`` are the event timestamps, null where a record has none; None if no record has one. ``key`` is the index of
    the column that contains the keys; None if the batch is not keyed.
    """

    __slots__ = ("_keys", "_timestamps", "_values", "columns", "key", "reader", "shape", "times")

    def __init__(
        self, columns: pa.RecordBatch, shape: RecordShape, times: pa.Int64Array | None = None, key: int | None = None
    ) -> None:
        self.columns = columns
        self.shape = shape
        self.times = times
        self.key = key
        #: Who currently processes the batch.
        self.reader: Reader | None = None
        self._values: list[Any] | None = None
        self._timestamps: list[int] | None = None
        self._keys: list[Any] | None = None

    @property
    def values(self) -> list[Any]:
        """The records, created once."""
        if self._values is None:
            lists = [values_of(column) for column in self.columns.columns]
            self._values = records_of(tuple(self.columns.schema.names), lists, self.shape)
            if self.reader is not None:
                self.reader.objects_made += len(self._values)
            if self.key is not None and self._keys is None:
                self._keys = canonical_keys(lists[self.key])
        return self._values

    @values.setter
    def values(self, values: list[Any]) -> None:
        self._values = values

    @property
    def timestamps(self) -> list[int] | None:  # type: ignore[override]  # not set: they are the column ``times``
        """The event timestamps, created once."""
        if self._timestamps is None and self.times is not None:
            self._timestamps = self.times.to_pylist()
        return self._timestamps

    @property
    def last_timestamp(self) -> int | None:
        return None if self.times is None or not len(self.times) else self.times[-1].as_py()

    @property
    def keys(self) -> list[Any] | None:
        """The keys in canonical form, created once."""
        if self._keys is None and self.key is not None:
            self._keys = canonical_keys(values_of(self.columns.column(self.key)))
        return self._keys

    @keys.setter
    def keys(self, keys: list[Any] | None) -> None:
        self._keys = keys

    @property
    def key_values(self) -> Sequence[Any] | None:
        """The keys, of which only those that are accessed become Python objects."""
        return _LazyKeys(self.columns.column(self.key)) if self._keys is None and self.key is not None else self._keys

    @property
    def immutable(self) -> bool:
        """Whether nobody can change the records, once they are Python objects."""
        return self.shape is not RecordShape.ROW and not any(
            pa.types.is_nested(kind) for kind in self.columns.schema.types
        )

    def select(self, positions: Sequence[int]) -> ColumnBatch | None:
        """Return the columns at these positions; None if there is no such column."""
        if self.shape is RecordShape.SINGLE or max(positions) >= self.columns.num_columns:
            return None
        return ColumnBatch(self.columns.select(list(positions)), self.shape, self.times)

    def without_keys(self) -> ColumnBatch:
        """Return the same rows, which are no longer keyed."""
        if self.key is None:
            return self
        plain = self._derived(self.columns, self.times, self._values)
        plain.key = plain._keys = None
        return plain

    def again(self) -> ColumnBatch:
        """Return a batch of the same rows, for a consumer that creates its own records."""
        return self._derived(self.columns, self.times, None)

    def where(self, chosen: Sequence[Any] | pa.BooleanArray) -> ColumnBatch:
        """Return the rows whose entry in ``chosen`` is true. A null is not."""
        mask = chosen if isinstance(chosen, pa.BooleanArray) else pa.array([bool(one) for one in chosen], pa.bool_())
        times = None if self.times is None else self.times.filter(mask)
        values = None if self._values is None else list(compress(self._values, mask.to_pylist()))
        return self._derived(self.columns.filter(mask), times, values)

    def slice(self, start: int, stop: int) -> ColumnBatch:
        times = None if self.times is None else self.times.slice(start, stop - start)
        values = None if self._values is None else self._values[start:stop]
        return self._derived(self.columns.slice(start, stop - start), times, values)

    def rows(self, positions: np.ndarray) -> ColumnBatch:
        """Return the rows at these positions."""
        indices = pa.array(positions)
        return self._derived(self.columns.take(indices), None if self.times is None else self.times.take(indices), None)

    def _derived(self, columns: pa.RecordBatch, times: pa.Int64Array | None, values: list[Any] | None) -> ColumnBatch:
        derived = ColumnBatch(columns, self.shape, times, self.key)
        derived._values = values
        return derived

    def __len__(self) -> int:
        rows: int = self.columns.num_rows
        return rows


class _LazyKeys(Sequence[Any]):
    """The keys in a column; each becomes a Python object when it is accessed."""

    __slots__ = ("_column",)

    def __init__(self, column: pa.Array) -> None:
        self._column = column

    def __getitem__(self, position: Any) -> Any:
        return canonical_key(self._column[position].as_py())

    def __len__(self) -> int:
        return len(self._column)


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
