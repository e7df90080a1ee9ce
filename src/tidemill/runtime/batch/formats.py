"""The formats in which batch functions receive and return columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa

from tidemill.errors import TypeMismatchError
from tidemill.runtime.batch.columns import RecordShape

#: How columns without a name of their own are named.
_VALUE: Final = "value"


def given(columns: pa.RecordBatch, shape: RecordShape, form: str) -> Any:
    """Return columns in a format, without a copy where the format allows it. A single column is an array or series."""
    single = shape is RecordShape.SINGLE
    if form == "arrow":
        return columns.column(0) if single else columns
    if form == "pandas":
        return columns.column(0).to_pandas() if single else columns.to_pandas()
    if form == "polars":
        import polars as pl

        return pl.from_arrow(columns.column(0)) if single else pl.from_arrow(columns)
    arrays = {name: _numpy(column) for name, column in zip(columns.schema.names, columns.columns, strict=True)}
    return next(iter(arrays.values())) if single else arrays


def returned(result: Any, form: str) -> tuple[pa.RecordBatch, bool]:
    """Return what a function returned as columns, and whether it was one array or series and not a table."""
    if form == "polars":
        result = result.to_arrow()
    elif form == "pandas":
        import pandas as pd

        if isinstance(result, pd.DataFrame):
            copied = pa.RecordBatch.from_pandas(result.copy(), preserve_index=False)
            return copied.replace_schema_metadata(None), False
        result = result.copy() if isinstance(result, pd.Series) else result
    if isinstance(result, pa.RecordBatch):
        return result, False
    if isinstance(result, pa.Table):
        return _one_batch(result), False
    if isinstance(result, Mapping):
        return pa.RecordBatch.from_arrays([_array(one) for one in result.values()], names=list(result)), False
    return pa.RecordBatch.from_arrays([_array(result)], names=[_VALUE]), True


def mask_of(result: Any, form: str, rows: int) -> pa.BooleanArray:
    """Return what the function of ``filter_batch`` returned: a boolean for each row."""
    columns, single = returned(result, form)
    mask = columns.column(0)
    if not single or not pa.types.is_boolean(mask.type):
        raise TypeMismatchError(f"filter_batch() must return booleans, not {_described(columns, single=single)}")
    if len(mask) != rows:
        raise TypeMismatchError(f"filter_batch() must return one boolean for each record: {rows} in, {len(mask)} out")
    return mask


def in_schema(columns: pa.RecordBatch, schema: pa.Schema | None, *, by_name: bool) -> pa.RecordBatch:
    """Return columns in the order and with the types of a declared type. Raises :class:`TypeMismatchError`."""
    if schema is None or columns.schema.equals(schema):
        return columns
    if by_name and set(columns.schema.names) == set(schema.names):
        columns = columns.select(schema.names)
    if columns.num_columns != len(schema):
        raise TypeMismatchError(
            f"the function returned the columns {', '.join(columns.schema.names)}, but its type has "
            f"{', '.join(schema.names)}"
        )
    arrays = []
    for column, field in zip(columns.columns, schema, strict=True):
        try:
            arrays.append(column if column.type.equals(field.type) else column.cast(field.type))
        except pa.ArrowException as error:
            raise TypeMismatchError(
                f"column {field.name!r} of type {column.type} does not fit its declared type {field.type}: {error}"
            ) from None
    return pa.RecordBatch.from_arrays(arrays, names=schema.names)


def _numpy(column: pa.Array) -> np.ndarray:
    made: np.ndarray = column.to_numpy(zero_copy_only=False)
    return made


def _array(values: Any) -> pa.Array:
    if isinstance(values, pa.Array):
        return values
    if isinstance(values, pa.ChunkedArray):
        return values.combine_chunks() if values.num_chunks != 1 else values.chunk(0)
    # Arrow would share the memory of a NumPy array, which the function may change afterwards.
    return pa.array(values.copy() if isinstance(values, np.ndarray) else values)


def _one_batch(table: pa.Table) -> pa.RecordBatch:
    batches = table.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], table.schema)


def _described(columns: pa.RecordBatch, *, single: bool) -> str:
    return str(columns.column(0).type) if single else f"a table with the columns {', '.join(columns.schema.names)}"
