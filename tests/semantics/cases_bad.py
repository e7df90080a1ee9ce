"""Programs that must fail, each with an error that names the operator and begins with the user's own traceback."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Iterable
from typing import Any

from tests.semantics.case import BadCase
from tidemill.common import Types
from tidemill.datastream import (
    DataStream,
    KeyedProcessFunction,
    KeySelector,
    ListStateDescriptor,
    MapFunction,
    OutputTag,
    ProcessFunction,
    RuntimeContext,
    StreamExecutionEnvironment,
    ValueStateDescriptor,
)
from tidemill.datastream.connectors.number_seq import NumberSequenceSource
from tidemill.errors import (
    GraphError,
    InvalidKeyError,
    SerializationError,
    StateError,
    TypeMismatchError,
    UserCodeError,
)

Env = StreamExecutionEnvironment
TEXT = OutputTag("text", Types.STRING())


class HoldsALock(MapFunction):
    def __init__(self) -> None:
        self.lock = threading.Lock()

    def map(self, value: Any) -> Any:
        return value


class Raises(KeySelector):
    def get_key(self, value: Any) -> Any:
        return 1 // value


class UsesStateInOpen(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        state = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))
        state.update(1)

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        yield value


class AsksForState(MapFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def map(self, value: Any) -> Any:
        return value


class SameNameTwice(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))
        runtime_context.get_list_state(ListStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        yield value


class SameNameOtherType(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))
        runtime_context.get_state(ValueStateDescriptor("count", Types.STRING()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        yield value


class WrongStateValue(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        self.count.update("many")
        yield value


class FailsInTimer(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        ctx.timer_service().register_event_time_timer(10)
        yield from ()

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterable[Any]:
        raise LookupError("nothing to do")


class TimerWithoutKey(ProcessFunction):
    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Iterable[Any]:
        ctx.timer_service().register_event_time_timer(10)
        yield from ()


class WrongSide(ProcessFunction):
    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Iterable[Any]:
        yield TEXT, value


class Mutable:
    """Hashed by identity: another object in every process."""

    def __init__(self, number: int) -> None:
        self.number = number


@dataclasses.dataclass(unsafe_hash=True)
class MutableData:
    number: int


def unserialisable(env: Env) -> DataStream:
    return env.from_collection([1]).map(HoldsALock()).name("holder")


def duplicate_uid(env: Env) -> DataStream:
    return env.from_collection([1]).map(abs).uid("same").map(abs).uid("same")


def wrong_side(env: Env) -> DataStream:
    return env.from_collection([1]).process(WrongSide()).name("sides").get_side_output(TEXT)


def keyed(env: Env, function: KeyedProcessFunction, name: str) -> DataStream:
    return env.from_collection([("a", 1)]).key_by(0).process(function).name(name)


TRACE = "Traceback (most recent call last):"

CASES = [
    BadCase(
        "function-raises",
        lambda env: env.from_collection([1, 0]).map(lambda n: 1 // n).name("divide"),
        UserCodeError,
        (TRACE, "ZeroDivisionError", "'divide'", "record 0"),
        spark=True,
    ),
    BadCase(
        "unserialisable-function",
        unserialisable,
        SerializationError,
        ("'Map'", "cases_bad.py", "HoldsALock", "lock"),
        spark=True,
    ),
    BadCase(
        "key-function-raises",
        lambda env: env.from_collection([1, 0]).key_by(lambda n: 1 // n).map(abs).name("keyed"),
        UserCodeError,
        (TRACE, "ZeroDivisionError", "key selector", "'keyed'", "record 0"),
        spark=True,
    ),
    BadCase(
        "key-selector-raises",
        lambda env: env.from_collection([1, 0]).key_by(Raises()).map(abs).name("keyed"),
        UserCodeError,
        (TRACE, "ZeroDivisionError", "key selector", "'keyed'", "record 0"),
    ),
    BadCase(
        "key-position-missing",
        lambda env: env.from_collection([(1, 2), (3,)]).key_by(1).map(str).name("keyed"),
        InvalidKeyError,
        ("key_by(1)", "'keyed'"),
    ),
    BadCase(
        "key-field-missing",
        lambda env: env.from_collection([{"id": 1}, {"name": 2}]).key_by("id").map(str).name("keyed"),
        InvalidKeyError,
        ("key_by('id')", "'keyed'"),
    ),
    BadCase(
        "unhashable-key",
        lambda env: env.from_collection([[1]]).key_by(lambda r: r).map(str).name("keyed"),
        InvalidKeyError,
        ("list", "'keyed'"),
        spark=True,
    ),
    BadCase(
        "object-key",
        lambda env: env.from_collection([1]).key_by(Mutable).map(str).name("keyed"),
        InvalidKeyError,
        ("Mutable", "'keyed'"),
    ),
    BadCase(
        "mutable-dataclass-key",
        lambda env: env.from_collection([1]).key_by(MutableData).map(str).name("keyed"),
        InvalidKeyError,
        ("MutableData", "'keyed'"),
    ),
    BadCase(
        "mutable-key-in-tuple",
        lambda env: env.from_collection([("a", {"b": 1})]).key_by(lambda r: r).map(str).name("keyed"),
        InvalidKeyError,
        ("dict", "'keyed'"),
    ),
    BadCase(
        "record-of-the-wrong-type",
        lambda env: env.from_collection([1, 2]).map(lambda n: n, Types.STRING()).name("texts"),
        TypeMismatchError,
        ("'texts'", "wrong type"),
        spark=True,
    ),
    BadCase(
        "record-of-a-source-of-the-wrong-type",
        lambda env: env.add_source(NumberSequenceSource(1, 2), "numbers", Types.STRING()).map(str),
        TypeMismatchError,
        ("'Source: numbers'", "wrong type"),
    ),
    BadCase("side-output-of-the-wrong-type", wrong_side, TypeMismatchError, ("'sides'", "'text'")),
    BadCase("duplicate-uid", duplicate_uid, GraphError, ("'same'", "two operators")),
    BadCase(
        "state-used-in-open",
        lambda env: keyed(env, UsesStateInOpen(), "early"),
        StateError,
        (TRACE, "'early'", "open()"),
        spark=True,
    ),
    BadCase(
        "keyed-state-without-key",
        lambda env: env.from_collection([1]).map(AsksForState()).name("plain"),
        StateError,
        (TRACE, "'plain'", "key_by()"),
    ),
    BadCase(
        "one-name-two-kinds",
        lambda env: keyed(env, SameNameTwice(), "twice"),
        StateError,
        (TRACE, "'count'", "'twice'"),
    ),
    BadCase(
        "one-name-two-types",
        lambda env: keyed(env, SameNameOtherType(), "twice"),
        StateError,
        (TRACE, "'count'", "'twice'"),
    ),
    BadCase(
        "state-value-of-the-wrong-type",
        lambda env: keyed(env, WrongStateValue(), "wrong"),
        SerializationError,
        ("'count'", "'wrong'"),
    ),
    BadCase(
        "timer-raises",
        lambda env: keyed(env, FailsInTimer(), "timers"),
        UserCodeError,
        (TRACE, "LookupError", "on_timer()", "'timers'", "key 'a'"),
    ),
    BadCase(
        "timer-without-key",
        lambda env: env.from_collection([1]).process(TimerWithoutKey()).name("plain"),
        StateError,
        (TRACE, "'plain'", "key_by()"),
    ),
    BadCase(
        "partitioner-out-of-range",
        lambda env: env.from_collection([1]).partition_custom(lambda key, n: n, lambda r: r).map(abs).name("spread"),
        GraphError,
        ("'spread'", "from 0 to"),
    ),
    BadCase(
        "partitioner-raises",
        lambda env: env.from_collection([0]).partition_custom(lambda k, n: 1 // k, lambda r: r).map(abs).name("spread"),
        UserCodeError,
        (TRACE, "ZeroDivisionError", "'spread'"),
    ),
    BadCase(
        "reduce-raises",
        lambda env: env.from_collection([("a", 1), ("a", None)]).key_by(0).sum(1).name("total"),
        UserCodeError,
        ("TypeError", "'total'", "key 'a'"),
    ),
    BadCase(
        "record-cannot-be-sent",
        lambda env: env.from_collection([1]).map(lambda n: (k for k in range(n))).name("maker").rebalance().map(list),
        SerializationError,
        ("'maker'", "generator", "picklable"),
    ),
    BadCase(
        "flat_map-yields-no-iterable",
        lambda env: env.from_collection([1]).flat_map(lambda n: n).name("flat"),
        UserCodeError,
        ("'int' object is not iterable", "'flat'"),
    ),
]
