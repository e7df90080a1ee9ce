"""Distributes the rows of columnar batches to the targets of an exchange, without creating records."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from tidemill.datastream.program.key_selectors import FieldSelector, PositionSelector
from tidemill.runtime.batch.columns import ColumnBatch, RecordShape

#: Columns whose values have the form of every declared type of keys that rows are distributed by.
_PLAIN_TYPES: Final = (pa.types.is_integer, pa.types.is_string, pa.types.is_large_string)
#: Columns whose values become keys of one Python type, and which Arrow can group without changing them. Floats are not
#: among them, because of NaN, nor are times with nanoseconds, which no Python type of the standard library can hold.
_KEY_TYPES: Final = (
    *_PLAIN_TYPES,
    pa.types.is_binary,
    pa.types.is_large_binary,
    pa.types.is_boolean,
    pa.types.is_date32,
    pa.types.is_decimal128,
    lambda kind: pa.types.is_timestamp(kind) and kind.unit != "ns",
)


def key_column(batch: ColumnBatch, selector: Any, *, typed: bool = False) -> int | None:
    """Return the index of the column that contains the keys; None if rows cannot be distributed by a column.

    With ``typed``, the keys have a declared type.
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
    if typed and column.null_count:
        return None
    return index if any(is_one(column.type) for is_one in (_PLAIN_TYPES if typed else _KEY_TYPES)) else None


def deal_by_key(
    batch: ColumnBatch, key: int, count: int, targets_of: Callable[[list[Any]], Sequence[int]]
) -> Iterator[tuple[int, ColumnBatch]]:
    """Distribute rows by the key groups of a column. Each distinct key is looked up once, however many rows have it."""
    batch = ColumnBatch(batch.columns, batch.shape, batch.times, key)
    if count == 1:
        yield 0, batch
        return
    encoded = batch.columns.column(key).dictionary_encode(null_encoding="encode")
    targets = np.array(targets_of(encoded.dictionary.to_pylist()), dtype=np.int64)
    yield from deal_chosen(batch, targets[encoded.indices.to_numpy()])


def deal_chosen(batch: ColumnBatch, chosen: np.ndarray) -> Iterator[tuple[int, ColumnBatch]]:
    """Distribute rows to the targets in ``chosen``, one for each row."""
    for target in np.unique(chosen).tolist():
        yield target, batch.rows(np.flatnonzero(chosen == target))


def deal_in_turn(batch: ColumnBatch, offset: int, count: int) -> ColumnBatch:
    """Return every ``count``-th row."""
    return batch.rows(np.arange(offset, len(batch), count))
