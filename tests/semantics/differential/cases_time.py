"""Timestamps, watermarks and timers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from decimal import Decimal
from functools import partial
from typing import Any

import numpy as np

from tests.semantics.differential.program import Program, shown
from tidemill.common import Types, WatermarkStrategy
from tidemill.common.watermark_strategy import TimestampAssigner
from tidemill.datastream import KeyedProcessFunction, OutputTag, ProcessFunction, TimeDomain
from tidemill.datastream.state import MapStateDescriptor, ValueStateDescriptor

PAIR = Types.TUPLE([Types.STRING(), Types.LONG()])
EVENTS = [("a", 10), ("b", 5), ("a", 30), ("a", 20), ("b", 40)]
Register = Callable[[Any, Any], None]


class Second(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> Any:
        return value[1]


class Converted(TimestampAssigner):
    def __init__(self, convert: Callable[[Any], Any]) -> None:
        self.convert = convert

    def extract_timestamp(self, value: Any, record_timestamp: int) -> Any:
        return self.convert(value[1])


def with_times(env: Any, events: Iterable[Any] = EVENTS, assigner: TimestampAssigner | None = None) -> Any:
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(assigner or Second())
    return env.from_collection(list(events), PAIR).assign_timestamps_and_watermarks(strategy)


class ShowTimes(ProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Iterable[Any]:
        yield f"{shown(value)} at {shown(ctx.timestamp())}"


class ShowWatermark(ProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Iterable[Any]:
        yield f"{shown(value)} watermark {shown(ctx.timer_service().current_watermark())}"


class Timers(KeyedProcessFunction):
    """Registers timers for each record, and shows those that fire."""

    def __init__(self, register: Register, again: Register | None = None) -> None:
        self.register = register
        self.again = again

    def process_element(self, value: Any, ctx: Any) -> Iterable[Any]:
        self.register(value, ctx)
        return []

    def on_timer(self, timestamp: int, ctx: Any) -> Iterable[Any]:
        domain = "event" if ctx.time_domain() == TimeDomain.EVENT_TIME else "processing"
        yield f"{ctx.get_current_key()} {shown(timestamp)} {domain} at {shown(ctx.timestamp())}"
        if self.again is not None:
            self.again(timestamp, ctx)


class ShowWatermarkInTimer(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Iterable[Any]:
        ctx.timer_service().register_event_time_timer(value[1])
        return []

    def on_timer(self, timestamp: int, ctx: Any) -> Iterable[Any]:
        yield f"{timestamp} {shown(ctx.timer_service().current_watermark())}"


LATE = OutputTag("timers", Types.STRING())


class SideInTimer(Timers):
    def on_timer(self, timestamp: int, ctx: Any) -> Iterable[Any]:
        yield LATE, f"{ctx.get_current_key()} {timestamp}"


class StateInTimer(KeyedProcessFunction):
    """Collects what it reads, and shows it all in the last timer."""

    def open(self, runtime_context: Any) -> None:
        self.seen = runtime_context.get_map_state(MapStateDescriptor("seen", Types.LONG(), Types.BOOLEAN()))
        self.last = runtime_context.get_state(ValueStateDescriptor("last", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> Iterable[Any]:
        self.seen.put(value[1], True)
        if self.last.value() is not None:
            ctx.timer_service().delete_event_time_timer(self.last.value())
        self.last.update(max(value[1], self.last.value() or 0))
        ctx.timer_service().register_event_time_timer(self.last.value())
        return []

    def on_timer(self, timestamp: int, ctx: Any) -> Iterable[Any]:
        yield f"{ctx.get_current_key()} {timestamp} {sorted(self.seen.keys())}"
        self.seen.clear()


def at(offset: Any, value: Any, ctx: Any) -> None:
    ctx.timer_service().register_event_time_timer(value[1] + offset)


def at_fixed(times: list[Any], value: Any, ctx: Any) -> None:
    for time in times:
        ctx.timer_service().register_event_time_timer(time)


def set_and_deleted(set_at: list[Any], deleted: list[Any], value: Any, ctx: Any) -> None:
    at_fixed(set_at, value, ctx)
    for time in deleted:
        ctx.timer_service().delete_event_time_timer(time)


def later(step: int, limit: int, timestamp: int, ctx: Any) -> None:
    if timestamp + step <= limit:
        ctx.timer_service().register_event_time_timer(timestamp + step)


def other_domain(value: Any, ctx: Any) -> None:
    ctx.timer_service().register_event_time_timer(value[1])
    ctx.timer_service().delete_processing_time_timer(value[1])


def timers(register: Register, again: Register | None, env: Any) -> Any:
    return with_times(env).key_by(lambda e: e[0], Types.STRING()).process(Timers(register, again), Types.STRING())


def followed(register: Register, env: Any) -> Any:
    return timers(register, None, env).process(ShowTimes(), Types.STRING())


def side(env: Any) -> Any:
    keyed = with_times(env).key_by(lambda e: e[0], Types.STRING())
    return keyed.process(SideInTimer(partial(at, 1)), Types.STRING()).get_side_output(LATE)


def assigned(convert: Callable[[Any], Any], env: Any) -> Any:
    return with_times(env, EVENTS, Converted(convert)).process(ShowTimes(), Types.STRING())


def without_times(env: Any) -> Any:
    return env.from_collection(EVENTS, PAIR).process(ShowTimes(), Types.STRING())


def no_watermarks(env: Any) -> Any:
    strategy = WatermarkStrategy.no_watermarks().with_timestamp_assigner(Second())
    stream = env.from_collection(EVENTS, PAIR).assign_timestamps_and_watermarks(strategy)
    return stream.process(ShowTimes(), Types.STRING())


def timers_without_watermarks(env: Any) -> Any:
    strategy = WatermarkStrategy.no_watermarks().with_timestamp_assigner(Second())
    stream = env.from_collection(EVENTS, PAIR).assign_timestamps_and_watermarks(strategy)
    return stream.key_by(lambda e: e[0]).process(Timers(partial(at, 0)), Types.STRING())


def times_after(change: Callable[[Any], Any], env: Any) -> Any:
    return change(with_times(env)).process(ShowTimes(), Types.STRING())


def watermark_in_timer(env: Any) -> Any:
    return with_times(env).key_by(lambda e: e[0]).process(ShowWatermarkInTimer(), Types.STRING())


def state_in_timer(env: Any) -> Any:
    return with_times(env).key_by(lambda e: e[0]).process(StateInTimer(), Types.STRING())


def timer_without_key(env: Any) -> Any:
    class Registers(ProcessFunction):
        def process_element(self, value: Any, ctx: Any) -> Iterable[Any]:
            ctx.timer_service().register_event_time_timer(1)
            yield "set"

    return env.from_collection(EVENTS, PAIR).process(Registers(), Types.STRING())


BIG = 2**63 - 1
REGISTERED: dict[str, tuple[Register, Register | None]] = {
    "one-each": (partial(at, 0), None),
    "later": (partial(at, 7), None),
    "in-the-past": (partial(at, -100), None),
    "twice-the-same": (partial(at_fixed, [50, 50]), None),
    "unordered": (partial(at_fixed, [50, 10, 30]), None),
    "negative": (partial(at_fixed, [-5, 0, 5]), None),
    "float": (partial(at_fixed, [10.0, 10.7, 11.2]), None),
    "negative-float": (partial(at_fixed, [-1.5]), None),
    "numpy": (partial(at_fixed, [np.int64(10), np.float64(20.5)]), None),
    "bool": (partial(at_fixed, [True]), None),
    "decimal": (partial(at_fixed, [Decimal("10.5")]), None),
    "text": (partial(at_fixed, ["10"]), None),
    "none": (partial(at_fixed, [None]), None),
    "end-of-time": (partial(at_fixed, [BIG]), None),
    "before-the-end-of-time": (partial(at_fixed, [BIG - 1]), None),
    "too-large": (partial(at_fixed, [BIG + 1]), None),
    "least": (partial(at_fixed, [-(2**63)]), None),
    "deleted": (partial(set_and_deleted, [10, 20], [10]), None),
    "deleted-and-never-set": (partial(set_and_deleted, [10], [99]), None),
    "deleted-twice": (partial(set_and_deleted, [10, 20], [20, 20]), None),
    "deleted-as-float": (partial(set_and_deleted, [10, 20], [10.0]), None),
    "deleted-in-another-domain": (other_domain, None),
    "set-again": (partial(at, 0), partial(later, 10, 60)),
    "set-for-now": (partial(at_fixed, [10]), lambda t, ctx: later(0, 9, t, ctx)),
}
CONVERTED: dict[str, Callable[[Any], Any]] = {
    "int": int,
    "float": lambda t: t + 0.7,
    "negative-float": lambda t: -t - 0.7,
    "numpy-int": np.int64,
    "numpy-float": lambda t: np.float64(t + 0.5),
    "numpy-small": np.int8,
    "bool": bool,
    "none": lambda t: None,
    "text": str,
    "decimal": lambda t: Decimal(t) + Decimal("0.9"),
    "negative": lambda t: -t,
    "zero": lambda t: 0,
    "large": lambda t: BIG - 1000,
    "too-large": lambda t: BIG + 1,
    "least": lambda t: -(2**63),
    "nan": lambda t: float("nan"),
}
CHANGED: dict[str, Callable[[Any], Any]] = {
    "map": lambda s: s.map(lambda e: e[0], Types.STRING()),
    "flat-map": lambda s: s.flat_map(lambda e: [e[0], e[0]], Types.STRING()),
    "filter": lambda s: s.filter(lambda e: e[1] > 10),
    "key-by": lambda s: s.key_by(lambda e: e[0]).map(lambda e: e[1], Types.LONG()),
    "reduce": lambda s: s.key_by(lambda e: e[0]).reduce(lambda a, b: (a[0], a[1] + b[1])),
    "union": lambda s: s.union(s),
    "rebalance": lambda s: s.rebalance(),
    "sum": lambda s: s.key_by(lambda e: e[0]).sum(1),
}

PROGRAMS = [
    *(Program(f"timers-{name}", partial(timers, *pair)) for name, pair in REGISTERED.items()),
    *(Program(f"timers-followed-{name}", partial(followed, REGISTERED[name][0])) for name in ("one-each", "later")),
    *(Program(f"timestamps-{name}", partial(assigned, convert)) for name, convert in CONVERTED.items()),
    *(Program(f"timestamps-after-{name}", partial(times_after, change)) for name, change in CHANGED.items()),
    *(Program(f"timestamps-after-{name}-batch", partial(times_after, c), batch=True) for name, c in CHANGED.items()),
    Program("timestamps-unassigned", without_times),
    Program("timestamps-no-watermarks", no_watermarks),
    Program("timers-no-watermarks", timers_without_watermarks),
    Program("timers-side-output", side),
    Program("timers-watermark", watermark_in_timer),
    Program("timers-state", state_in_timer),
    Program("timers-state-batch", state_in_timer, batch=True),
    Program("timers-without-key", timer_without_key),
    *(Program(f"timers-{name}-batch", partial(timers, *REGISTERED[name]), batch=True) for name in ("one-each", "later",
      "in-the-past", "set-again", "deleted")),
]  # fmt: skip
