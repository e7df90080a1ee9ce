"""The programs of random sequences: every kind of window, join, timer and keyed state, with state that is cleared.

Records are ``(key, event time, number)``. Each input is read by one subtask, so that time is the same at any
parallelism, and with it what is late. How two inputs come together is not: what joins them gets no late records, and
has no order. What comes out begins with the key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tidemill.common import Duration, Time, Types, WatermarkStrategy
from tidemill.common.watermark_strategy import TimestampAssigner
from tidemill.datastream import (
    AggregateFunction,
    AggregatingStateDescriptor,
    DataStream,
    EventTimeSessionWindows,
    KeyedProcessFunction,
    KeyedStream,
    ListStateDescriptor,
    MapStateDescriptor,
    OutputTag,
    ProcessJoinFunction,
    ProcessWindowFunction,
    ReducingStateDescriptor,
    RuntimeContext,
    SlidingEventTimeWindows,
    StateTtlConfig,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    ValueStateDescriptor,
)

#: How far watermarks are behind the latest record; how much later a window still takes records.
BEHIND: Final = 20
LATENESS: Final = 25
#: Milliseconds of processing time from one epoch to the next.
TICK: Final = 1000
#: A record with this number asks for all that a key has.
PROBE: Final = -1
#: What is later than watermarks allow for has a number from here on.
LATE_FROM: Final = 1_000_000
_LATE: Final = OutputTag("late")

Outputs = Mapping[str, DataStream]
#: Of the first stream by key, and of both without what is late.
Build = Callable[[KeyedStream, DataStream, DataStream], Outputs]


class SecondField(TimestampAssigner):
    """The event time of a record is its second field."""

    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return int(value[1])


class Listed(ProcessWindowFunction):
    """A window and all that is in it; how often it has fired is state of the window, until it is cleared."""

    def process(self, key: Any, context: ProcessWindowFunction.Context, elements: Iterable[Any]) -> Iterable[Any]:
        fired = context.global_state().get_state(ValueStateDescriptor("fired", Types.LONG()))
        fired.update((fired.value() or 0) + 1)
        window = context.window()
        yield key, window.start, window.end, fired.value(), tuple(sorted(record[2] for record in elements))


class Mean(AggregateFunction):
    """Sum and count."""

    def create_accumulator(self) -> Any:
        return 0, 0

    def add(self, value: Any, accumulator: Any) -> Any:
        return accumulator[0] + (value[2] if isinstance(value, tuple) else value), accumulator[1] + 1

    def get_result(self, accumulator: Any) -> Any:
        return accumulator

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


class WithWindow(ProcessWindowFunction):
    """What was aggregated, with its window."""

    def process(self, key: Any, context: ProcessWindowFunction.Context, elements: Iterable[Any]) -> Iterable[Any]:
        yield key, context.window().start, context.window().end, tuple(elements)


class AllKinds(KeyedProcessFunction):
    """All five kinds of state, put, appended to, removed from and cleared; with or without a time to live."""

    def __init__(self, ttl: StateTtlConfig | None) -> None:
        self.ttl = ttl

    def open(self, runtime_context: RuntimeContext) -> None:
        last = ValueStateDescriptor("last", Types.LONG())
        some = ListStateDescriptor("some", Types.LONG())
        seen = MapStateDescriptor("seen", Types.LONG(), Types.LONG())
        most = ReducingStateDescriptor("most", max, Types.LONG())
        mean = AggregatingStateDescriptor("mean", Mean())
        if self.ttl is not None:
            for descriptor in (last, some, seen, most, mean):
                descriptor.enable_time_to_live(self.ttl)
        self.last, self.some = runtime_context.get_state(last), runtime_context.get_list_state(some)
        self.seen = runtime_context.get_map_state(seen)
        self.most = runtime_context.get_reducing_state(most)
        self.mean = runtime_context.get_aggregating_state(mean)

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        key, _, number = value
        if number == PROBE:
            yield self.shown(key, number)
            return
        if number % 7 == 0:
            for state in (self.last, self.some, self.seen, self.most, self.mean):
                state.clear()
        elif number % 5 == 0:
            self.some.update([number, number])
            self.seen.remove(number % 4)
            self.last.clear()
        else:
            self.last.update(number)
            self.some.add(number)
            self.seen.put(number % 4, (self.seen.get(number % 4) or 0) + 1)
            self.most.add(number % 100)
            self.mean.add(number)
        yield self.shown(key, number)

    def shown(self, key: Any, number: int) -> Any:
        seen = tuple(sorted(self.seen.items()))
        return key, number, self.last.value(), tuple(self.some.get() or ()), seen, self.most.get(), self.mean.get()


class Timers(KeyedProcessFunction):
    """Timers of both clocks that are set, moved, deleted and fire; the state that they clear is a list and a map."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.waiting = runtime_context.get_list_state(ListStateDescriptor("waiting", Types.LONG()))
        self.due = runtime_context.get_map_state(MapStateDescriptor("due", Types.LONG(), Types.LONG()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        key, time, number = value
        service = ctx.timer_service()
        if number == PROBE:
            yield key, "has", tuple(self.waiting.get() or ()), tuple(sorted(self.due.items()))
            return
        self.waiting.add(number)
        service.register_event_time_timer(time + BEHIND + number % 30)
        for at in [at for at in self.due if number % 3 == 0]:
            service.delete_processing_time_timer(at)
            self.due.remove(at)
        at = service.current_processing_time() + number % 4 * TICK
        service.register_processing_time_timer(at)
        self.due.put(at, number)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterable[Any]:
        key, kind = ctx.get_current_key(), ctx.time_domain().name
        if kind == "PROCESSING_TIME":
            number = self.due.get(timestamp)
            self.due.remove(timestamp)
            yield key, kind, timestamp, number
            return
        waiting = tuple(self.waiting.get() or ())
        self.waiting.clear()
        yield key, kind, timestamp, waiting


class Pairs(ProcessJoinFunction):
    """Both sides of a pair."""

    def process_element(self, left: Any, right: Any, ctx: ProcessJoinFunction.Context) -> Iterable[Any]:
        yield left[0], left[2], right[2]


def _key(value: Any) -> Any:
    return value[0]


def _in_time(stream: DataStream) -> DataStream:
    return stream.filter(lambda record: record[2] < LATE_FROM).set_parallelism(1)


def _millis(millis: int) -> Duration:
    return Duration.of_millis(millis)


def _tumbling(keyed: KeyedStream, a: DataStream, b: DataStream) -> Outputs:
    windows = keyed.window(TumblingEventTimeWindows.of(_millis(30))).allowed_lateness(LATENESS)
    fired = windows.side_output_late_data(_LATE).process(Listed()).uid("tumbling")
    return {"tumbling": fired, "late": fired.get_side_output(_LATE)}


def _sliding(keyed: KeyedStream, a: DataStream, b: DataStream) -> Outputs:
    windows = keyed.window(SlidingEventTimeWindows.of(_millis(40), _millis(20)))
    return {"sliding": windows.aggregate(Mean(), WithWindow()).uid("sliding")}


def _sessions(keyed: KeyedStream, a: DataStream, b: DataStream) -> Outputs:
    windows = keyed.window(EventTimeSessionWindows.with_gap(_millis(15))).allowed_lateness(LATENESS)
    return {"sessions": windows.process(Listed()).uid("sessions")}


def _merged_sessions(keyed: KeyedStream, a: DataStream, b: DataStream) -> Outputs:
    windows = keyed.window(EventTimeSessionWindows.with_gap(_millis(15)))
    return {"merged sessions": windows.aggregate(Mean(), WithWindow()).uid("merged-sessions")}


def _by_clock(keyed: KeyedStream, a: DataStream, b: DataStream) -> Outputs:
    windows = keyed.window(TumblingProcessingTimeWindows.of(_millis(3 * TICK)))
    return {"by clock": windows.reduce(lambda x, y: (x[0], max(x[1], y[1]), x[2] + y[2])).uid("by-clock")}


def _window_join(keyed: KeyedStream, a: DataStream, b: DataStream) -> Outputs:
    joined = a.join(b).where(_key, Types.STRING()).equal_to(_key, Types.STRING())
    pairs = joined.window(TumblingEventTimeWindows.of(_millis(20))).apply(lambda x, y: (x[0], x[2], y[2]))
    return {"window join": pairs.uid("window-join")}


def _interval_join(keyed: KeyedStream, a: DataStream, b: DataStream) -> Outputs:
    left, right = a.key_by(_key, Types.STRING()), b.key_by(_key, Types.STRING())
    return {"interval join": left.interval_join(right).between(_millis(-20), _millis(10)).process(Pairs()).uid("pairs")}


def _all_kinds(keyed: KeyedStream, a: DataStream, b: DataStream) -> Outputs:
    return {"all kinds": keyed.process(AllKinds(None)).uid("all-kinds")}


def _ttl(keyed: KeyedStream, a: DataStream, b: DataStream) -> Outputs:
    ttl = StateTtlConfig.new_builder(Time.milliseconds(4 * TICK)).build()
    return {"ttl": keyed.process(AllKinds(ttl)).uid("ttl")}


def _ttl_by_event_time(keyed: KeyedStream, a: DataStream, b: DataStream) -> Outputs:
    by_event_time = StateTtlConfig.TtlTimeCharacteristic.EventTime
    ttl = StateTtlConfig.new_builder(Time.milliseconds(80)).set_ttl_time_characteristic(by_event_time).build()
    return {"ttl by event time": keyed.process(AllKinds(ttl)).uid("ttl-by-event-time")}


def _timers(keyed: KeyedStream, a: DataStream, b: DataStream) -> Outputs:
    return {"timers": keyed.process(Timers()).uid("timers")}


@dataclass(frozen=True)
class Program:
    """A part of a job. ``compared`` are the operators whose state is compared as it is stored."""

    build: Build
    compared: tuple[str, ...]
    #: Whether records and elements of a key have an order that does not depend on what happens.
    ordered: bool = True


PROGRAMS: Final[dict[str, Program]] = {
    "tumbling": Program(_tumbling, ("tumbling",)),
    "sliding": Program(_sliding, ("sliding",)),
    "sessions": Program(_sessions, ("sessions",)),
    "merged sessions": Program(_merged_sessions, ("merged-sessions",)),
    "by clock": Program(_by_clock, ("by-clock",)),
    "window join": Program(_window_join, ("window-join",), ordered=False),
    "interval join": Program(_interval_join, ("pairs",), ordered=False),
    "all kinds": Program(_all_kinds, ("all-kinds",)),
    # What has expired may be gone already, or not yet: nobody sees the difference.
    "ttl": Program(_ttl, ()),
    "ttl by event time": Program(_ttl_by_event_time, ()),
    "timers": Program(_timers, ("timers",)),
}


def job_of(names: Iterable[str]) -> Callable[..., Outputs]:
    """A job of several programs over the same two inputs."""
    chosen = [PROGRAMS[name] for name in names]

    def build(env: Any, a: DataStream, b: DataStream) -> Outputs:
        strategy = WatermarkStrategy.for_bounded_out_of_orderness(_millis(BEHIND)).with_timestamp_assigner(
            SecondField()
        )
        x, y = (
            stream.assign_timestamps_and_watermarks(strategy).uid(f"times-{name}").set_parallelism(1)
            for name, stream in (("a", a), ("b", b))
        )
        outputs: dict[str, DataStream] = {}
        for program in chosen:
            outputs.update(program.build(x.key_by(_key, Types.STRING()), _in_time(x), _in_time(y)))
        return outputs

    return build
