"""Event timestamps from a column, as ``TimestampColumn`` takes them from single records."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.common.watermark_strategy import MILLIS_PER_DAY, UNITS, TimestampColumn
from tidemill.runtime.batch.columns import ColumnBatch, RecordShape


class EventTimeError(ValueError):
    """A value that cannot be a timestamp; ``position`` is its row."""

    def __init__(self, problem: str, position: int) -> None:
        super().__init__(problem)
        self.position = position


def event_times(batch: ColumnBatch, source: TimestampColumn) -> pa.Int64Array | None:
    """Return the timestamps in milliseconds; None if they cannot be computed from a column alone."""
    index = _index_of(batch, source.field)
    if index is None:
        return None
    column = batch.columns.column(index)
    if column.null_count:
        position = pc.index(column.is_null(), pa.scalar(True)).as_py()
        raise EventTimeError(f"field {source.field!r} cannot be a timestamp: None", position)
    kind = column.type
    if pa.types.is_timestamp(kind):
        return _scaled(column.cast(pa.int64()), *UNITS[kind.unit])
    if pa.types.is_date32(kind):
        return _scaled(column.cast(pa.int32()).cast(pa.int64()), MILLIS_PER_DAY, 1)
    if pa.types.is_integer(kind) and not pa.types.is_uint64(kind):
        return _scaled(column.cast(pa.int64()), *UNITS[source.unit])
    return None


def _index_of(batch: ColumnBatch, field: str | int) -> int | None:
    if batch.shape is RecordShape.SINGLE or (isinstance(field, str) and batch.shape is not RecordShape.ROW):
        return None
    index = batch.columns.schema.get_field_index(field) if isinstance(field, str) else field
    return index if 0 <= index < batch.columns.num_columns else None


def _scaled(times: pa.Int64Array, factor: int, divisor: int) -> pa.Int64Array:
    """Multiply, then divide and round down. Raises :class:`EventTimeError` for a product of more than 64 bits."""
    if factor == divisor == 1:
        return times
    if divisor > 1:  # Arrow divides towards zero
        return pa.array(times.to_numpy() // divisor)
    numbers = times.to_numpy()
    limit = (2**63 - 1) // factor
    if len(numbers) and (numbers.max() > limit or numbers.min() < -limit):
        position = int(np.argmax(np.abs(numbers.astype(np.float64))))
        raise EventTimeError(f"a timestamp must fit 64 bits of milliseconds: {numbers[position]}", position)
    return pa.array(numbers * factor)
