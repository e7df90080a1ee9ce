"""Functions of two streams: connected ones, with and without keys, and broadcast state."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from tests.semantics.differential.cases_time import EVENTS, ShowTimes, with_times
from tests.semantics.differential.program import Program, shown
from tidemill.common import Row, Types
from tidemill.datastream import (
    BroadcastProcessFunction,
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    TimeDomain,
)
from tidemill.datastream.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor

PAIR = Types.TUPLE([Types.STRING(), Types.LONG()])
RULES = MapStateDescriptor("rules", Types.STRING(), Types.LONG())
ROWS = MapStateDescriptor("rows", Types.LONG(), Types.ROW_NAMED(["a"], [Types.LONG()]))
ANY = MapStateDescriptor("any", Types.PICKLED_BYTE_ARRAY(), Types.PICKLED_BYTE_ARRAY())
OTHERS = MapStateDescriptor("others", Types.STRING(), Types.LONG())


def pairs(env: Any) -> Any:
    return env.from_collection(EVENTS, PAIR)


def by_key(stream: Any) -> Any:
    return stream.key_by(lambda e: e[0], Types.STRING())


# --- connected streams


class Maps(CoMapFunction):
    def __init__(self, first: Callable[[Any], Any], second: Callable[[Any], Any]) -> None:
        self.first = first
        self.second = second

    def map1(self, value: Any) -> Any:
        return self.first(value)

    def map2(self, value: Any) -> Any:
        return self.second(value)


class FlatMaps(CoFlatMapFunction):
    def __init__(self, first: Callable[[Any], Any], second: Callable[[Any], Any]) -> None:
        self.first = first
        self.second = second

    def flat_map1(self, value: Any) -> Any:
        return self.first(value)

    def flat_map2(self, value: Any) -> Any:
        return self.second(value)


class Opens(CoMapFunction):
    def open(self, runtime_context: Any) -> None:
        self.opened = "opened"

    def map1(self, value: Any) -> Any:
        return f"1 {self.opened}"

    def map2(self, value: Any) -> Any:
        return f"2 {self.opened}"


class CountsKeyed(CoMapFunction):
    """Counts the records of a key, of both streams, in one state."""

    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def map1(self, value: Any) -> Any:
        self.count.update((self.count.value() or 0) + 1)
        return f"{value[0]} {self.count.value()}"

    def map2(self, value: Any) -> Any:
        return self.map1(value)


class Processes(CoProcessFunction):
    def __init__(self, shows: Callable[[Any, Any], Any]) -> None:
        self.shows = shows

    def process_element1(self, value: Any, ctx: Any) -> Iterable[Any]:
        yield f"1 {self.shows(value, ctx)}"

    def process_element2(self, value: Any, ctx: Any) -> Iterable[Any]:
        yield f"2 {self.shows(value, ctx)}"


class TimersOfTwo(KeyedCoProcessFunction):
    """Collects the values of both streams until a timer of the key."""

    def open(self, runtime_context: Any) -> None:
        self.seen = runtime_context.get_list_state(ListStateDescriptor("seen", Types.LONG()))

    def process_element1(self, value: Any, ctx: Any) -> Iterable[Any]:
        self.seen.add(value[1])
        ctx.timer_service().register_event_time_timer(100)
        return []

    def process_element2(self, value: Any, ctx: Any) -> Iterable[Any]:
        self.seen.add(-value[1])
        ctx.timer_service().register_event_time_timer(200)
        return []

    def on_timer(self, timestamp: int, ctx: Any) -> Iterable[Any]:
        event = ctx.time_domain() == TimeDomain.EVENT_TIME
        yield f"{ctx.get_current_key()} {timestamp} {event} {ctx.timestamp()} {sorted(self.seen.get())}"


class ShowsKey(KeyedCoProcessFunction):
    def process_element1(self, value: Any, ctx: Any) -> Iterable[Any]:
        yield f"1 {shown(ctx.get_current_key())}"

    def process_element2(self, value: Any, ctx: Any) -> Iterable[Any]:
        yield f"2 {shown(ctx.get_current_key())}"


def mapped(first: Callable[[Any], Any], second: Callable[[Any], Any], kind: Any, env: Any) -> Any:
    kinds = () if kind is None else (kind,)
    numbers = env.from_collection([1, 2], Types.INT())
    return pairs(env).connect(numbers).map(Maps(first, second), *kinds).map(shown, Types.STRING())


def flat_mapped(first: Callable[[Any], Any], second: Callable[[Any], Any], kind: Any, env: Any) -> Any:
    kinds = () if kind is None else (kind,)
    numbers = env.from_collection([1, 2], Types.INT())
    return pairs(env).connect(numbers).flat_map(FlatMaps(first, second), *kinds).map(shown, Types.STRING())


def at_times(env: Any) -> Any:
    both = with_times(env).connect(with_times(env, [("c", 7)]))
    return both.process(Processes(lambda value, ctx: f"{value[0]} {ctx.timestamp()}"), Types.STRING())


def times_after(env: Any) -> Any:
    both = with_times(env).connect(with_times(env, [("c", 7)]))
    return both.map(Maps(lambda e: e[0], lambda e: e[0]), Types.STRING()).process(ShowTimes(), Types.STRING())


def timers_of_two(env: Any) -> Any:
    both = by_key(with_times(env)).connect(by_key(with_times(env, [("a", 7), ("c", 8)])))
    return both.process(TimersOfTwo(), Types.STRING())


def keys_of(first: Any, second: Any, env: Any) -> Any:
    left = pairs(env).key_by(lambda e: e[0], *first)
    right = env.from_collection([1, 2], Types.INT()).key_by(lambda n: n, *second)
    return left.connect(right).process(ShowsKey(), Types.STRING())


def same_key(env: Any) -> Any:
    left = env.from_collection([1, 2], Types.INT()).key_by(lambda n: n, Types.LONG())
    right = env.from_collection([1.0, 2.5], Types.DOUBLE()).key_by(lambda n: n, Types.LONG())
    return left.connect(right).process(ShowsKey(), Types.STRING())


def counted(env: Any) -> Any:
    return by_key(pairs(env)).connect(by_key(pairs(env))).map(CountsKeyed(), Types.STRING())


def three(env: Any) -> Any:
    first = pairs(env).connect(pairs(env)).map(Maps(lambda e: e[0], lambda e: f"{e[1]}"), Types.STRING())
    return first.connect(pairs(env)).map(Maps(str, lambda e: f"third {e[0]}"), Types.STRING())


CONNECTED: dict[str, Callable[[Any], Any]] = {
    "types": partial(mapped, lambda e: e[0], str, Types.STRING()),
    "float-for-int": partial(mapped, lambda e: e[1] + 0.5, lambda n: n, Types.LONG()),
    "text-for-int": partial(mapped, lambda e: e[0], lambda n: n, Types.LONG()),
    "untyped": partial(mapped, lambda e: {"e": e}, lambda n: [n], None),
    "rows": partial(
        mapped, lambda e: Row(*e), lambda n: Row("n", n), Types.ROW_NAMED(["k", "n"], [Types.STRING(), Types.LONG()])
    ),
    "raises": partial(mapped, lambda e: e[9], str, Types.STRING()),
    "flat-lists": partial(flat_mapped, lambda e: [e[0]] * 2, lambda n: [], Types.STRING()),
    "flat-none": partial(flat_mapped, lambda e: None, lambda n: ["x"] * n, Types.STRING()),
    "flat-text": partial(flat_mapped, lambda e: e[0] + "z", lambda n: None, Types.STRING()),
    "flat-number": partial(flat_mapped, lambda e: 7, lambda n: None, Types.STRING()),
    "flat-none-in-a-list": partial(flat_mapped, lambda e: [None], lambda n: [], Types.STRING()),
    "flat-untyped": partial(flat_mapped, lambda e: [e], lambda n: [n], None),
    "opened": lambda env: pairs(env).connect(pairs(env)).map(Opens(), Types.STRING()),
    "at-times": at_times,
    "times-after": times_after,
    "timers": timers_of_two,
    "counted": counted,
    "keys-text-and-int": partial(keys_of, (), ()),
    "keys-of-types": partial(keys_of, (Types.STRING(),), (Types.INT(),)),
    "keys-of-one-type": same_key,
    "three": three,
}
SAME_IN_BATCH = ("types", "flat-lists", "flat-none", "counted", "keys-of-one-type")


# --- broadcast state


class Reads(BroadcastProcessFunction):
    """Shows what the data side may do with a state that is empty."""

    def __init__(self, step: Callable[[Any], Any]) -> None:
        self.step = step

    def process_element(self, value: Any, ctx: Any) -> Iterable[Any]:
        try:
            found = self.step(ctx.get_broadcast_state(RULES))
        except Exception as error:
            found = type(error).__name__
        yield f"{value[0]} {shown(found)}"

    def process_broadcast_element(self, value: Any, ctx: Any) -> Iterable[Any]:
        return []


class KeyedReads(KeyedBroadcastProcessFunction):
    def __init__(self, step: Callable[[Any], Any]) -> None:
        self.step = step

    def process_element(self, value: Any, ctx: Any) -> Iterable[Any]:
        return Reads(self.step).process_element(value, ctx)

    def process_broadcast_element(self, value: Any, ctx: Any) -> Iterable[Any]:
        return []


class Writes(BroadcastProcessFunction):
    """Takes step n on a state for rule n."""

    def __init__(self, which: int, steps: list[Callable[[Any], Any]]) -> None:
        self.which = which
        self.steps = steps

    def process_element(self, value: Any, ctx: Any) -> Iterable[Any]:
        return []

    def process_broadcast_element(self, value: Any, ctx: Any) -> Iterable[Any]:
        state = ctx.get_broadcast_state((RULES, ROWS, ANY, OTHERS)[self.which])
        try:
            found = self.steps[value[1]](state)
        except Exception as error:
            found = type(error).__name__
        yield f"{value[1]} {shown(found)}"


class InContext(KeyedBroadcastProcessFunction):
    """Shows the context of both sides, and of timers."""

    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> Iterable[Any]:
        self.count.update((self.count.value() or 0) + 1)
        ctx.timer_service().register_event_time_timer(value[1] + 100)
        yield f"{ctx.get_current_key()} {ctx.timestamp()} {self.count.value()}"

    def process_broadcast_element(self, value: Any, ctx: Any) -> Iterable[Any]:
        ctx.get_broadcast_state(RULES).put(value[0], value[1])
        yield f"rule {value[0]} {ctx.timestamp()}"

    def on_timer(self, timestamp: int, ctx: Any) -> Iterable[Any]:
        yield f"timer {ctx.get_current_key()} {timestamp} {sorted(ctx.get_broadcast_state(RULES).items())}"


class StateInBroadcast(InContext):
    def process_broadcast_element(self, value: Any, ctx: Any) -> Iterable[Any]:
        yield f"rule {self.count.value()}"


def reading(keyed: bool, step: Callable[[Any], Any], env: Any) -> Any:
    rules = env.from_collection([], PAIR).broadcast(RULES)
    if keyed:
        return by_key(pairs(env)).connect(rules).process(KeyedReads(step), Types.STRING())
    return pairs(env).connect(rules).process(Reads(step), Types.STRING())


def writing(which: int, steps: list[Callable[[Any], Any]], env: Any) -> Any:
    rules = env.from_collection([("r", n) for n in range(len(steps))], PAIR).broadcast(RULES, ROWS, ANY)
    return pairs(env).connect(rules).process(Writes(which, steps), Types.STRING())


def in_context(function: Callable[[], Any], env: Any) -> Any:
    rules = with_times(env, [("x", 1), ("y", 2)]).broadcast(RULES)
    return by_key(with_times(env)).connect(rules).process(function(), Types.STRING())


READS: dict[str, Callable[[Any], Any]] = {
    "get": lambda s: s.get("x"),
    "contains": lambda s: s.contains("x"),
    "in": lambda s: "x" in s,
    "items": lambda s: list(s.items()),
    "keys": lambda s: list(s.keys()),
    "values": lambda s: list(s.values()),
    "iter": lambda s: list(s),
    "put": lambda s: s.put("x", 1),
    "remove": lambda s: s.remove("x"),
    "clear": lambda s: s.clear(),
    "put-all": lambda s: s.put_all([("x", 1)]),
    "item": lambda s: s["x"],
}
WRITES: dict[str, tuple[int, list[Callable[[Any], Any]]]] = {
    "float": (0, [lambda s: s.put("x", 1.5), lambda s: s.get("x")]),
    "overwritten": (0, [lambda s: s.put("x", 1), lambda s: s.put("x", 2), lambda s: list(s.items())]),
    "emptied": (0, [lambda s: s.put("x", 1), lambda s: s.remove("x"), lambda s: (list(s.keys()), s.get("x"))]),
    "item-set": (0, [lambda s: s.__setitem__("x", 1), lambda s: s["x"], lambda s: s.__delitem__("x"),
                     lambda s: s.contains("x")]),
    "length": (0, [lambda s: s.put("x", 1), lambda s: len(list(s.items())), lambda s: len(s)]),
    "rows": (1, [lambda s: s.put(1, Row(7)), lambda s: s.get(1)[0], lambda s: list(s.keys())]),
    "any-keys": (2, [lambda s: s.put((1, "a"), {"v"}), lambda s: s.get((1, "a")), lambda s: s.contains((1, "b"))]),
    "any-none": (2, [lambda s: s.put(None, None), lambda s: s.get(None), lambda s: list(s.keys())]),
    "changed-in-place": (2, [lambda s: s.put("x", [1]), lambda s: s.get("x").append(2), lambda s: s.get("x")]),
    "not-declared": (3, [lambda s: s.put("x", 1), lambda s: s.get("x")]),
}  # fmt: skip

PROGRAMS = [
    *(Program(f"connected-{name}", build) for name, build in CONNECTED.items()),
    *(Program(f"connected-{name}-batch", CONNECTED[name], batch=True) for name in SAME_IN_BATCH),
    *(Program(f"broadcast-reads-{name}", partial(reading, False, step)) for name, step in READS.items()),
    *(Program(f"broadcast-keyed-reads-{name}", partial(reading, True, READS[name]))
      for name in ("get", "items", "put")),
    *(Program(f"broadcast-writes-{name}", partial(writing, *steps)) for name, steps in WRITES.items()),
    Program("broadcast-in-context", partial(in_context, InContext)),
    Program("broadcast-state-of-no-key", partial(in_context, StateInBroadcast)),
]  # fmt: skip
