"""The user functions of fuzzed programs, as a user would write them. The model has its own idea of what they do."""

from __future__ import annotations

import builtins
from collections.abc import Iterable, Iterator
from typing import Any, Final

from tests.simulation.fuzz_program import Act, Node
from tests.simulation.fuzz_records import KEYS, change, digest, form_like, made, name_of, parts
from tidemill.common import Types
from tidemill.datastream import (
    AggregateFunction,
    AggregatingStateDescriptor,
    AllWindowFunction,
    CoGroupFunction,
    CoMapFunction,
    FilterFunction,
    FlatMapFunction,
    JoinFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapFunction,
    MapStateDescriptor,
    OutputTag,
    ProcessAllWindowFunction,
    ProcessFunction,
    ProcessJoinFunction,
    ProcessWindowFunction,
    ReduceFunction,
    ReducingStateDescriptor,
    RuntimeContext,
    ValueStateDescriptor,
    WindowFunction,
)

SIDE: Final = OutputTag("side")
POISON_EVERY: Final = 7
POISON: Final = 3


class Flaky:
    """Raises once, after a number of calls of functions that have no error policy."""

    def __init__(self) -> None:
        self.left: int | None = None

    def touch(self) -> None:
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                self.left = None
                raise FlakyError("once")


class FlakyError(Exception):
    """What :class:`Flaky` raises."""


FLAKY: Final = Flaky()


class _Of:
    """A function that knows the operator it is for."""

    def __init__(self, node: Node) -> None:
        self.node = node

    def check(self, number: int) -> None:
        """Raise at some numbers, if the operator says what becomes of the record."""
        if self.node["policy"] is None:
            FLAKY.touch()
        elif number % POISON_EVERY == POISON:
            raise getattr(builtins, self.node["raised"])(f"poison {number}")

    def made(self, key: str, number: int, note: str) -> Any:
        return made(self.node["form"], key, number, note)


class ToForm(_Of, MapFunction):
    def map(self, value: Any) -> Any:
        return self.made(*parts(value))


class Same(MapFunction):
    def map(self, value: Any) -> Any:
        return value


class Change(_Of, MapFunction):
    """A new record, the given one changed, or one record that is used again and again."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.used = self.made("", 0, "")

    def map(self, value: Any) -> Any:
        key, number, note = parts(value)
        self.check(number)
        changed = self.node["a"] * number + self.node["b"]
        if self.node["mode"] == "mutate":
            change(value, changed)
            return value
        if self.node["mode"] == "reuse" and self.node["form"] != "tuple":
            if isinstance(self.used, dict):
                self.used.update(self.made(key, changed, note))
            else:
                for field, one in enumerate(parts(self.made(key, changed, note))):
                    self.used[field] = one
            return self.used
        return self.made(key, changed, note)


class Rekey(_Of, MapFunction):
    def map(self, value: Any) -> Any:
        _, number, note = parts(value)
        return self.made(KEYS[self.node["a"] * number % len(KEYS)], number, note)


class Several(_Of, FlatMapFunction):
    """As many records as the number says; with ``reuse`` the same object each time, with ``mutate`` the input too."""

    def flat_map(self, value: Any) -> Iterator[Any]:
        key, number, note = parts(value)
        mode, form = self.node["mode"], self.node["form"]
        out = self.made(key, number, note)
        if mode == "mutate" and form != "tuple":
            out = value
        for count in range(number % 3):
            if count == 1:
                self.check(number)
            if mode == "new" or form == "tuple":
                out = self.made(key, self.node["a"] * number + count, note)
            else:
                change(out, self.node["a"] * number + count)
            yield out
        if mode != "new" and form != "tuple":
            change(out, 0)


class Keep(_Of, FilterFunction):
    def filter(self, value: Any) -> bool:
        number = parts(value)[1]
        self.check(number)
        return bool(number % self.node["every"])


class Split(_Of, ProcessFunction):
    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Iterator[Any]:
        key, number, note = parts(value)
        out = self.made(key, number, note)
        yield (SIDE, out) if number % self.node["every"] == 0 else out


class Combine(_Of, ReduceFunction):
    """Adds up numbers; may change and return the record it has."""

    def reduce(self, value1: Any, value2: Any) -> Any:
        key, one, _ = parts(value1)
        other, two, note = parts(value2)
        if self.node.kind == "reduce":
            self.check(two)
            if self.node["mutates"] and not isinstance(value1, tuple):
                change(value1, one + two)
                return value1
        else:
            note = ""
        return made(form_like(value1), max(key, other), one + two, note)


class Mean(AggregateFunction):
    """Key, sum and count; records or numbers."""

    def create_accumulator(self) -> Any:
        return "", 0, 0

    def add(self, value: Any, accumulator: Any) -> Any:
        key, number = ("", value) if isinstance(value, int) else parts(value)[:2]
        return max(key, accumulator[0]), accumulator[1] + number, accumulator[2] + 1

    def get_result(self, accumulator: Any) -> Any:
        return accumulator[0], accumulator[1] % 1000, f"of {accumulator[2]}"

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return max(acc_a[0], acc_b[0]), acc_a[1] + acc_b[1], acc_a[2] + acc_b[2]


class _States(_Of):
    """Keyed state of each kind, and what scripts do with it."""

    def open(self, runtime_context: RuntimeContext) -> None:
        typed = self.node["state"] == "typed"
        long = Types.LONG() if typed else None
        self.value = runtime_context.get_state(ValueStateDescriptor("v", long))
        self.list = runtime_context.get_list_state(ListStateDescriptor("l", long))
        self.map = runtime_context.get_map_state(MapStateDescriptor("m", long, long))
        self.most = runtime_context.get_reducing_state(ReducingStateDescriptor("r", max, long))
        self.mean = runtime_context.get_aggregating_state(AggregatingStateDescriptor("g", Mean()))

    def play(self, script: Iterable[Act], number: int, time: int | None, ctx: Any) -> Iterator[Any]:
        for act in script:
            if number % act.every != act.rest:
                continue
            if act.do == "raise":
                if self.node["policy"] is not None:
                    raise getattr(builtins, self.node["raised"])("scripted")
            elif act.do in ("emit", "side"):
                text = self.told(time)
                out = self.made(name_of(ctx.get_current_key()), digest(text), text)
                yield out if act.do == "emit" else (SIDE, out)
            else:
                self.act(act, number, time, ctx)

    def told(self, time: int | None) -> str:
        entries = sorted(self.map.items())
        return f"{time} {self.value.value()} {list(self.list.get())} {entries} {self.most.get()} {self.mean.get()}"

    def act(self, act: Act, number: int, time: int | None, ctx: Any) -> None:
        state, how = act.do[0], act.do[1]
        if state == "t":
            timers = ctx.timer_service()
            change_timer = timers.register_event_time_timer if how == "+" else timers.delete_event_time_timer
            change_timer((time or 0) + act.arg)
        elif how == "0":
            {"v": self.value, "l": self.list, "m": self.map, "r": self.most, "g": self.mean}[state].clear()
        elif state == "v":
            self.value.update((self.value.value() or 0) + number)
        elif state == "m" and how == "-":
            self.map.remove(number % 4)
        elif state == "m":
            self.map.put(number % 4, (self.map.get(number % 4) or 0) + 1)
        elif how == "=":
            self.list.update([number, act.arg])
        else:
            {"l": self.list, "r": self.most, "g": self.mean}[state].add(number)


class Scripted(_States, KeyedProcessFunction):
    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        if self.node["policy"] is None:
            FLAKY.touch()
        return self.play(self.node["script"], parts(value)[1], ctx.timestamp(), ctx)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[Any]:
        return self.play(self.node["timer_script"], timestamp, timestamp, ctx)


class ScriptedTwo(_States, KeyedCoProcessFunction):
    def process_element1(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> Iterator[Any]:
        return self.play(self.node["script"], parts(value)[1], ctx.timestamp(), ctx)

    def process_element2(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> Iterator[Any]:
        return self.play(self.node["script2"], parts(value)[1], ctx.timestamp(), ctx)

    def on_timer(self, timestamp: int, ctx: KeyedCoProcessFunction.OnTimerContext) -> Iterator[Any]:
        return self.play(self.node["timer_script"], timestamp, timestamp, ctx)


class Counted(_Of):
    """Numbers the records of a key; forgets the count now and then."""

    def __call__(self, value: Any, count: int | None) -> tuple[Any, int | None]:
        key, number, note = parts(value)
        seen = (count or 0) + 1
        return self.made(key, number + seen, note), None if number % 5 == 0 else seen

    def several(self, value: Any, count: int | None) -> tuple[list[Any], int | None]:
        result, seen = self(value, count)
        return [result] * (parts(value)[1] % 3), seen


class PassOn(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        yield value


class TwoWays(_Of, CoMapFunction):
    def map1(self, value: Any) -> Any:
        key, number, note = parts(value)
        self.check(number)
        return self.made(key, number + 1, note)

    def map2(self, value: Any) -> Any:
        key, number, note = parts(value)
        self.check(number)
        return self.made(key, 2 * number, note)


# --- windows and joins


def told(node: Node, elements: Iterable[Any]) -> str:
    texts = [f"{number}/{note}" for _, number, note in map(parts, elements)]
    return " ".join(sorted(texts) if node["sorted"] else texts)


class Show(_Of, WindowFunction):
    def apply(self, key: Any, window: Any, inputs: Iterable[Any]) -> Iterator[Any]:
        text = f"[{window.start},{window.end}) {told(self.node, inputs)}"
        yield self.made(name_of(key), digest(text), text)


class ShowProcess(_Of, ProcessWindowFunction):
    """Also counts the windows of a key that have fired."""

    def process(self, key: Any, context: ProcessWindowFunction.Context, elements: Iterable[Any]) -> Iterator[Any]:
        fired = context.global_state().get_state(ValueStateDescriptor("fired", Types.LONG()))
        fired.update((fired.value() or 0) + 1)
        text = f"[{context.window().start},{context.window().end}) {fired.value()} {told(self.node, elements)}"
        yield self.made(name_of(key), digest(text), text)


class ShowAll(_Of, AllWindowFunction):
    def apply(self, window: Any, inputs: Iterable[Any]) -> Iterator[Any]:
        text = f"[{window.start},{window.end}) {told(self.node, inputs)}"
        yield self.made("all", digest(text), text)


class ShowAllProcess(_Of, ProcessAllWindowFunction):
    def process(self, context: ProcessAllWindowFunction.Context, elements: Iterable[Any]) -> Iterator[Any]:
        fired = context.global_state().get_state(ValueStateDescriptor("fired", Types.LONG()))
        fired.update((fired.value() or 0) + 1)
        text = f"[{context.window().start},{context.window().end}) {fired.value()} {told(self.node, elements)}"
        yield self.made("all", digest(text), text)


class ShowCount(_Of, WindowFunction):
    def apply(self, key: Any, window: Any, inputs: Iterable[Any]) -> Iterator[Any]:
        text = told(self.node, inputs)
        yield self.made(name_of(key), digest(text), text)


class Pair(_Of, JoinFunction):
    def join(self, first: Any, second: Any) -> Any:
        key, one, note1 = parts(first)
        _, two, note2 = parts(second)
        return self.made(key, 3 * one + two, f"{note1}+{note2}")


class Groups(_Of, CoGroupFunction):
    def co_group(self, first: Iterable[Any], second: Iterable[Any]) -> Iterator[Any]:
        first, second = list(first), list(second)
        text = f"{told(self.node, first)} | {told(self.node, second)}"
        yield self.made(parts([*first, *second][0])[0], digest(text), text)


class Near(_Of, ProcessJoinFunction):
    def process_element(self, left: Any, right: Any, ctx: ProcessJoinFunction.Context) -> Iterator[Any]:
        key, one, note1 = parts(left)
        _, two, note2 = parts(right)
        text = f"{note1}@{ctx.get_left_timestamp()}+{note2}@{ctx.get_right_timestamp()}"
        yield self.made(key, 3 * one + two, text)


RULES: Final = MapStateDescriptor("rules", Types.LONG(), Types.LONG())


class WithRules(_Of, KeyedBroadcastProcessFunction):
    """Adds up what is broadcast, and shows it when a timer fires."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.seen = runtime_context.get_state(ValueStateDescriptor("seen", Types.LONG()))

    def process_element(self, value: Any, ctx: KeyedBroadcastProcessFunction.ReadOnlyContext) -> None:
        self.seen.update((self.seen.value() or 0) + parts(value)[1])
        ctx.timer_service().register_event_time_timer(ctx.timestamp() + self.node["delay"])

    def process_broadcast_element(self, value: Any, ctx: KeyedBroadcastProcessFunction.Context) -> None:
        number = parts(value)[1]
        rules = ctx.get_broadcast_state(RULES)
        if self.node["clears"] and number % 5 == 0:
            rules.remove(number % 4)
        else:
            rules.put(number % 4, (rules.get(number % 4) or 0) + number)

    def on_timer(self, timestamp: int, ctx: KeyedBroadcastProcessFunction.OnTimerContext) -> Iterator[Any]:
        rules = sorted(ctx.get_broadcast_state(RULES).items())
        text = f"{timestamp} {self.seen.value()} {rules}"
        yield self.made(name_of(ctx.get_current_key()), digest(text), text)
