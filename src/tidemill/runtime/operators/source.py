"""The head of a source chain: turns what the engine hands a subtask into batches."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from tidemill.common.typeinfo import RowTypeInfo, TupleTypeInfo, TypeInformation
from tidemill.common.types import Row
from tidemill.datastream.sources import RecordBatch, SplitSource
from tidemill.datastream.specs import SourceSpec, TimestampsSpec
from tidemill.runtime.operators.base import Operator, OperatorContext
from tidemill.runtime.operators.stateless import TimestampsOperator
from tidemill.runtime.records import Batch

#: Records handed to the chain at once: large enough to make per-batch work small, small enough for the cache.
BATCH_SIZE = 8192


class SourceOperator(Operator):
    """Reads the input of one subtask and one epoch."""

    def __init__(self, spec: SourceSpec, context: OperatorContext, schema: pa.Schema | None) -> None:
        super().__init__(context)
        self._source = spec.source
        self._schema = schema
        self._timestamps = None
        if spec.watermarks is not None:
            self._timestamps = TimestampsOperator(TimestampsSpec(spec.watermarks), context)

    def consume(self, inputs: Iterator[bytes | pa.RecordBatch]) -> Iterator[int]:
        """Emit all records of the input: splits, or Arrow batches as bytes or decoded.

        Yields the number of records after each batch, so that output can drain.
        """
        for item in inputs:
            for batch in self._read(item):
                for start in range(0, len(batch.values), BATCH_SIZE):
                    values = batch.values[start : start + BATCH_SIZE]
                    stamps = None if batch.timestamps is None else batch.timestamps[start : start + BATCH_SIZE]
                    self._emit(values, stamps)
                    yield len(values)

    def _emit(self, values: list[Any], stamps: list[int] | None) -> None:
        if self._timestamps is None:
            self.output.emit(values, stamps)
            return
        self._timestamps.current_watermark = self.current_watermark
        self._timestamps.process(Batch(values, stamps), 0)
        self.current_watermark = self._timestamps.current_watermark

    def _read(self, item: bytes | pa.RecordBatch) -> Iterator[RecordBatch]:
        try:
            if self._schema is not None:
                arrow = item
                if isinstance(item, bytes):
                    arrow = pa.ipc.read_record_batch(pa.py_buffer(item), self._schema)
                yield RecordBatch(records_of(arrow, getattr(self._source, "type_info", None)))
            elif isinstance(self._source, SplitSource):
                split = pickle.loads(item)
                yield from self._source.read(split)
        except Exception as error:
            raise self.failed(error, method="read") from error


def records_of(batch: pa.RecordBatch, type_info: TypeInformation | None) -> list[Any]:
    """The rows of an Arrow batch as records: tuples or single values where the type says so, else :class:`Row`."""
    columns: list[list[Any]] = [_values_of(column) for column in batch.columns]
    if isinstance(type_info, TupleTypeInfo):
        return list(zip(*columns, strict=True))
    if type_info is None or isinstance(type_info, RowTypeInfo):
        return Row.of_columns(tuple(batch.schema.names), columns)
    return columns[0]


def _values_of(column: pa.Array) -> list[Any]:
    if pa.types.is_nested(column.type):  # Arrow's own form of a map is a list of pairs
        nested: list[Any] = column.to_pylist(maps_as_pydicts="strict")
        return nested
    values: list[Any] = column.to_pylist()
    return values
