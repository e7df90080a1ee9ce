"""The operator that assigns timestamps and generates watermarks."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from tidemill.common.calls import call_each
from tidemill.common.type_kinds.coercion import whole
from tidemill.common.watermark_strategy import TimestampColumn
from tidemill.datastream.program.ingestion_time import IngestionTime
from tidemill.datastream.program.specs import TimestampsSpec
from tidemill.errors import StateError
from tidemill.runtime.batch.columns import ColumnBatch
from tidemill.runtime.batch.event_times import EventTimeError, event_times
from tidemill.runtime.batch.records import MAX_TIME, MIN_TIME, Batch, checked_time
from tidemill.runtime.operators.base import Operator, OperatorContext
from tidemill.runtime.time.strands import PartitionEnd, Strand
from tidemill.runtime.time.time_states import PartitionState, TimeState
from tidemill.runtime.time.watermarks import PartitionTime, Timekeeper

_INT: Final = frozenset({int})


class TimestampsOperator(Operator):
    """assign_timestamps_and_watermarks: assigns timestamps, and emits watermarks between records.

    A watermark that a generator emits in ``on_event`` takes effect right after that record. ``on_periodic_emit`` is
    called after each batch and at the end of each epoch. Idleness is measured with the processing time of epochs.
    Watermarks never decrease. The watermarks of the input are not passed on, except the final one, nor is its idleness.

    After a source whose input is reassigned in each epoch, it is unknown what a subtask will still read. Each strand
    then has its own event time, which is sent in band to the next exchange. The operator's own event time, which
    operators of the same chain see, advances only at the end of the epoch.
    """

    def __init__(self, spec: TimestampsSpec, context: OperatorContext) -> None:
        super().__init__(context)
        try:
            self._time = Timekeeper(spec.strategy, lambda: self.processing_time)
        except BaseException as error:
            raise self.failed(error, method="create_watermark_generator") from error
        self._time.restore(None, MIN_TIME)
        self._extract = self._extractor()
        # In BATCH mode, event time does not advance before the end of input: no record is ever late.
        self._stands_still = context.runtime_mode == "BATCH"
        self._periodic = context.periodic_watermarks and not self._stands_still
        self._dealt = context.dealt
        # transient
        self._strand = Strand(0)
        self._ended: set[str] = set()

    def wait_for_ends(self) -> None:
        """Never treat a partition as idle: the source announces when one has ended."""
        self._time.never_idle = True

    def restore_time(self, state: TimeState) -> None:
        try:
            self._time.restore(state, self.current_watermark)
        except BaseException as error:
            raise self.failed(error, method="create_watermark_generator") from error
        self._extract = self._extractor()

    def time_state(self) -> TimeState:
        try:
            return None if self._stands_still else self._time.state()
        except BaseException as error:
            raise self.failed(error, method="__getstate__") from error

    def idle_from(self) -> int | None:
        return self._time.idle_from() if self._periodic else None

    def begin_epoch(self, processing_time: int) -> None:
        super().begin_epoch(processing_time)
        self._strand = Strand(0)
        self._ended.clear()
        if self._time.idle and not self._stands_still:
            self.output.watermark_status(True)

    def process(self, batch: Batch, input_index: int) -> None:
        self.process_partition(batch, None)

    def process_partition(self, batch: Batch, partition: str | None) -> None:
        """Process a batch of one partition of a source."""
        if self._stands_still:
            self._pass_on(self._stamped(batch))
            return
        if self._dealt:
            time = self._time.strand(self._strand)
            self.output.progress(self._strand, time.watermark)
        else:
            time = self._time.partition(partition)
        stamped = self._stamped(batch)
        if time.emits_on_event:
            self._emit_one_by_one(stamped.values, stamped.timestamps or [], time)
        else:
            self._pass_on(stamped)
            self._observe(stamped, time)
        if self._periodic:
            self._ask(time.generator.on_periodic_emit, time)
        if time.changed:
            self._moved(time)

    def _pass_on(self, stamped: Batch) -> None:
        if isinstance(stamped, ColumnBatch):
            self.output.emit_batch(stamped)
        else:
            self.output.pass_on(stamped.values, stamped.timestamps)

    def _observe(self, stamped: Batch, time: PartitionTime) -> None:
        """Pass the records to the generator, or only the newest timestamp if that is all that it needs."""
        if isinstance(stamped, ColumnBatch) and not time.reads_events:
            if len(stamped):
                self.tell("on_newest", time.generator.on_newest, pc.max(stamped.times).as_py(), time)
        else:
            self.tell("on_batch", time.generator.on_batch, stamped.values, stamped.timestamps, time)

    def progress(self, strand: Strand, watermark: int) -> None:
        """Set the strand of the following records. Its watermark is ignored: this operator generates its own."""
        self._strand = strand
        if strand.last and strand.split is not None:
            self._ended.add(strand.split)
            self.output.progress(Strand(0, None, strand.split, last=True), MIN_TIME)  # even if no record follows

    def partition_ends(self, ends: Sequence[PartitionEnd]) -> None:
        """Ignored: this operator sends its own."""

    def know_partitions(self, states: Sequence[TimeState]) -> None:
        """Set the state of partitions from all subtasks: any partition may be read here."""
        entries = [PartitionState(*entry) for state in states for entry in state or ()]
        self._time.know({entry.partition: entry for entry in entries})

    def reach(self, partition: str, watermark: int) -> None:
        """Advance the event time of a partition that is known to have no earlier records, before it is read."""
        if not self._stands_still:
            self._time.reach(partition, watermark)
            if not self._dealt:
                self._advance()

    def release_partition(self, partition: str | None) -> None:
        """Release a partition that has ended: it no longer holds back the watermark."""
        if not self._stands_still:
            self._time.release(partition)
            self._advance()

    def emit_periodically(self) -> None:
        """Call the generators as processing time advances, with or without new records."""
        if self._periodic and self.current_watermark < MAX_TIME:
            self._ask(lambda time: time.emit_periodically(), self._time)
            self._advance()

    def end_epoch(self) -> None:
        if not self._dealt:
            self.emit_periodically()
        elif self.current_watermark == MAX_TIME:
            self.output.partition_ends(())
        elif not self._stands_still:
            self._end_strands()

    def _end_strands(self) -> None:
        """Combine the strands when all input of the epoch has been read."""
        if self._periodic:
            self._ask(lambda time: time.emit_periodically(), self._time)
        self._time.gather()
        for split in self._ended:
            self._time.release_split(split)
        self._advance()
        self.output.partition_ends(self._time.ends())

    def watermark(self, watermark: int) -> None:
        if watermark == MAX_TIME:
            if self._time.idle:
                self.output.watermark_status(False)
            self._time.end()
            super().watermark(watermark)

    def watermark_status(self, idle: bool) -> None:
        """Ignored: consumers wait for the watermarks of this operator, not for those of its input."""

    def _ask(self, ask: Callable[[Any], None], argument: Any) -> None:
        try:
            ask(argument)
        except BaseException as error:
            raise self.failed(error, method="on_periodic_emit") from error

    def _emit_one_by_one(self, values: list[Any], timestamps: list[int], time: PartitionTime) -> None:
        """Emit records for a generator that may emit a watermark after any record."""
        on_event = time.generator.on_event
        start = 0
        for position, (value, timestamp) in enumerate(zip(values, timestamps, strict=True)):
            try:
                on_event(value, timestamp, time)
            except BaseException as error:
                raise self.failed(error, method="on_event", record=value, with_record=True) from error
            if time.changed:
                self.output.pass_on(values[start : position + 1], timestamps[start : position + 1])
                start = position + 1
                self._moved(time)
        self.output.pass_on(values[start:], timestamps[start:])

    def _stamped(self, batch: Batch) -> Batch:
        """Return the records with their timestamps, as columns if they are columns and need not be read."""
        if isinstance(batch, ColumnBatch):
            times = self._column_times(batch)
            if times is not None:
                return ColumnBatch(batch.columns, batch.shape, times)
        return Batch(batch.values, self._stamp(batch))

    def _column_times(self, batch: ColumnBatch) -> pa.Int64Array | None:
        assigner = self._time.strategy.timestamp_assigner
        if assigner is None:
            return _all(MIN_TIME, len(batch)) if batch.times is None else batch.times
        if isinstance(assigner, IngestionTime):
            return _all(self.processing_time, len(batch))
        if not isinstance(assigner, TimestampColumn):
            return None
        try:
            return event_times(batch, assigner)
        except EventTimeError as error:
            raise self.failed_at(batch.values, error, error.position, method="extract_timestamp") from None

    def _stamp(self, batch: Batch) -> list[int]:
        before = batch.timestamps or [MIN_TIME] * len(batch)
        if self._extract is None:
            return before
        failed = partial(self.failed_at, batch.values, method="extract_timestamp")
        timestamps = call_each(self._extract, batch.values, failed, before)
        if _INT.issuperset(map(type, timestamps)):
            try:
                array("q", timestamps)  # 8 ns a record
            except OverflowError:
                pass  # one of them is converted below, and refused
            else:
                return timestamps
        return [self._whole(timestamp, value) for timestamp, value in zip(timestamps, batch.values, strict=True)]

    def _whole(self, timestamp: Any, value: Any) -> int:
        """A timestamp as an int: as in Flink, the fraction of a number is cut off."""
        try:
            return checked_time(whole(timestamp), "a timestamp")
        except (TypeError, ValueError, ArithmeticError):
            problem: Exception = TypeError(f"a timestamp must be an int in milliseconds, not {timestamp!r}")
        except StateError as error:
            problem = error
        raise self.failed(problem, method="extract_timestamp", record=value, with_record=True) from None

    def _extractor(self) -> Callable[[Any, int], int] | None:
        assigner = self._time.strategy.timestamp_assigner
        if isinstance(assigner, IngestionTime):
            return lambda value, before: self.processing_time
        return None if assigner is None else assigner.extract_timestamp

    def _moved(self, time: PartitionTime) -> None:
        if self._dealt:
            time.changed = False
            self.output.progress(self._strand, time.watermark)
        else:
            self._advance()

    def _advance(self) -> None:
        """Pass on the combined watermark of the generators, and changes of idleness."""
        was_idle = self._time.idle
        watermark = self._time.combine()
        if was_idle and not self._time.idle:
            self.output.watermark_status(False)
        if watermark is not None:
            self.current_watermark = watermark
            self.output.watermark(watermark)
        if self._time.idle and not was_idle:
            self.output.watermark_status(True)


def _all(time: int, count: int) -> pa.Int64Array:
    return pa.repeat(pa.scalar(time, pa.int64()), count)
