"""Converts between the columns of a batch and the records that the state of a built-in aggregate contains."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from tidemill.common.types import Row
from tidemill.runtime.batch.columns import RecordShape, records_of, values_of


class RecordFields:
    """Reads and creates records with the columns of a batch."""

    def __init__(self, schema: pa.Schema, shape: RecordShape) -> None:
        self.names = tuple(schema.names)
        self._schema = schema
        self._shape = shape

    def fields_of(self, records: Sequence[Any]) -> list[Sequence[Any]] | None:
        """Return the fields of records, by column; None if the records are of another form."""
        if self._shape is RecordShape.SINGLE:
            return [records]
        if self._shape is RecordShape.TUPLE:
            if set(map(type, records)) - {tuple} or set(map(len, records)) - {len(self.names)}:
                return None
            return list(zip(*records, strict=True)) if records else [()] * len(self.names)
        if any(type(record) is not Row or record._fields != self.names for record in records):
            return None
        return list(zip(*[record._values for record in records], strict=True)) if records else [()] * len(self.names)

    def records(self, lists: list[list[Any]]) -> list[Any]:
        """Create records from columns of Python values."""
        return records_of(self.names, lists, self._shape)

    def column(self, index: int, values: Sequence[Any]) -> pa.Array | None:
        """Return Python values as a column of the batch's type; None if they do not fit it."""
        try:
            return pa.array(values, self._schema.field(index).type)
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            return None


def numbers_of(column: pa.Array) -> np.ndarray | None:
    """Return a column of numbers whose sums and comparisons are those of Python's numbers; None for other columns."""
    kind = column.type
    whole = pa.types.is_integer(kind) and not pa.types.is_uint64(kind)
    if column.null_count or not (whole or pa.types.is_float64(kind)):
        return None
    numbers: np.ndarray = column.to_numpy()
    return numbers.astype(np.int64, copy=False) if whole else numbers


def numbers_like(values: Sequence[Any], numbers: np.ndarray) -> np.ndarray | None:
    """Return numbers of the state as an array like that of a column; None if they are of another type."""
    expected = int if numbers.dtype.kind == "i" else float
    if set(map(type, values)) - {expected}:
        return None
    try:
        return np.array(values, numbers.dtype)
    except OverflowError:
        return None


def fitting(numbers: np.ndarray, kind: pa.DataType) -> pa.Array | None:
    """Return numbers as a column of a type; None if one of them does not fit."""
    try:
        return pa.array(numbers).cast(kind)
    except pa.ArrowInvalid:
        return None


__all__ = ["RecordFields", "fitting", "numbers_like", "numbers_of", "values_of"]
