"""The head of a source chain: turns what the engine hands a subtask into batches."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa

from tidemill.common.watermark_strategy import NoWatermarksGenerator, WatermarkStrategy
from tidemill.datastream.sources import RecordBatch, Split, SplitSource
from tidemill.datastream.specs import SourceSpec, TimestampsSpec
from tidemill.runtime.columns import ColumnBatch, Shape, rows_by_partition
from tidemill.runtime.operators.base import Operator, OperatorContext
from tidemill.runtime.operators.timestamps import TimestampsOperator
from tidemill.runtime.records import Batch
from tidemill.runtime.time_states import TimeState

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
        self._partition_by: Sequence[str] = getattr(spec.source, "partition_by", ())
        self._timestamps = None
        if spec.watermarks is not None and not does_nothing(spec.watermarks):
            self._timestamps = TimestampsOperator(TimestampsSpec(spec.watermarks), context)

    def restore_time(self, state: TimeState) -> None:
        if self._timestamps is not None:
            self._timestamps.current_watermark = self.current_watermark
            self._timestamps.restore_time(state)

    def know_partitions(self, states: Sequence[TimeState]) -> None:
        """What all subtasks know of the partitions that rows name: any of them may come here."""
        if self._timestamps is not None:
            self._timestamps.know_partitions(states)

    def time_state(self) -> TimeState:
        return None if self._timestamps is None else self._timestamps.time_state()

    def idle_from(self) -> int | None:
        return None if self._timestamps is None else self._timestamps.idle_from()

    def begin_epoch(self, processing_time: int) -> None:
        super().begin_epoch(processing_time)
        if self._timestamps is not None:
            self._timestamps.begin_epoch(processing_time)

    def watermark(self, watermark: int) -> None:
        if self._timestamps is None:
            super().watermark(watermark)
        else:
            self._timestamps.watermark(watermark)
            self.current_watermark = watermark

    def end_epoch(self) -> None:
        if self._timestamps is not None:
            self._timestamps.end_epoch()
            self.current_watermark = self._timestamps.current_watermark

    def consume(self, inputs: Iterator[bytes | pa.RecordBatch]) -> Iterator[int]:
        """Emit all records of the input: splits, or Arrow batches as bytes or decoded.

        Yields the number of records after each batch, so that output can drain.
        """
        for item in inputs:
            for split in self._splits(item):
                partition = None if split is None else split.partition
                for read in self._read(item, split):
                    for of, rows in self._by_partition(read, partition):
                        for batch in self._cut(rows):
                            self._emit(batch, of)
                            yield len(batch)
                if split is not None and split.last and self._timestamps is not None:
                    self._timestamps.release_partition(partition)
                    self.current_watermark = self._timestamps.current_watermark

    def _by_partition(
        self, read: RecordBatch | pa.RecordBatch, partition: str | None
    ) -> Iterable[tuple[str | None, RecordBatch | pa.RecordBatch]]:
        """What was read, by the partitions that rows name, if they do."""
        if not self._partition_by or self._timestamps is None or not isinstance(read, pa.RecordBatch):
            return [(partition, read)]
        self._timestamps.name_partitions()
        try:
            return rows_by_partition(read, self._partition_by)
        except Exception as error:
            raise self.failed(error, method="read") from error

    def _cut(self, read: RecordBatch | pa.RecordBatch) -> Iterator[Batch]:
        if isinstance(read, RecordBatch):
            for start in range(0, len(read.values), BATCH_SIZE):
                stamps = None if read.timestamps is None else read.timestamps[start : start + BATCH_SIZE]
                yield Batch(read.values[start : start + BATCH_SIZE], stamps)
        else:
            for start in range(0, read.num_rows, COLUMN_BATCH_SIZE):
                yield ColumnBatch(read.slice(start, COLUMN_BATCH_SIZE), self._shape)

    def _emit(self, batch: Batch, partition: str | None) -> None:
        if self._timestamps is None:
            self.output.emit_batch(batch)
            return
        self._timestamps.process_partition(batch, partition)
        self.current_watermark = self._timestamps.current_watermark

    def _splits(self, item: bytes | pa.RecordBatch) -> list[Split] | list[None]:
        """The splits that an item of the input stands for; what Spark reads is of none."""
        if self._schema is not None or not isinstance(self._source, SplitSource):
            return [None]
        try:
            splits: list[Split] = pickle.loads(item)
        except Exception as error:
            raise self.failed(error, method="read") from error
        return splits

    def _read(self, item: bytes | pa.RecordBatch, split: Split | None) -> Iterator[RecordBatch | pa.RecordBatch]:
        try:
            if self._schema is not None:
                encoded = isinstance(item, bytes)
                yield pa.ipc.read_record_batch(pa.py_buffer(item), self._schema) if encoded else item
            elif isinstance(self._source, SplitSource) and split is not None:
                yield from self._source.read(split)
        except Exception as error:
            raise self.failed(error, method="read") from error


def does_nothing(strategy: WatermarkStrategy) -> bool:
    """Whether a strategy neither stamps records nor makes watermarks."""
    made = strategy.create_watermark_generator()
    return strategy.timestamp_assigner is None and type(made) is NoWatermarksGenerator
