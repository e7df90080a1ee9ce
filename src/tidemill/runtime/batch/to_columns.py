"""Converts batches of records to columns, for batch functions. The opposite is :attr:`ColumnBatch.values`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from tidemill.common.type_kinds.basic import PickledBytesTypeInfo
from tidemill.common.typeinfo import TypeInformation
from tidemill.common.types import Row
from tidemill.connectors.spark.records import RecordColumns
from tidemill.connectors.spark.type_mapping import schema_of
from tidemill.errors import GraphError, TypeMismatchError
from tidemill.runtime.batch.columns import ColumnBatch, RecordShape
from tidemill.runtime.batch.records import Batch


class ToColumns:
    """Converts the batches of one stream. Without a declared type, columns are inferred from the records of a batch."""

    def __init__(self, type_info: TypeInformation | None) -> None:
        self._declared = record_columns(type_info)
        self._shape = RecordShape.of(type_info)

    def batch(self, batch: Batch) -> ColumnBatch:
        """Return the batch itself if it is columns already."""
        if isinstance(batch, ColumnBatch):
            return batch
        times = None if batch.timestamps is None else pa.array(batch.timestamps, pa.int64())
        if self._declared is not None:
            return ColumnBatch(self._declared.batch(batch.values), self._shape, times)
        columns, shape = _inferred(batch.values)
        return ColumnBatch(columns, shape, times)


def record_columns(type_info: TypeInformation | None) -> RecordColumns | None:
    """Return the conversion to the columns of a declared type; None if no type with columns is declared."""
    if type_info is None or isinstance(type_info, PickledBytesTypeInfo):
        return None
    try:
        return RecordColumns(schema_of(type_info))
    except GraphError:  # a type, such as a pickled field, that has no column type
        return None


def _inferred(values: Sequence[Any]) -> tuple[pa.RecordBatch, RecordShape]:
    first = values[0]
    try:
        if isinstance(first, Row):
            names: Sequence[str] = first.get_field_names() or [f"f{place}" for place in range(len(first))]
            if any(not isinstance(row, Row) or row._fields != first._fields for row in values):
                raise TypeMismatchError("they are not rows with the same fields")
            lists = list(zip(*(row._values for row in values), strict=True))
            return pa.RecordBatch.from_arrays([pa.array(one) for one in lists], names=list(names)), RecordShape.ROW
        if type(first) is tuple:
            lists = list(zip(*values, strict=True))
            names = [f"f{place}" for place in range(len(lists))]
            return pa.RecordBatch.from_arrays([pa.array(one) for one in lists], names=names), RecordShape.TUPLE
        return pa.RecordBatch.from_arrays([pa.array(values)], names=["value"]), RecordShape.SINGLE
    except (pa.ArrowException, TypeError, ValueError, OverflowError, TypeMismatchError) as error:
        raise TypeMismatchError(
            f"records of type {type(first).__name__} cannot be converted to columns: {error}. Declare the type of the "
            "stream (output_type of the operator before), or use batch_format='list'"
        ) from error
