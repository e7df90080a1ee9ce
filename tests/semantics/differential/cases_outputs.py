"""Side outputs of each kind of function, and asynchronous functions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np

from tests.semantics.differential.cases_time import EVENTS, ShowTimes, with_times
from tests.semantics.differential.program import Program, shown
from tidemill.common import Row, Time, Types
from tidemill.datastream import (
    AsyncDataStream,
    AsyncFunction,
    BroadcastProcessFunction,
    CoProcessFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    OutputTag,
    ProcessFunction,
    ProcessWindowFunction,
)
from tidemill.datastream.async_retry_predicates import empty_result_predicate, has_exception_predicate
from tidemill.datastream.async_retry_strategies import FixedDelayRetryStrategy
from tidemill.datastream.functions import ProcessAllWindowFunction
from tidemill.datastream.state import MapStateDescriptor
from tidemill.datastream.window import TumblingEventTimeWindows

PAIR = Types.TUPLE([Types.STRING(), Types.LONG()])
SIDE, OTHER, UNTYPED = OutputTag("side", Types.STRING()), OutputTag("other", Types.LONG()), OutputTag("untyped")
TIMES = OutputTag("times", Types.LONG())
ROWS = OutputTag("rows", Types.ROW_NAMED(["k", "n"], [Types.STRING(), Types.LONG()]))
RULES = MapStateDescriptor("rules", Types.STRING(), Types.LONG())


def outputs(value: Any) -> Iterable[Any]:
    yield value[0]
    yield SIDE, f"side {value[0]} {value[1]}"
    if value[1] > 10:
        yield OTHER, value[1]


class OfProcess(ProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Iterable[Any]:
        return outputs(value)


class OfKeyed(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Iterable[Any]:
        ctx.timer_service().register_event_time_timer(value[1] + 1)
        return outputs(value)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterable[Any]:
        yield TIMES, timestamp
        yield f"timer {ctx.get_current_key()}"


class OfWindow(ProcessWindowFunction):
    def process(self, key: Any, context: Any, elements: Iterable[Any]) -> Iterable[Any]:
        for element in elements:
            yield from outputs(element)


class OfAllWindows(ProcessAllWindowFunction):
    def process(self, context: Any, elements: Iterable[Any]) -> Iterable[Any]:
        for element in elements:
            yield from outputs(element)


class OfTwo(CoProcessFunction):
    def process_element1(self, value: Any, ctx: Any) -> Iterable[Any]:
        return outputs(value)

    def process_element2(self, value: Any, ctx: Any) -> Iterable[Any]:
        yield SIDE, f"second {value[0]}"


class OfTwoKeyed(KeyedCoProcessFunction):
    def process_element1(self, value: Any, ctx: Any) -> Iterable[Any]:
        return outputs(value)

    def process_element2(self, value: Any, ctx: Any) -> Iterable[Any]:
        yield SIDE, f"second {ctx.get_current_key()}"


class OfBroadcast(BroadcastProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Iterable[Any]:
        return outputs(value)

    def process_broadcast_element(self, value: Any, ctx: Any) -> Iterable[Any]:
        yield SIDE, f"rule {value[0]}"


class OfKeyedBroadcast(KeyedBroadcastProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Iterable[Any]:
        return outputs(value)

    def process_broadcast_element(self, value: Any, ctx: Any) -> Iterable[Any]:
        yield SIDE, f"rule {value[0]}"


class Yields(ProcessFunction):
    """Emits what is defined under a name: PyFlink cannot pickle a lambda that uses a tag."""

    def __init__(self, name: str) -> None:
        self.name = name

    def process_element(self, value: Any, ctx: Any) -> Iterable[Any]:
        return YIELDED[self.name][0](value)


def window() -> Any:
    return TumblingEventTimeWindows.of(Time.milliseconds(20))


def pairs(env: Any) -> Any:
    return env.from_collection(EVENTS, PAIR)


def rules(env: Any) -> Any:
    return env.from_collection([("r", 1)], PAIR).broadcast(RULES)


def by_key(stream: Any) -> Any:
    return stream.key_by(lambda e: e[0], Types.STRING())


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "process": lambda env: pairs(env).process(OfProcess(), Types.STRING()),
    "keyed": lambda env: by_key(with_times(env)).process(OfKeyed(), Types.STRING()),
    "window": lambda env: by_key(with_times(env)).window(window()).process(OfWindow(), Types.STRING()),
    "window-all": lambda env: with_times(env).window_all(window()).process(OfAllWindows(), Types.STRING()),
    "two": lambda env: pairs(env).connect(pairs(env)).process(OfTwo(), Types.STRING()),
    "two-keyed": lambda env: by_key(pairs(env)).connect(by_key(pairs(env))).process(OfTwoKeyed(), Types.STRING()),
    "broadcast": lambda env: pairs(env).connect(rules(env)).process(OfBroadcast(), Types.STRING()),
    "broadcast-keyed": lambda env: by_key(pairs(env)).connect(rules(env)).process(OfKeyedBroadcast(), Types.STRING()),
}


def side_of(function: Callable[[Any], Any], env: Any) -> Any:
    """All outputs, as PyFlink emits what nobody reads to the main output."""
    stream = function(env)
    typed = [stream.get_side_output(tag).map(shown, Types.STRING()) for tag in (SIDE, OTHER, TIMES)]
    return stream.map(lambda text: f"main {text}", Types.STRING()).union(*typed)


def with_timers(env: Any) -> Any:
    stream = FUNCTIONS["keyed"](env)
    for tag in (SIDE, OTHER):
        stream.get_side_output(tag)
    return stream.union(stream.get_side_output(TIMES).map(shown, Types.STRING()))


def yielding(name: str, env: Any) -> Any:
    stream = pairs(env).process(Yields(name), Types.STRING())
    return stream.get_side_output(YIELDED[name][1]).map(shown, Types.STRING())


def of_one_id(env: Any) -> Any:
    stream = pairs(env).process(OfProcess(), Types.STRING())
    stream.get_side_output(OTHER)
    return stream.get_side_output(OutputTag("side", Types.STRING()))


def twice(env: Any) -> Any:
    stream = pairs(env).process(OfProcess(), Types.STRING())
    stream.get_side_output(OTHER)
    return stream.get_side_output(SIDE).union(stream.get_side_output(SIDE))


def of_a_side(env: Any) -> Any:
    first = pairs(env).process(Yields("row"), Types.STRING()).get_side_output(ROWS)
    return first.process(Yields("of-a-row"), Types.STRING()).get_side_output(SIDE)


def counted(env: Any) -> Any:
    rows = pairs(env).process(Yields("row"), Types.STRING()).get_side_output(ROWS)
    return rows.key_by(lambda row: row.k).sum("n").map(shown, Types.STRING())


def times_of_a_side(env: Any) -> Any:
    stream = with_times(env).process(OfProcess(), Types.STRING())
    stream.get_side_output(OTHER)
    return stream.get_side_output(SIDE).process(ShowTimes(), Types.STRING())


def after_a_map(env: Any) -> Any:
    stream = pairs(env).process(OfProcess(), Types.STRING())
    for tag in (SIDE, OTHER):
        stream.get_side_output(tag)
    return stream.map(lambda text: text, Types.STRING()).get_side_output(SIDE)


YIELDED: dict[str, tuple[Callable[[Any], Iterable[Any]], Any]] = {
    "none": (lambda e: [(SIDE, None)], SIDE),
    "float": (lambda e: [(OTHER, e[1] + 0.7)], OTHER),
    "numpy": (lambda e: [(OTHER, np.int64(e[1]))], OTHER),
    "text-for-a-number": (lambda e: [(OTHER, "x")], OTHER),
    "row": (lambda e: [(ROWS, Row(*e))], ROWS),
    "named-row": (lambda e: [(ROWS, Row(n=e[1], k=e[0]))], ROWS),
    "untyped": (lambda e: [(UNTYPED, {"a": e[1]})], UNTYPED),
    "in-a-list": (lambda e: [[SIDE, "x"]], SIDE),
    "of-three": (lambda e: [(SIDE, "x", "y")], SIDE),
    "nothing": (lambda e: [], SIDE),
    "of-a-row": (lambda row: [(SIDE, f"{row[0]} {row[1]}")], SIDE),
}


# --- asynchronous functions


class Waits(AsyncFunction):
    """Answers after a delay by record, or never."""

    def __init__(self, delay: Callable[[Any], float], late: Any = None) -> None:
        self.delay = delay
        self.late = late

    async def async_invoke(self, value: Any) -> Any:
        await asyncio.sleep(self.delay(value))
        return [f"{value} answered"]

    def timeout(self, value: Any) -> Any:
        if isinstance(self.late, Exception):
            raise self.late
        return self.late if self.late is not None else [f"{value} late"]


class NoTimeout(AsyncFunction):
    async def async_invoke(self, value: Any) -> Any:
        await asyncio.sleep(5)
        return [value]


class Answers(AsyncFunction):
    def __init__(self, result: Callable[[Any], Any]) -> None:
        self.result = result

    async def async_invoke(self, value: Any) -> Any:
        return self.result(value)


class Opened(AsyncFunction):
    def open(self, runtime_context: Any) -> None:
        self.name = "opened"

    async def async_invoke(self, value: Any) -> Any:
        return [f"{value} {self.name}"]


class Flaky(AsyncFunction):
    """Fails, or gives nothing, before it answers."""

    def __init__(self, empty: bool, times: int) -> None:
        self.empty = empty
        self.times = times
        self.tried: dict[Any, int] = {}

    async def async_invoke(self, value: Any) -> Any:
        self.tried[value] = self.tried.get(value, 0) + 1
        if self.tried[value] <= self.times:
            if self.empty:
                return []
            raise ValueError(f"{value} fails")
        return [f"{value} after {self.tried[value]}"]


def raised(value: Any) -> Any:
    raise ValueError("no answer")


def retrying(function: AsyncFunction, ordered: bool, env: Any) -> Any:
    strategy = FixedDelayRetryStrategy(3, 10, empty_result_predicate, has_exception_predicate)
    wait = AsyncDataStream.ordered_wait_with_retry if ordered else AsyncDataStream.unordered_wait_with_retry
    stream = env.from_collection(["x", "y"], Types.STRING())
    return wait(stream, function, Time.seconds(30), strategy, 10, Types.STRING())


def waiting(
    function: AsyncFunction, ordered: bool, env: Any, *, timeout: int = 30_000, capacity: int = 10, kind: Any = None
) -> Any:
    wait = AsyncDataStream.ordered_wait if ordered else AsyncDataStream.unordered_wait
    stream = env.from_collection([3, 1, 2], Types.INT())
    kinds = () if kind is None else (kind,)
    return wait(stream, function, Time.milliseconds(timeout), capacity, *kinds).map(shown, Types.STRING())


def keyed_before(env: Any) -> Any:
    keyed = pairs(env).key_by(lambda e: e[0], Types.STRING())
    return AsyncDataStream.ordered_wait(keyed, Answers(lambda e: [e[0]]), Time.seconds(30), 10, Types.STRING())


def times_kept(env: Any) -> Any:
    waited = AsyncDataStream.ordered_wait(with_times(env), Answers(lambda e: [e]), Time.seconds(30), 10, PAIR)
    return waited.process(ShowTimes(), Types.STRING())


def two_in_a_row(env: Any) -> Any:
    stream = env.from_collection([3, 1, 2], Types.INT())
    for _ in range(2):
        stream = AsyncDataStream.ordered_wait(stream, Answers(lambda n: [n + 1, n]), Time.seconds(30), 10, Types.INT())
    return stream.map(shown, Types.STRING())


def slower_first(value: int) -> float:
    return value / 20


ASYNC: dict[str, Callable[[Any], Any]] = {
    "waits-ordered": partial(waiting, Waits(slower_first), True, kind=Types.STRING()),
    "waits-unordered": partial(waiting, Waits(slower_first), False, kind=Types.STRING()),
    "capacity-one": partial(waiting, Waits(slower_first), False, kind=Types.STRING(), capacity=1),
    "capacity-zero": partial(waiting, Waits(slower_first), False, kind=Types.STRING(), capacity=0),
    "timeout": partial(waiting, Waits(lambda n: 5 if n == 1 else 0), True, kind=Types.STRING(), timeout=500),
    "timeout-empty": partial(waiting, Waits(lambda n: 5, []), True, kind=Types.STRING(), timeout=500),
    "timeout-raises": partial(
        waiting, Waits(lambda n: 5, ValueError("too late")), True, kind=Types.STRING(), timeout=500
    ),
    "timeout-default": partial(waiting, NoTimeout(), True, kind=Types.INT(), timeout=500),
    "timeout-zero": partial(waiting, Waits(lambda n: 0), True, kind=Types.STRING(), timeout=0),
    "raises": partial(waiting, Answers(raised), True, kind=Types.STRING()),
    "float-for-int": partial(waiting, Answers(lambda n: [n + 0.5]), True, kind=Types.INT()),
    "text-for-int": partial(waiting, Answers(lambda n: ["x"]), True, kind=Types.INT()),
    "none-in-a-list": partial(waiting, Answers(lambda n: [None]), True, kind=Types.INT()),
    "untyped": partial(waiting, Answers(lambda n: [{"n": n}]), True),
    "several": partial(waiting, Answers(lambda n: [n] * n), True, kind=Types.INT()),
    "rows": partial(waiting, Answers(lambda n: [Row(n)]), True, kind=Types.ROW_NAMED(["n"], [Types.INT()])),
    "opened": partial(waiting, Opened(), True, kind=Types.STRING()),
    "keyed": keyed_before,
    "times": times_kept,
    "two": two_in_a_row,
    "retried": partial(retrying, Flaky(False, 2), True),
    "retried-unordered": partial(retrying, Flaky(False, 2), False),
    "retried-empty": partial(retrying, Flaky(True, 2), True),
    "retried-in-vain": partial(retrying, Flaky(False, 9), True),
    "retried-empty-in-vain": partial(retrying, Flaky(True, 9), True),
}

PROGRAMS = [
    *(Program(f"side-outputs-of-{name}", partial(side_of, function)) for name, function in FUNCTIONS.items()),
    *(Program(f"side-outputs-of-{name}-batch", partial(side_of, FUNCTIONS[name]), batch=True)
      for name in ("process", "two", "broadcast")),
    *(Program(f"side-outputs-yields-{name}", partial(yielding, name)) for name in YIELDED),
    Program("side-outputs-timers", with_timers),
    Program("side-outputs-of-one-id", of_one_id),
    Program("side-outputs-twice", twice),
    Program("side-outputs-of-a-side", of_a_side),
    Program("side-outputs-counted", counted),
    Program("side-outputs-times", times_of_a_side),
    Program("side-outputs-after-a-map", after_a_map),
    *(Program(f"async-{name}", build, ordered="unordered" not in name) for name, build in ASYNC.items()),
    *(Program(f"async-{name}-batch", ASYNC[name], ordered=True, batch=True) for name in ("waits-ordered", "several")),
]  # fmt: skip
