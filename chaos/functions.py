"""The functions and the source of the job. Workers import this module too, which slows down their storage."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from chaos.control import Control, make_storage_slow_on_demand
from chaos.truth import PARTITIONS, WINDOW, Record, partition_of, record
from tidemill.common import Types
from tidemill.common.watermark_strategy import TimestampAssigner
from tidemill.connectors.sources import Position, RecordBatch, Split, SplitEnumerator, SplitSource
from tidemill.datastream import CheckpointedFunction
from tidemill.datastream.functions import FlatMapFunction, KeyedProcessFunction, ProcessWindowFunction, RuntimeContext
from tidemill.datastream.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor

make_storage_slow_on_demand()

#: The number of records that a subtask of the buffer holds back.
HELD_BACK = 20


class Numbers(SplitSource):
    """Emits as many records of :func:`chaos.truth.record` as the run allows. A position is the next record number."""

    parallelism = PARTITIONS

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def create_enumerator(self, position: Position | None) -> SplitEnumerator:
        """Create an enumerator that starts at a record number."""
        return _Enumerator(Control(Path(self._folder)), int(position or 0))

    def read(self, split: Split) -> Iterator[RecordBatch]:
        """Read the records of one partition in a range of numbers."""
        partition, first, last = split.payload
        numbers = [number for number in range(first, last) if partition_of(number) == partition]
        if numbers:
            yield RecordBatch([record(number) for number in numbers])


class _Enumerator(SplitEnumerator):
    def __init__(self, control: Control, start: int) -> None:
        self._control = control
        self._next = start

    def next_splits(self, parallelism: int, max_records: int) -> Sequence[Split]:
        allowed, final = self._control.allowed()
        first, last = self._next, min(allowed, self._next + max_records)
        self._next = last
        over = final and last == allowed
        return [
            Split((partition, first, last), last - first, f"partition {partition}", over)
            for partition in range(PARTITIONS)
        ]

    def position(self) -> Position:
        return self._next

    @property
    def finished(self) -> bool:
        allowed, final = self._control.allowed()
        return final and self._next >= allowed

    def available(self) -> bool:
        return self._next < self._control.allowed()[0]


class Stamp(TimestampAssigner):
    """Uses the third field of a record as its event time."""

    def extract_timestamp(self, value: Record, record_timestamp: int) -> int:
        return value[2]


class Account(KeyedProcessFunction):
    """Counts records per key, sums per key and digit, and emits the sum of each event-time window from a timer."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))
        self.digits = runtime_context.get_map_state(MapStateDescriptor("digits", Types.LONG(), Types.LONG()))
        self.waiting = runtime_context.get_list_state(
            ListStateDescriptor("waiting", Types.TUPLE([Types.LONG(), Types.LONG()]))
        )

    def process_element(self, value: Record, ctx: KeyedProcessFunction.Context) -> Iterable[str]:
        key, number, timestamp = value
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        digit = number % 10
        self.digits.put(digit, (self.digits.get(digit) or 0) + number)
        if number % 500 == 499:
            self.digits.remove(digit)
        self.waiting.add((number, timestamp))
        ctx.timer_service().register_event_time_timer(timestamp - timestamp % WINDOW + WINDOW)
        yield f"seen {key} {count} {number}"

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterable[str]:
        entries = list(self.waiting.get())
        self.waiting.update([(number, at) for number, at in entries if at >= timestamp])
        yield f"timer {ctx.get_current_key()} {timestamp} {sum(number for number, at in entries if at < timestamp)}"


class Sum(ProcessWindowFunction):
    """Emits the start, size and sum of a window."""

    def process(self, key: Any, context: ProcessWindowFunction.Context, elements: Iterable[Record]) -> Iterable[str]:
        numbers = [number for _, number, _ in elements]
        yield f"{key} {context.window().start} {len(numbers)} {sum(numbers)}"


class Session(ProcessWindowFunction):
    """Emits the bounds and size of a session."""

    def process(self, key: Any, context: ProcessWindowFunction.Context, elements: Iterable[Record]) -> Iterable[str]:
        window = context.window()
        yield f"{key} {window.start} {window.end} {len(list(elements))}"


class Buffer(FlatMapFunction, CheckpointedFunction):
    """Holds back the last records of its subtask in operator state."""

    def initialize_state(self, context: Any) -> None:
        descriptor = ListStateDescriptor("held", Types.LONG())
        self._state = context.get_operator_state_store().get_list_state(descriptor)
        self._held = list(self._state.get())

    def flat_map(self, value: Record) -> Iterable[str]:
        self._held.append(value[1])
        while len(self._held) > HELD_BACK:
            yield str(self._held.pop(0))

    def snapshot_state(self, context: Any) -> None:
        self._state.update(self._held)
