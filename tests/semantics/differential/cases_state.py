"""Kinds of state, with None and absent values; broadcast state; functions of two streams."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from tests.semantics.differential.program import Program, shown
from tidemill.common import Row, Types
from tidemill.datastream import (
    AggregateFunction,
    BroadcastProcessFunction,
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    OutputTag,
    ReduceFunction,
)
from tidemill.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)

PAIR = Types.TUPLE([Types.STRING(), Types.LONG()])
Steps = list[Callable[[Any], Any]]


class Add(ReduceFunction):
    def reduce(self, value1: Any, value2: Any) -> Any:
        return value1 + value2


class Mean(AggregateFunction):
    def create_accumulator(self) -> Any:
        return 0, 0

    def add(self, value: Any, accumulator: Any) -> Any:
        return accumulator[0] + value, accumulator[1] + 1

    def get_result(self, accumulator: Any) -> Any:
        return accumulator[0] / accumulator[1] if accumulator[1] else None

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


def descriptors(kind: str, of: Any) -> Any:
    made: dict[str, Callable[[], Any]] = {
        "value": lambda: ValueStateDescriptor("s", of),
        "list": lambda: ListStateDescriptor("s", of),
        "map": lambda: MapStateDescriptor("s", Types.STRING(), of),
        "reducing": lambda: ReducingStateDescriptor("s", Add(), of),
        "aggregating": lambda: AggregatingStateDescriptor("s", Mean(), Types.TUPLE([Types.LONG(), Types.LONG()])),
    }
    return made[kind]()


class Does(KeyedProcessFunction):
    """For record n of a key, takes step n on a state, and shows what it returns."""

    def __init__(self, kind: str, steps: Steps, of: Callable[[], Any]) -> None:
        self.kind = kind
        self.steps = steps
        self.of = of

    def open(self, runtime_context: Any) -> None:
        get = {
            "value": runtime_context.get_state,
            "list": runtime_context.get_list_state,
            "map": runtime_context.get_map_state,
            "reducing": runtime_context.get_reducing_state,
            "aggregating": runtime_context.get_aggregating_state,
        }[self.kind]
        self.state = get(descriptors(self.kind, self.of()))

    def process_element(self, value: Any, ctx: Any) -> Iterable[Any]:
        if value[1] < len(self.steps):
            try:
                found = self.steps[value[1]](self.state)
            except Exception as error:
                found = f"{type(error).__name__}"
            yield f"{value[0]} {value[1]} {shown(found)}"


def listed(found: Any) -> Any:
    return found if found is None else list(found)


def on_state(kind: str, steps: Steps, of: Callable[[], Any], env: Any) -> Any:
    events = [(key, n) for n in range(len(steps)) for key in ("a", "b")]
    keyed = env.from_collection(events, PAIR).key_by(lambda e: e[0], Types.STRING())
    return keyed.process(Does(kind, steps, of), Types.STRING())


def raised(change: Callable[[Any], Any], env: Any) -> Any:
    """A change that may fail outside of the function, when state is written."""
    kind = {"v": "value", "l": "list", "m": "map"}[change.__code__.co_varnames[0]]
    return on_state(kind, [change, _read(kind)], Types.LONG, env)


def _read(kind: str) -> Callable[[Any], Any]:
    return {"value": lambda s: s.value(), "list": lambda s: listed(s.get()), "map": lambda s: sorted(s.items())}[kind]


LONG: Callable[[], Any] = Types.LONG
TEXT: Callable[[], Any] = Types.STRING
ROW: Callable[[], Any] = lambda: Types.ROW_NAMED(["a", "b"], [Types.LONG(), Types.STRING()])  # noqa: E731
STEPS: dict[str, tuple[str, Steps, Callable[[], Any]]] = {
    "value-absent": ("value", [lambda s: s.value()], LONG),
    "value-none": ("value", [lambda s: s.update(None), lambda s: s.value()], LONG),
    "value-none-after": ("value", [lambda s: s.update(1), lambda s: s.update(None), lambda s: s.value()], LONG),
    "value-text-none": ("value", [lambda s: s.update(None), lambda s: s.value()], TEXT),
    "value-cleared": ("value", [lambda s: s.update(1), lambda s: s.clear(), lambda s: s.value()], LONG),
    "value-cleared-absent": ("value", [lambda s: s.clear(), lambda s: s.value()], LONG),
    "value-row": ("value", [lambda s: s.update(Row(1, "x")), lambda s: s.value()], ROW),
    "value-row-field": ("value", [lambda s: s.update(Row(1, "x")), lambda s: s.value()["b"]], ROW),
    "value-changed-in-place": (
        "value",
        [lambda s: s.update([1]), lambda s: s.value().append(2), lambda s: s.value()],
        lambda: Types.PICKLED_BYTE_ARRAY(),
    ),
    "value-zero": ("value", [lambda s: s.update(0), lambda s: s.value()], LONG),
    "list-absent": ("list", [lambda s: listed(s.get())], LONG),
    "list-absent-type": ("list", [lambda s: type(s.get()).__name__], LONG),
    "list-absent-truth": ("list", [lambda s: bool(s.get())], LONG),
    "list-added": ("list", [lambda s: s.add(1), lambda s: s.add(2), lambda s: listed(s.get())], LONG),
    "list-none": ("list", [lambda s: s.add(None), lambda s: listed(s.get())], LONG),
    "list-text-none": ("list", [lambda s: s.add(None), lambda s: listed(s.get())], TEXT),
    "list-add-all": ("list", [lambda s: s.add_all([1, 2]), lambda s: s.add_all([]), lambda s: listed(s.get())], LONG),
    "list-add-all-tuple": ("list", [lambda s: s.add_all((1, 2)), lambda s: listed(s.get())], LONG),
    "list-add-all-none": ("list", [lambda s: s.add_all(None), lambda s: listed(s.get())], LONG),
    "list-update": ("list", [lambda s: s.add(1), lambda s: s.update([7, 8]), lambda s: listed(s.get())], LONG),
    "list-update-empty": ("list", [lambda s: s.add(1), lambda s: s.update([]), lambda s: listed(s.get())], LONG),
    "list-update-none": ("list", [lambda s: s.add(1), lambda s: s.update(None), lambda s: listed(s.get())], LONG),
    "list-cleared": ("list", [lambda s: s.add(1), lambda s: s.clear(), lambda s: listed(s.get())], LONG),
    "list-cleared-and-added": (
        "list",
        [lambda s: s.add(1), lambda s: s.clear() or s.add(2), lambda s: listed(s.get())],
        LONG,
    ),
    "map-absent": ("map", [lambda s: s.get("x")], LONG),
    "map-contains-absent": ("map", [lambda s: s.contains("x")], LONG),
    "map-none": ("map", [lambda s: s.put("x", None), lambda s: s.get("x"), lambda s: s.contains("x")], LONG),
    "map-key-none": ("map", [lambda s: s.put(None, 1), lambda s: s.get(None)], LONG),
    "map-empty": ("map", [lambda s: s.is_empty(), lambda s: s.put("x", 1), lambda s: s.is_empty()], LONG),
    "map-removed": (
        "map",
        [lambda s: s.put("x", 1), lambda s: s.remove("x"), lambda s: (s.get("x"), s.is_empty())],
        LONG,
    ),
    "map-remove-absent": ("map", [lambda s: s.remove("x"), lambda s: s.is_empty()], LONG),
    "map-put-all-dict": ("map", [lambda s: s.put_all({"x": 1, "y": 2}), lambda s: sorted(s.items())], LONG),
    "map-put-all-pairs": ("map", [lambda s: s.put_all([("x", 1), ("y", 2)]), lambda s: sorted(s.items())], LONG),
    "map-put-all-items": ("map", [lambda s: s.put_all({"x": 1}.items()), lambda s: sorted(s.items())], LONG),
    "map-keys": ("map", [lambda s: s.put("y", 1), lambda s: s.put("x", 2), lambda s: sorted(s.keys())], LONG),
    "map-values": ("map", [lambda s: s.put("y", 1), lambda s: s.put("x", 2), lambda s: sorted(s.values())], LONG),
    "map-items": ("map", [lambda s: s.put("y", 1), lambda s: [shown(one) for one in s.items()]], LONG),
    "map-keys-of-none": ("map", [lambda s: sorted(s.keys()), lambda s: listed(s.values())], LONG),
    "map-iter": ("map", [lambda s: s.put("y", 1), lambda s: sorted(s)], LONG),
    "map-brackets": ("map", [lambda s: s.put("y", 1), lambda s: s["y"], lambda s: "y" in s], LONG),
    "map-brackets-absent": ("map", [lambda s: s["y"]], LONG),
    "map-set-item": ("map", [lambda s: s.__setitem__("y", 1), lambda s: s.get("y")], LONG),
    "map-del-item": ("map", [lambda s: s.put("y", 1), lambda s: s.__delitem__("y"), lambda s: s.is_empty()], LONG),
    "map-len": ("map", [lambda s: s.put("y", 1), lambda s: len(s)], LONG),
    "map-cleared": ("map", [lambda s: s.put("y", 1), lambda s: s.clear(), lambda s: sorted(s.items())], LONG),
    "map-overwritten": ("map", [lambda s: s.put("y", 1), lambda s: s.put("y", 2), lambda s: sorted(s.items())], LONG),
    "reducing-absent": ("reducing", [lambda s: s.get()], LONG),
    "reducing-added": ("reducing", [lambda s: s.add(1), lambda s: s.add(2), lambda s: s.get()], LONG),
    "reducing-cleared": ("reducing", [lambda s: s.add(1), lambda s: s.clear(), lambda s: s.get()], LONG),
    "reducing-none": ("reducing", [lambda s: s.add(None), lambda s: s.get()], LONG),
    "reducing-none-after": ("reducing", [lambda s: s.add(1), lambda s: s.add(None), lambda s: s.get()], LONG),
    "reducing-text": ("reducing", [lambda s: s.add("x"), lambda s: s.add("y"), lambda s: s.get()], TEXT),
    "aggregating-absent": ("aggregating", [lambda s: s.get()], LONG),
    "aggregating-added": ("aggregating", [lambda s: s.add(1), lambda s: s.add(2), lambda s: s.get()], LONG),
    "aggregating-cleared": ("aggregating", [lambda s: s.add(1), lambda s: s.clear(), lambda s: s.get()], LONG),
    "aggregating-none": ("aggregating", [lambda s: s.add(None), lambda s: s.get()], LONG),
}

RULES = MapStateDescriptor("rules", Types.STRING(), Types.LONG())


class Broadcasts(BroadcastProcessFunction):
    """Shows what each step does to the broadcast state, on the broadcast side."""

    def __init__(self, steps: Steps) -> None:
        self.steps = steps

    def process_element(self, value: Any, ctx: Any) -> Iterable[Any]:
        return []

    def process_broadcast_element(self, value: Any, ctx: Any) -> Iterable[Any]:
        state = ctx.get_broadcast_state(RULES)
        try:
            found = self.steps[value[1]](state)
        except Exception as error:
            found = type(error).__name__
        yield f"{value[1]} {shown(found)}"


class KeyedBroadcasts(KeyedBroadcastProcessFunction):
    def __init__(self, steps: Steps) -> None:
        self.steps = steps

    def process_element(self, value: Any, ctx: Any) -> Iterable[Any]:
        return []

    def process_broadcast_element(self, value: Any, ctx: Any) -> Iterable[Any]:
        yield from Broadcasts(self.steps).process_broadcast_element(value, ctx)


def broadcast(keyed: bool, steps: Steps, env: Any) -> Any:
    rules = env.from_collection([("r", n) for n in range(len(steps))], PAIR).broadcast(RULES)
    data = env.from_collection([("a", 1)], PAIR)
    if keyed:
        return data.key_by(lambda e: e[0]).connect(rules).process(KeyedBroadcasts(steps), Types.STRING())
    return data.connect(rules).process(Broadcasts(steps), Types.STRING())


ON_BROADCAST: dict[str, Steps] = {
    "absent": [lambda s: s.get("x"), lambda s: s.contains("x"), lambda s: s.is_empty()],
    "put": [lambda s: s.put("x", 1), lambda s: s.get("x"), lambda s: sorted(s.items())],
    "none": [lambda s: s.put("x", None), lambda s: s.get("x"), lambda s: s.contains("x")],
    "put-all": [lambda s: s.put_all({"x": 1, "y": 2}), lambda s: sorted(s.keys()), lambda s: sorted(s.values())],
    "put-all-pairs": [lambda s: s.put_all([("x", 1)]), lambda s: sorted(s.items())],
    "removed": [lambda s: s.put("x", 1), lambda s: s.remove("x"), lambda s: s.is_empty()],
    "remove-absent": [lambda s: s.remove("x"), lambda s: s.is_empty()],
    "cleared": [lambda s: s.put("x", 1), lambda s: s.clear(), lambda s: sorted(s.items())],
    "iter": [lambda s: s.put("x", 1), lambda s: sorted(s), lambda s: "x" in s, lambda s: s["x"]],
}


# --- two streams

LEFT, RIGHT = [("a", 1), ("b", 2)], [("a", 10), ("c", 30)]
SIDE = OutputTag("side", Types.STRING())


class Both(CoMapFunction):
    def map1(self, value: Any) -> Any:
        return f"1 {value[0]}"

    def map2(self, value: Any) -> Any:
        return f"2 {value[1]}"


class NoneOfSecond(CoMapFunction):
    def map1(self, value: Any) -> Any:
        return value[0]

    def map2(self, value: Any) -> Any:
        return None


class BothFlat(CoFlatMapFunction):
    def flat_map1(self, value: Any) -> Any:
        yield f"1 {value[0]}"
        yield f"1 {value[1]}"

    def flat_map2(self, value: Any) -> Any:
        return [f"2 {value[0]}"] if value[1] > 10 else None


class BothProcess(CoProcessFunction):
    def process_element1(self, value: Any, ctx: Any) -> Iterable[Any]:
        yield f"1 {value[0]} {shown(ctx.timestamp()) if ctx.timestamp() and ctx.timestamp() > 0 else 'no time'}"

    def process_element2(self, value: Any, ctx: Any) -> Iterable[Any]:
        yield SIDE, f"2 {value[0]}"


class Joined(KeyedCoProcessFunction):
    """Pairs the values of both streams by key, in any order of arrival."""

    def open(self, runtime_context: Any) -> None:
        self.left = runtime_context.get_state(ValueStateDescriptor("left", Types.LONG()))
        self.right = runtime_context.get_state(ValueStateDescriptor("right", Types.LONG()))

    def process_element1(self, value: Any, ctx: Any) -> Iterable[Any]:
        self.left.update(value[1])
        return self.both(ctx)

    def process_element2(self, value: Any, ctx: Any) -> Iterable[Any]:
        self.right.update(value[1])
        return self.both(ctx)

    def both(self, ctx: Any) -> Iterable[Any]:
        if self.left.value() is not None and self.right.value() is not None:
            yield f"{ctx.get_current_key()} {self.left.value()} {self.right.value()}"


def connected(keyed: bool, then: Callable[[Any], Any], env: Any) -> Any:
    left, right = env.from_collection(LEFT, PAIR), env.from_collection(RIGHT, PAIR)
    both = left.connect(right)
    return then(both.key_by(lambda e: e[0], lambda e: e[0], Types.STRING()) if keyed else both)


def of_two_keyed(env: Any) -> Any:
    left = env.from_collection(LEFT, PAIR).key_by(lambda e: e[0], Types.STRING())
    right = env.from_collection(RIGHT, PAIR).key_by(lambda e: e[0], Types.STRING())
    return left.connect(right).process(Joined(), Types.STRING())


CONNECTED: dict[str, Callable[[Any], Any]] = {
    "map": lambda c: c.map(Both(), Types.STRING()),
    "map-none": lambda c: c.map(NoneOfSecond(), Types.STRING()),
    "map-untyped": lambda c: c.map(Both()).map(shown, Types.STRING()),
    "map-none-untyped": lambda c: c.map(NoneOfSecond()).map(shown, Types.STRING()),
    "flat-map": lambda c: c.flat_map(BothFlat(), Types.STRING()),
}

PROGRAMS = [
    *(Program(f"state-{name}", partial(on_state, *steps)) for name, steps in STEPS.items()),
    *(Program(f"state-{name}-batch", partial(on_state, *STEPS[name]), batch=True)
      for name in ("value-absent", "value-cleared", "list-update", "map-put-all-dict", "reducing-added")),
    *(Program(f"state-{name}-small-cache", partial(on_state, *STEPS[name]), settings={"python.state.cache-size": "1"})
      for name in ("value-row", "value-none-after", "list-added", "map-none", "map-items", "value-changed-in-place",
                   "reducing-added", "aggregating-added", "list-text-none")),
    *(Program(f"broadcast-{name}", partial(broadcast, False, steps)) for name, steps in ON_BROADCAST.items()),
    *(Program(f"broadcast-keyed-{name}", partial(broadcast, True, steps)) for name, steps in ON_BROADCAST.items()),
    *(Program(f"connected-{name}", partial(connected, False, then)) for name, then in CONNECTED.items()),
    *(Program(f"connected-keyed-{name}", partial(connected, True, then)) for name, then in CONNECTED.items()),
    Program("connected-process", partial(connected, False, lambda c: c.process(BothProcess(), Types.STRING()))),
    Program("connected-process-side",
            partial(connected, False, lambda c: c.process(BothProcess(), Types.STRING()).get_side_output(SIDE))),
    Program("connected-keyed-process", partial(connected, True, lambda c: c.process(Joined(), Types.STRING()))),
    Program("connected-keyed-streams", of_two_keyed),
    Program("connected-keyed-streams-batch", of_two_keyed, batch=True),
]  # fmt: skip
