"""The source operator, the head of a source chain: converts the input of a subtask to batches."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from tidemill.common.typeinfo import TypeInformation
from tidemill.common.watermark_strategy import NoWatermarksGenerator, WatermarkStrategy
from tidemill.connectors.sources import MadeRecords, RecordBatch, RowDecoder, Source, Split, SplitSource
from tidemill.datastream.program.specs import SourceSpec, TimestampsSpec
from tidemill.datastream.program.transformations import Transformation
from tidemill.errors import TypeMismatchError
from tidemill.graph.plan import ChainPlan
from tidemill.runtime.batch.columns import ColumnBatch, RecordShape, rows_by_file, rows_by_partition
from tidemill.runtime.batch.emitted import are_fixed
from tidemill.runtime.batch.records import MIN_TIME, Batch
from tidemill.runtime.operators.base import Operator, OperatorContext
from tidemill.runtime.operators.timestamps import TimestampsOperator
from tidemill.runtime.time.strands import Strand, StrandNumbers
from tidemill.runtime.time.time_states import TimeState

#: The maximum number of records of a batch: large enough to make per-batch work small, small enough for the CPU cache.
BATCH_SIZE = 8192
#: The maximum number of rows of a columnar batch: the more rows, the less often each key is looked up.
COLUMN_BATCH_SIZE = 32768


#: The type of what a source yields for a split.
Read = Any  # RecordBatch, MadeRecords or an Arrow record batch; PyArrow has no types


class SourceOperator(Operator):
    """Reads the input of one subtask and one epoch.

    If input is reassigned to subtasks in each epoch, and an operator generates watermarks, the strand of the records is
    passed on before them.
    """

    def __init__(self, spec: SourceSpec, context: OperatorContext) -> None:
        super().__init__(context)
        self._source = spec.source
        self._schema = context.input_schema
        #: Wraps the iterator over what is read, to measure it.
        self.reading: Callable[[Iterator[Any]], Iterator[Any]] = iter
        self._shape = RecordShape.of(getattr(spec.source, "type_info", None))
        declared, strict = context.plan.output_type, context.strict_types
        self._in_form = _shaper_of(spec.source, declared, strict)
        self._made_in_form = None if declared is None else declared.shaper(strict=strict)
        self._decoder: RowDecoder | None = getattr(spec.source, "decoder", None)
        self._partition_by: Sequence[str] = getattr(spec.source, "partition_by", ())
        self._tells_ends: bool = getattr(spec.source, "tells_ends", False)
        self._has_maker = False
        self._timestamps = None
        if spec.watermarks is not None and not does_nothing(spec.watermarks):
            self._timestamps = TimestampsOperator(TimestampsSpec(spec.watermarks), context)
            self.feed(self._timestamps)
        # transient
        self._numbers = StrandNumbers()

    def feed(self, maker: TimestampsOperator) -> None:
        """Register an operator of this chain that generates watermarks from what is read."""
        self._has_maker = True
        if self._tells_ends:
            maker.wait_for_ends()

    def restore_time(self, state: TimeState) -> None:
        if self._timestamps is not None:
            self._timestamps.current_watermark = self.current_watermark
            self._timestamps.restore_time(state)

    def know_partitions(self, states: Sequence[TimeState]) -> None:
        """Set the state of partitions from all subtasks: rows of any partition may be read here."""
        if self._timestamps is not None:
            self._timestamps.know_partitions(states)

    def time_state(self) -> TimeState:
        return None if self._timestamps is None else self._timestamps.time_state()

    def idle_from(self) -> int | None:
        return None if self._timestamps is None else self._timestamps.idle_from()

    def begin_epoch(self, processing_time: int) -> None:
        super().begin_epoch(processing_time)
        self._numbers.clear()
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
                if self._tells_strands:
                    yield from self._read_strands(item, split)
                    continue
                partition = None if split is None else split.partition
                self._reach(split)
                for read in self._read(item, split):
                    for batch in self._cut(read):
                        self._emit(batch, partition)
                        yield len(batch)
                if split is not None and split.last and self._timestamps is not None:
                    self._timestamps.release_partition(partition)
                    self.current_watermark = self._timestamps.current_watermark

    @property
    def _tells_strands(self) -> bool:
        return self.context.dealt and self._has_maker

    def _read_strands(self, item: bytes | pa.RecordBatch, split: Split | None) -> Iterator[int]:
        partition, last = (None, False) if split is None else (split.partition, split.last)
        if last:
            self._tell(Strand(0, None, partition, last))
        self._reach(split)
        for read in self._read(item, split):
            for named, file, rows in self._told_apart(read):
                name = named if named is None or partition is None else f"{partition}/{named}"
                self._tell(self._numbers.of(name or partition, partition, file, last=last))
                for batch in self._cut(rows):
                    self._emit(batch, None)
                    yield len(batch)

    def _reach(self, split: Split | None) -> None:
        """Apply the event time that a split's partition is known to have reached before it is read."""
        if self._timestamps is None or split is None or split.partition is None or split.watermark is None:
            return
        self._timestamps.reach(split.partition, split.watermark)
        self.current_watermark = self._timestamps.current_watermark

    def _tell(self, strand: Strand) -> None:
        if self._timestamps is None:
            self.output.progress(strand, MIN_TIME)
        else:
            self._timestamps.progress(strand, MIN_TIME)

    def _told_apart(self, read: Read) -> Iterable[tuple[str | None, int | None, Read]]:
        """Group what was read by the partitions and files that the rows name, if they do."""
        if not isinstance(read, pa.RecordBatch):
            return [(None, None, read)]
        try:
            by = self._partition_by
            return [
                (name, file, part)
                for file, rows in rows_by_file(read)
                for name, part in (rows_by_partition(rows, by) if by else [(None, rows)])
            ]
        except BaseException as error:
            raise self.failed(error, method="read") from error

    def _cut(self, read: Read) -> Iterator[Batch]:
        if isinstance(read, RecordBatch):
            yield from _batches(self._taken(self._declared(read.values, self._in_form)), read.timestamps)
        elif isinstance(read, MadeRecords):
            yield from _batches(self._made(read.values), None)
        elif self._decoder is not None:
            for start in range(0, read.num_rows, BATCH_SIZE):
                decoded = self._decoded(self._decoder, read.slice(start, BATCH_SIZE))
                if len(decoded):  # the decoder may have skipped all of them
                    yield decoded
        else:
            for start in range(0, read.num_rows, COLUMN_BATCH_SIZE):
                columns = ColumnBatch(read.slice(start, COLUMN_BATCH_SIZE), self._shape)
                columns.reader = self
                yield columns

    def _made(self, values: Iterator[Any]) -> list[Any]:
        """Capture records that user code creates one by one."""
        made: list[Any] = []
        try:
            self.output.emissions.extend_of(made)(values)
        except BaseException as error:
            raise self.failed(error, method="read") from error
        fixed = self.output.emissions.settle(made)
        shaped = self._declared(made, self._made_in_form)
        if fixed:
            self.output.emissions.check_shaped(made, shaped)
        return shaped

    def _declared(self, values: list[Any], in_form: Callable[[list[Any]], list[Any]] | None) -> list[Any]:
        """Convert records to their declared type."""
        if in_form is None:
            return values
        try:
            return in_form(values)
        except TypeMismatchError as error:
            raise TypeMismatchError(f"{self.context.plan.label} has read a record of the wrong type: {error}") from None

    def _taken(self, values: list[Any]) -> list[Any]:
        """Capture records: a source may reuse an object, or share one between records."""
        emissions = self.output.emissions
        if not emissions.looks or are_fixed(values):
            return values
        take = emissions.take
        # The references that the source does not hold: the list, and the variable here.
        return [take(value, 2) for value in values]

    def _decoded(self, decoder: RowDecoder, rows: pa.RecordBatch) -> Batch:
        try:
            records = decoder.decode(rows)
        except BaseException as error:
            raise self.failed(error, method="deserialize") from error
        return Batch(records.values, records.timestamps)

    def _emit(self, batch: Batch, partition: str | None) -> None:
        if self._timestamps is None:
            self.output.emit_batch(batch)
            return
        self._timestamps.process_partition(batch, partition)
        self.current_watermark = self._timestamps.current_watermark

    def _splits(self, item: bytes | pa.RecordBatch) -> list[Split] | list[None]:
        """Return the splits of an item of the input. Input that Spark reads has no splits."""
        if self._schema is not None or not isinstance(self._source, SplitSource):
            return [None]
        try:
            splits: list[Split] = pickle.loads(item)
        except BaseException as error:
            raise self.failed(error, method="read") from error
        return splits

    def _read(self, item: bytes | pa.RecordBatch, split: Split | None) -> Iterator[Read]:
        found: Iterator[Read] = iter(())
        try:
            if self._schema is not None:
                encoded = isinstance(item, bytes)
                found = iter([pa.ipc.read_record_batch(pa.py_buffer(item), self._schema) if encoded else item])
            elif isinstance(self._source, SplitSource) and split is not None:
                found = self.reading(iter(self._source.read(split)))
        except BaseException as error:
            raise self.failed(error, method="read") from error
        while True:
            # Nothing is yielded inside the try: the source did not cause an exception that is raised at a yield.
            try:
                read = next(found)
            except StopIteration:
                return
            except BaseException as error:
                raise self.failed(error, method="read") from error
            yield read


def _batches(values: list[Any], timestamps: list[int] | None) -> Iterator[Batch]:
    for start in range(0, len(values), BATCH_SIZE):
        stamps = None if timestamps is None else timestamps[start : start + BATCH_SIZE]
        yield Batch(values[start : start + BATCH_SIZE], stamps)


def _shaper_of(
    source: Source, declared: TypeInformation | None, strict: bool
) -> Callable[[list[Any]], list[Any]] | None:
    """Return the conversion of the records of a source to a declared type; None if no conversion is needed."""
    if declared is None or not isinstance(source, SplitSource) or declared == getattr(source, "type_info", None):
        return None
    return declared.shaper(strict=strict)


def does_nothing(strategy: WatermarkStrategy) -> bool:
    """Whether a strategy neither assigns timestamps nor generates watermarks."""
    made = strategy.create_watermark_generator()
    return strategy.timestamp_assigner is None and type(made) is NoWatermarksGenerator


def has_event_time(chain: ChainPlan, operators: Mapping[str, Transformation]) -> bool:
    """Whether an operator of a source's chain generates watermarks; ``operators`` are the program's, by uid."""
    taken = [operators[operator.uid].taken for operator in chain.operators]
    strategies = [one.on_driver.watermarks for one in taken if isinstance(one.on_driver, SourceSpec)]
    return any(one.kind is TimestampsSpec for one in taken) or any(
        strategy is not None and not does_nothing(strategy) for strategy in strategies
    )
