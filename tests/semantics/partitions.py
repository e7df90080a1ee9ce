"""A source with named partitions, and functions that report the time: what tests of event time are made of."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from tidemill.common import Watermark, WatermarkGenerator, WatermarkOutput
from tidemill.connectors.sources import Position, RecordBatch, Split, SplitEnumerator, SplitSource
from tidemill.datastream import KeyedProcessFunction, ProcessFunction
from tidemill.errors import GraphError

MIN_TIME = -(2**63)
MAX_TIME = 2**63 - 1


class Log:
    """Records by partition, epoch by epoch; the subtasks read the partitions in turn, in the order of their names."""

    def __init__(self, *partitions: str) -> None:
        self.partitions = sorted(partitions)
        self.epochs: list[Mapping[str, Sequence[Any]]] = []
        self.closed: set[str] = set()
        #: What is known of the time of partitions before they are read.
        self.known: dict[str, int] = {}
        self.ended = False

    def add(self, **records: Sequence[Any]) -> None:
        """What comes next."""
        self.epochs.append(records)


class LogSource(SplitSource):
    """Reads a :class:`Log`."""

    bounded = True

    def __init__(self, log: Log | None, parallelism: int | None = 1) -> None:
        self._log = log
        self.parallelism = parallelism

    def create_enumerator(self, position: Position | None) -> SplitEnumerator:
        if self._log is None:
            raise GraphError("a log stays on the driver")
        return _LogEnumerator(self._log, position or 0)

    def read(self, split: Split) -> Iterator[RecordBatch]:
        if split.payload:
            yield RecordBatch(list(split.payload))

    def __reduce__(self) -> tuple[Any, ...]:
        return (LogSource, (None, self.parallelism))


class _LogEnumerator(SplitEnumerator):
    def __init__(self, log: Log, start: int) -> None:
        self._log = log
        self._next = start

    def next_splits(self, parallelism: int, max_records: int) -> Sequence[Sequence[Split]]:
        if not self.available():
            return []
        records = self._log.epochs[self._next]
        self._next += 1
        dealt: list[list[Split]] = [[] for _ in range(parallelism)]
        for number, partition in enumerate(self._log.partitions):
            if partition in records:
                given = records[partition]
                known = self._log.known.get(partition)
                split = Split(given, len(given), partition, partition in self._log.closed, known)
                dealt[number % parallelism].append(split)
        return dealt

    def position(self) -> Position:
        return self._next

    @property
    def finished(self) -> bool:
        return self._log.ended and not self.available()

    def available(self) -> bool:
        return self._next < len(self._log.epochs)


class OnMarker(WatermarkGenerator):
    """Emits the timestamp of records whose first field is 'mark'; 'idle' and 'active' do what they say."""

    def on_event(self, event: Any, event_timestamp: int, output: WatermarkOutput) -> None:
        if event[0] == "mark":
            output.emit_watermark(Watermark(event_timestamp))
        elif event[0] == "idle":
            output.mark_idle()
        elif event[0] == "active":
            output.mark_active()

    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        pass


class EveryThird(WatermarkGenerator):
    """Emits the greatest timestamp with every third record: it must remember both, and where it is in the count."""

    def __init__(self) -> None:
        self.count = 0
        self.greatest = MIN_TIME

    def on_event(self, event: Any, event_timestamp: int, output: WatermarkOutput) -> None:
        self.count += 1
        self.greatest = max(self.greatest, event_timestamp)
        if self.count == 3:
            self.count = 0
            output.emit_watermark(Watermark(self.greatest))

    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        pass


def told(time: int) -> Any:
    """A time for people."""
    return {MIN_TIME: "min", MAX_TIME: "max"}.get(time, time)


class TellTime(ProcessFunction):
    """(record, its timestamp, the watermark)."""

    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Iterable[Any]:
        yield value, ctx.timestamp(), told(ctx.timer_service().current_watermark())


class KeyedTellTime(KeyedProcessFunction):
    """(record, the watermark), and an alarm at the record's own time that tells the watermark it fired at."""

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        ctx.timer_service().register_event_time_timer(value[1])
        yield *value, told(ctx.timer_service().current_watermark())

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterable[Any]:
        yield "alarm", timestamp, told(ctx.timer_service().current_watermark())
