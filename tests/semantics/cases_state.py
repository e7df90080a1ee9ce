"""F1 and C5: the five keyed states and timers, over many epochs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tests.semantics.case import Case
from tests.semantics.cases_basic import PAIRS, first
from tidemill.common import Duration, TimestampAssigner, Types, WatermarkStrategy
from tidemill.connectors.collection import CollectionSource
from tidemill.datastream import (
    AggregateFunction,
    AggregatingStateDescriptor,
    DataStream,
    FilterFunction,
    FlatMapFunction,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapFunction,
    MapStateDescriptor,
    OutputTag,
    ReducingStateDescriptor,
    RuntimeContext,
    StreamExecutionEnvironment,
    TimeDomain,
    ValueStateDescriptor,
)

Env = StreamExecutionEnvironment
LATE = OutputTag("late", Types.LONG())


class Mean(AggregateFunction):
    def create_accumulator(self) -> Any:
        return 0, 0

    def add(self, value: Any, accumulator: Any) -> Any:
        return accumulator[0] + value, accumulator[1] + 1

    def get_result(self, accumulator: Any) -> Any:
        return accumulator[0] / accumulator[1]

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


class AllStates(KeyedProcessFunction):
    """Keeps the same numbers in all five kinds of state, and emits what each of them says."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.last = runtime_context.get_state(ValueStateDescriptor("last", Types.LONG(), default_value=-1))
        self.all = runtime_context.get_list_state(ListStateDescriptor("all", Types.LONG()))
        self.counts = runtime_context.get_map_state(MapStateDescriptor("counts", Types.LONG(), Types.LONG()))
        self.most = runtime_context.get_reducing_state(ReducingStateDescriptor("most", max, Types.LONG()))
        self.mean = runtime_context.get_aggregating_state(AggregatingStateDescriptor("mean", Mean()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        key, number = value
        before = self.last.value()
        self.last.update(number)
        self.all.add(number)
        self.counts.put(number, (self.counts.get(number) or 0) + 1)
        self.most.add(number)
        self.mean.add(number)
        counts = tuple(sorted(self.counts.items()))
        yield key, before, tuple(self.all.get()), counts, self.most.get(), self.mean.get()


def all_states() -> list[Any]:
    seen: dict[str, list[int]] = {}
    result = []
    for key, number in PAIRS:
        numbers = seen.setdefault(key, [])
        before = numbers[-1] if numbers else -1
        numbers.append(number)
        counts = tuple(sorted((n, numbers.count(n)) for n in set(numbers)))
        result.append((key, before, tuple(numbers), counts, max(numbers), sum(numbers) / len(numbers)))
    return result


class Clearing(KeyedProcessFunction):
    """Clears states now and then, removes map entries, replaces lists."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.values = runtime_context.get_list_state(ListStateDescriptor("values", Types.LONG()))
        self.entries = runtime_context.get_map_state(MapStateDescriptor("entries", Types.LONG(), Types.STRING()))
        self.total = runtime_context.get_reducing_state(ReducingStateDescriptor("total", lambda a, b: a + b))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        if value % 4 == 0:
            self.values.clear()
            self.entries.clear()
            self.total.clear()
        elif value % 4 == 2:
            self.values.update([value, value])
            self.entries.remove(value - 2)
            self.entries.remove(value - 1)
        self.values.add_all([value])
        self.entries.put_all({value: str(value)})
        self.total.add(value)
        yield value, tuple(self.values), tuple(sorted(self.entries.items())), self.entries.is_empty(), self.total.get()


def clearing(numbers: Iterable[int]) -> list[Any]:
    values: list[int] = []
    entries: dict[int, str] = {}
    total = 0
    result = []
    for value in numbers:
        if value % 4 == 0:
            values, entries, total = [], {}, 0
        elif value % 4 == 2:
            values = [value, value]
            entries.pop(value - 2, None)
            entries.pop(value - 1, None)
        values = [*values, value]
        entries[value] = str(value)
        total += value
        result.append((value, tuple(values), tuple(sorted(entries.items())), False, total))
    return result


class GrowingList(KeyedProcessFunction):
    """The usual way to work with a mutable value: read it, change it, write it back, emit it."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.seen = runtime_context.get_state(ValueStateDescriptor("seen", Types.PICKLED_BYTE_ARRAY()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        seen = self.seen.value() or []
        seen.append(value[1])
        self.seen.update(seen)
        yield seen
        yield value[0], seen


def growing() -> list[Any]:
    seen: dict[str, list[int]] = {}
    result: list[Any] = []
    for key, number in PAIRS:
        seen[key] = [*seen.get(key, []), number]
        result += [seen[key], (key, seen[key])]
    return result


class CountInMap(MapFunction):
    """Keyed state in functions that are no process functions."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.seen = runtime_context.get_state(ValueStateDescriptor("seen", Types.LONG()))

    def map(self, value: Any) -> Any:
        self.seen.update((self.seen.value() or 0) + 1)
        return value[0], self.seen.value()


class Deduplicate(FilterFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.seen = runtime_context.get_state(ValueStateDescriptor("seen", Types.BOOLEAN()))

    def filter(self, value: Any) -> bool:
        if self.seen.value():
            return False
        self.seen.update(True)
        return True


class EverySecond(FlatMapFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.held = runtime_context.get_state(ValueStateDescriptor("held"))

    def flat_map(self, value: Any) -> Iterable[Any]:
        held = self.held.value()
        if held is None:
            self.held.update(value)
        else:
            self.held.clear()
            yield held[0], held[1], value[1]


class SecondField(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return int(value[1])


def timed(env: Env, records: list[Any]) -> DataStream:
    """Records (key, time, ...) with their event time; a watermark follows every record."""
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(SecondField())
    return env.from_collection(records).assign_timestamps_and_watermarks(strategy).set_parallelism(1)


class Reminder(KeyedProcessFunction):
    """Each record asks to be reminded; a timer set again counts once; a record 'forget' deletes the last one."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.pending = runtime_context.get_list_state(ListStateDescriptor("pending", Types.LONG()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        service = ctx.timer_service()
        if len(value) == 3:
            times = list(self.pending)
            service.delete_event_time_timer(times[-1])
            self.pending.update(times[:-1])
            return
        due = value[1] // 10 * 10 + 100
        if due not in list(self.pending):
            self.pending.add(due)
        service.register_event_time_timer(due)
        service.register_event_time_timer(due)
        yield from ()

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterable[Any]:
        assert ctx.time_domain() is TimeDomain.EVENT_TIME
        assert ctx.timestamp() == timestamp
        self.pending.update([time for time in self.pending if time != timestamp])
        yield ctx.get_current_key(), timestamp


REMINDED = [("a", 1), ("a", 5), ("b", 7), ("a", 12), ("b", 21), ("b", 22, "forget"), ("c", 150), ("a", 151), ("c", 300)]


class Chain(KeyedProcessFunction):
    """A timer that sets the next one, three times; and one for a time that is past already."""

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        ctx.timer_service().register_event_time_timer(value[1] + 10)
        yield from ()

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterable[Any]:
        yield ctx.get_current_key(), timestamp
        if timestamp % 10 < 3:
            ctx.timer_service().register_event_time_timer(timestamp + 1)


class AtTheEnd(KeyedProcessFunction):
    """Emits a key's sum when all input has ended."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG(), default_value=0))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        self.total.update(self.total.value() + value[1])
        ctx.timer_service().register_event_time_timer(2**63 - 1)
        yield from ()

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterable[Any]:
        yield ctx.get_current_key(), self.total.value()


class Soon(KeyedProcessFunction):
    """A processing-time timer for now: fires within the epoch, or in the next one."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG(), default_value=0))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        self.total.update(self.total.value() + value[1])
        service = ctx.timer_service()
        service.register_processing_time_timer(service.current_processing_time())
        yield from ()

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterable[Any]:
        assert ctx.time_domain() is TimeDomain.PROCESSING_TIME
        yield ctx.get_current_key()


class Stamps(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        yield value[0], ctx.timestamp()
        if (ctx.timestamp() or 0) > 5:
            yield LATE, ctx.timestamp()


def stamps_and_side(env: Env) -> DataStream:
    stamped = timed(env, PAIRS).key_by(0).process(Stamps())
    return stamped.union(stamped.get_side_output(LATE).map(lambda stamp: ("late", stamp)))


CASES = [
    Case(
        "all-states",
        lambda env: env.from_collection(PAIRS).key_by(0).process(AllStates()),
        all_states(),
        first,
        spark=True,
    ),
    Case(
        "clearing-states",
        lambda env: env.from_collection(range(30)).key_by(lambda n: "one").process(Clearing()),
        clearing(range(30)),
        lambda r: 0,
        spark=True,
    ),
    Case(
        "mutable-value-in-state-and-output",
        lambda env: env.from_collection(PAIRS).key_by(0, Types.STRING()).process(GrowingList()),
        growing(),
    ),
    Case(
        "mutable-accumulator-of-reduce",
        lambda env: (
            env.from_collection([("a", [1]), ("a", [2]), ("b", [3]), ("a", [4])])
            .key_by(0)
            .reduce(lambda one, two: (one[1].extend(two[1]), one)[1])
        ),
        [("a", [1]), ("a", [1, 2]), ("b", [3]), ("a", [1, 2, 4])],
        first,
    ),
    Case(
        "state-in-map",
        lambda env: env.from_collection(PAIRS).key_by(0).map(CountInMap()),
        [("a", 1), ("b", 1), ("a", 2), ("c", 1), ("b", 2), ("a", 3), ("b", 3)],
        first,
    ),
    Case(
        "state-in-filter",
        lambda env: env.from_collection(PAIRS).key_by(0).filter(Deduplicate()),
        [("a", 3), ("b", 1), ("c", 9)],
    ),
    Case(
        "state-in-flat_map",
        lambda env: env.from_collection(PAIRS).key_by(0).flat_map(EverySecond()),
        [("a", 3, 1), ("b", 1, 5)],
    ),
    Case(
        "event-timers",
        lambda env: timed(env, REMINDED).key_by(0, Types.STRING()).process(Reminder()),
        [("a", 100), ("b", 100), ("a", 110), ("c", 250), ("a", 250), ("c", 400)],
        first,
        spark=True,
    ),
    Case(
        "timers-set-by-timers",
        lambda env: timed(env, [("a", 0), ("b", 1), ("a", 40), ("b", 90)]).key_by(0).process(Chain()),
        [
            *(("a", time) for time in (10, 11, 12, 13, 50, 51, 52, 53)),
            *(("b", time) for time in (11, 12, 13, 100, 101, 102, 103)),
        ],
        first,
        spark=True,
    ),
    Case(
        "timers-at-the-end",
        lambda env: env.from_collection(PAIRS).key_by(0).process(AtTheEnd()),
        [("a", 6), ("b", 11), ("c", 9)],
        first,
    ),
    Case(
        "batch-timers",
        lambda env: timed(env, [("a", 1), ("a", 900), ("a", 5)]).key_by(0).process(Reminder()),
        [("a", 100), ("a", 1000)],
        first,
        mode="BATCH",
    ),
    Case(
        "timestamps-and-late-side-output",
        stamps_and_side,
        [*((key, number) for key, number in PAIRS), ("late", 9)],
        first,
    ),
    Case(
        "from_source-watermarks",
        lambda env: (
            env.from_source(
                CollectionSource(PAIRS),
                WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(5)).with_timestamp_assigner(
                    SecondField()
                ),
                "events",
            )
            .key_by(0)
            .process(Stamps())
        ),
        PAIRS,
        first,
    ),
]
