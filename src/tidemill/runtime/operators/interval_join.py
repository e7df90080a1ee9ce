"""The interval join: joins records of two keyed streams whose timestamps are within an interval."""

from __future__ import annotations

import logging
from typing import Any, Final

from tidemill.datastream.functions.join import ProcessJoinFunction
from tidemill.datastream.program.specs import IntervalJoinSpec
from tidemill.errors import GraphError, StateError
from tidemill.runtime.batch.records import MAX_TIME, MIN_TIME, Batch
from tidemill.runtime.operators.base import Operator, OperatorContext
from tidemill.runtime.operators.join_buffer import JoinBuffer

#: By input: the state with its records, and the namespace of its timers.
_STATES: Final = ("_left_buffer", "_right_buffer")
_CLEANUP: Final = ("CLEANUP_LEFT", "CLEANUP_RIGHT")
#: By input: its name in messages.
_NAMES: Final = ("first", "second")

log = logging.getLogger(__name__)


class _PairContext(ProcessJoinFunction.Context):
    """The timestamps of the current pair; one object per operator instance."""

    def __init__(self) -> None:
        self.left = self.right = self.result = MIN_TIME

    def get_left_timestamp(self) -> int:
        return self.left

    def get_right_timestamp(self) -> int:
        return self.right

    def get_timestamp(self) -> int:
        return self.result


class IntervalJoinOperator(Operator):
    """Joins a record with the earlier arrivals of the other side, then keeps it for later ones.

    As in Flink, a record is late if its timestamp is below the watermark, results have the later timestamp of their
    pair, and a record is removed when the watermark reaches the last timestamp of a possible partner.
    """

    def __init__(self, spec: IntervalJoinSpec, context: OperatorContext) -> None:
        super().__init__(context)
        if context.backend is None:
            raise StateError(f"{context.where} needs keyed streams: call key_by() before it")
        # configuration
        self._backend = context.backend
        self._function = spec.function
        self._types = spec.types
        self._late = spec.late
        #: By input: the interval of the timestamps of partners, relative to the record's own timestamp.
        self._ranges = ((spec.lower, spec.upper), (-spec.upper, -spec.lower))
        self._dropped = context.metrics.counter("numLateRecordsDropped")
        # transient
        self._pair = _PairContext()
        self._timestamp: int | None = None

    @property
    def record_timestamp(self) -> int | None:
        return self._timestamp

    def functions(self) -> list[Any]:
        return [self._function]

    def open(self) -> None:
        super().open()
        self._buffers = tuple(
            JoinBuffer(self._backend, state, timers, record_type, keep=max(0, upper))
            for state, timers, record_type, (_, upper) in zip(_STATES, _CLEANUP, self._types, self._ranges, strict=True)
        )

    def begin_epoch(self, processing_time: int) -> None:
        super().begin_epoch(processing_time)
        for buffer in self._buffers:
            buffer.begin_epoch()

    def watermark(self, watermark: int) -> None:
        self._expire(watermark)
        super().watermark(watermark)

    def end_keys(self) -> None:
        for buffer in self._buffers:
            buffer.forget()

    def end_epoch(self) -> None:
        self._backend.context.leave()

    def process(self, batch: Batch, input_index: int) -> None:
        batch = self._in_time(batch, input_index)
        is_left = input_index == 0
        buffer, other = self._buffers[input_index], self._buffers[1 - input_index]
        hand_out, hand_out_other = buffer.hand_out, other.hand_out
        lower, upper = self._ranges[input_index]
        add, between = buffer.add, other.between
        keys, pair, call = self._backend.context, self._pair, self._function.process_element
        values: list[Any] = []
        timestamps: list[int] = []
        extend = self.output.emissions.extend_of(values)
        value = partner = None
        try:
            for value, keys.key, timestamp in zip(batch.values, batch.keys or (), batch.timestamps or (), strict=True):
                add(timestamp, value)
                for time, partners in between(timestamp + lower, timestamp + upper):
                    pair.result = self._timestamp = max(time, timestamp)
                    pair.left, pair.right = (timestamp, time) if is_left else (time, timestamp)
                    for partner in partners:
                        one = value if hand_out is None else hand_out(value)
                        two = partner if hand_out_other is None else hand_out_other(partner)
                        result = call(one, two, pair) if is_left else call(two, one, pair)
                        if result is not None:
                            before = len(values)
                            extend(result)
                            timestamps += [pair.result] * (len(values) - before)
        except BaseException as error:
            joined = (value, partner) if is_left else (partner, value)
            raise self.failed(error, method="process_element", record=joined, with_record=True, key=keys.key) from error
        finally:
            self._timestamp = None
        self.output.emit_tagged(values, timestamps)

    def _in_time(self, batch: Batch, input_index: int) -> Batch:
        """Return the records that are not late. Late records go to their side output, or are dropped."""
        timestamps = batch.timestamps
        # In a union of streams of which only some have timestamps, the records of the others have None.
        missing = timestamps is None or None in timestamps
        earliest = MIN_TIME if timestamps is None or missing else min(timestamps, default=MAX_TIME)
        if timestamps is None or earliest == MIN_TIME:
            raise GraphError(
                f"{self.context.where}, defined at {self.context.plan.user_line}: the "
                f"{_NAMES[input_index]} stream has records without timestamps, and an interval join "
                "uses event time: call assign_timestamps_and_watermarks() on both streams before key_by()"
            )
        if earliest >= self.current_watermark:
            return batch
        tag = self._late[input_index]
        late = batch.where([timestamp < self.current_watermark for timestamp in timestamps])
        if tag is None:
            self._drop(late, input_index)
        else:
            self.output.emit_tagged([(tag, value) for value in late.values], late.timestamps)
        return batch.where([timestamp >= self.current_watermark for timestamp in timestamps])

    def _drop(self, late: Batch, input_index: int) -> None:
        if not self._dropped.get_count():
            log.warning(
                "%s dropped a late record of its %s stream: its event time is %s, the watermark %d. More are only "
                "counted (numLateRecordsDropped); side_output_%s_late_data() keeps them",
                self.context.where,
                _NAMES[input_index],
                late.timestamps and late.timestamps[0],
                self.current_watermark,
                ("left", "right")[input_index],
            )
        self._dropped.inc(len(late))

    def _expire(self, watermark: int) -> None:
        timers, keys = self._backend.event_timers, self._backend.context
        buffers = dict(zip(_CLEANUP, self._buffers, strict=True))
        while (timer := timers.pop_due(watermark)) is not None:
            _, keys.key, side = timer
            buffers[side].expire(watermark)
