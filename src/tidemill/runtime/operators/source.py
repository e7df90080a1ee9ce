"""The head of a source chain: turns what the engine hands a subtask into batches."""

from __future__ import annotations

import pickle
from collections.abc import Iterator

import pyarrow as pa

from tidemill.common.watermark_strategy import NoWatermarksGenerator, WatermarkStrategy
from tidemill.datastream.sources import RecordBatch, SplitSource
from tidemill.datastream.specs import SourceSpec, TimestampsSpec
from tidemill.runtime.columns import ColumnBatch, Shape
from tidemill.runtime.operators.base import Operator, OperatorContext
from tidemill.runtime.operators.stateless import TimestampsOperator
from tidemill.runtime.records import Batch

#: Records handed to the chain at once: large enough to make per-batch work small, small enough for the cache.
BATCH_SIZE = 8192
#: As long as records are columns a batch may be larger: the more rows, the less often each key is looked up.
COLUMN_BATCH_SIZE = 32768


class SourceOperator(Operator):
    """Reads the input of one subtask and one epoch."""

    def __init__(self, spec: SourceSpec, context: OperatorContext, schema: pa.Schema | None) -> None:
        super().__init__(context)
        self._source = spec.source
        self._schema = schema
        self._shape = Shape.of(getattr(spec.source, "type_info", None))
        self._timestamps = None
        if spec.watermarks is not None and not does_nothing(spec.watermarks):
            self._timestamps = TimestampsOperator(TimestampsSpec(spec.watermarks), context)

    def consume(self, inputs: Iterator[bytes | pa.RecordBatch]) -> Iterator[int]:
        """Emit all records of the input: splits, or Arrow batches as bytes or decoded.

        Yields the number of records after each batch, so that output can drain.
        """
        for item in inputs:
            for read in self._read(item):
                for batch in self._cut(read):
                    self._emit(batch)
                    yield len(batch)

    def _cut(self, read: RecordBatch | pa.RecordBatch) -> Iterator[Batch]:
        if isinstance(read, RecordBatch):
            for start in range(0, len(read.values), BATCH_SIZE):
                stamps = None if read.timestamps is None else read.timestamps[start : start + BATCH_SIZE]
                yield Batch(read.values[start : start + BATCH_SIZE], stamps)
        else:
            for start in range(0, read.num_rows, COLUMN_BATCH_SIZE):
                yield ColumnBatch(read.slice(start, COLUMN_BATCH_SIZE), self._shape)

    def _emit(self, batch: Batch) -> None:
        if self._timestamps is None:
            self.output.emit_batch(batch)
            return
        self._timestamps.current_watermark = self.current_watermark
        self._timestamps.process(batch, 0)
        self.current_watermark = self._timestamps.current_watermark

    def _read(self, item: bytes | pa.RecordBatch) -> Iterator[RecordBatch | pa.RecordBatch]:
        try:
            if self._schema is not None:
                encoded = isinstance(item, bytes)
                yield pa.ipc.read_record_batch(pa.py_buffer(item), self._schema) if encoded else item
            elif isinstance(self._source, SplitSource):
                for split in pickle.loads(item):
                    yield from self._source.read(split)
        except Exception as error:
            raise self.failed(error, method="read") from error


def does_nothing(strategy: WatermarkStrategy) -> bool:
    """Whether a strategy neither stamps records nor makes watermarks."""
    made = strategy.create_watermark_generator()
    return strategy.timestamp_assigner is None and type(made) is NoWatermarksGenerator
