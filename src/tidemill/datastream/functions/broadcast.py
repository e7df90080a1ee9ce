"""Functions over a stream and a broadcast stream: what is broadcast becomes state that is equal on all subtasks.

They emit by yielding, as process functions do.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterable
from typing import Any, Generic

from tidemill.datastream.functions.base import Function
from tidemill.datastream.functions.state import BroadcastState, ReadOnlyBroadcastState, State
from tidemill.datastream.functions.state_descriptors import MapStateDescriptor, StateDescriptor
from tidemill.datastream.functions.type_parameters import IN1, IN2, KEY, OUT
from tidemill.datastream.time_domain import TimeDomain
from tidemill.datastream.timerservice import TimerService

__all__ = [
    "BaseBroadcastProcessFunction",
    "BroadcastProcessFunction",
    "KeyedBroadcastProcessFunction",
    "KeyedStateFunction",
]


class KeyedStateFunction(abc.ABC):
    """What ``apply_to_keyed_state`` calls for each key; a plain callable of key and state does as well."""

    @abc.abstractmethod
    def process(self, key: Any, state: State) -> None:
        """Read or change the state of one key."""


class BaseBroadcastProcessFunction(Function):
    """What both functions with a broadcast side have in common."""

    class BaseContext(abc.ABC):
        """What is known about the record at hand, or the timer that fires."""

        @abc.abstractmethod
        def timestamp(self) -> int | None:
            """The event timestamp of the record, or the time of the timer; None if there is none."""

        @abc.abstractmethod
        def current_processing_time(self) -> int:
            """The epoch's processing-time clock in ms."""

        @abc.abstractmethod
        def current_watermark(self) -> int:
            """The event-time clock in ms."""

    class Context(BaseContext):
        """The context of the broadcast side, which can change the broadcast state."""

        @abc.abstractmethod
        def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> BroadcastState[Any, Any]:
            """One of the states that the stream was broadcast with."""

    class ReadOnlyContext(BaseContext):
        """The context of the data side, which can read the broadcast state."""

        @abc.abstractmethod
        def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> ReadOnlyBroadcastState[Any, Any]:
            """One of the states that the stream was broadcast with, to be read."""


class BroadcastProcessFunction(BaseBroadcastProcessFunction, Generic[IN1, IN2, OUT]):
    """A function over a stream that is not keyed and a broadcast stream.

    >>> from tidemill.common import Configuration, Types
    >>> from tidemill.datastream import MapStateDescriptor, StreamExecutionEnvironment
    >>> rules = MapStateDescriptor("rules", Types.STRING(), Types.LONG())
    >>> class Price(BroadcastProcessFunction):
    ...     def process_element(self, value, ctx):
    ...         yield value, ctx.get_broadcast_state(rules).get(value)
    ...     def process_broadcast_element(self, value, ctx):
    ...         ctx.get_broadcast_state(rules).put(*value)
    >>> batch = Configuration.from_dict({"execution.target": "local", "execution.runtime-mode": "BATCH"})
    >>> env = StreamExecutionEnvironment.get_execution_environment(batch)
    >>> prices = env.from_collection([("tea", 5), ("bun", 2)]).broadcast(rules)
    >>> sorted(env.from_collection(["bun", "tea", "bun"]).connect(prices).process(Price()).execute_and_collect())
    [('bun', 2), ('bun', 2), ('tea', 5)]
    """

    class Context(BaseBroadcastProcessFunction.Context):
        """The context of the broadcast side."""

    class ReadOnlyContext(BaseBroadcastProcessFunction.ReadOnlyContext):
        """The context of the data side."""

    @abc.abstractmethod
    def process_element(self, value: Any, ctx: BroadcastProcessFunction.ReadOnlyContext) -> Iterable[Any] | None:
        """Take one record of the data side; yield what it gives."""

    @abc.abstractmethod
    def process_broadcast_element(self, value: Any, ctx: BroadcastProcessFunction.Context) -> Iterable[Any] | None:
        """Take one element of the broadcast side, on every subtask; yield what it gives."""


class KeyedBroadcastProcessFunction(BaseBroadcastProcessFunction, Generic[KEY, IN1, IN2, OUT]):
    """A function over a keyed stream and a broadcast stream: with state and timers of the record's key.

    >>> from tidemill.common import Types
    >>> from tidemill.datastream import MapStateDescriptor, ValueStateDescriptor
    >>> from tidemill.testing import KeyedHarness
    >>> limits = MapStateDescriptor("limits", Types.STRING(), Types.LONG())
    >>> class Alert(KeyedBroadcastProcessFunction):
    ...     def open(self, runtime_context):
    ...         self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG(), 0))
    ...     def process_element(self, value, ctx):
    ...         self.total.update(self.total.value() + value[1])
    ...         if self.total.value() > ctx.get_broadcast_state(limits).get("most"):
    ...             yield ctx.get_current_key(), self.total.value()
    ...     def process_broadcast_element(self, value, ctx):
    ...         ctx.get_broadcast_state(limits).put("most", value)
    >>> with KeyedHarness(Alert(), key_selector=0, broadcast=[limits]) as harness:
    ...     harness.process(10, stream=2)
    ...     harness.process_all([("a", 7), ("b", 8), ("a", 5)])
    ...     harness.output()
    [('a', 12)]
    """

    class Context(BaseBroadcastProcessFunction.Context):
        """The context of the broadcast side, which has no key at hand."""

        @abc.abstractmethod
        def apply_to_keyed_state(
            self, state_descriptor: StateDescriptor, function: KeyedStateFunction | Callable[[Any, Any], None]
        ) -> None:
            """Call ``function(key, state)`` for each key of this subtask that has something in the state.

            The order of the keys is the same on every run. Keys that the function adds meanwhile are not visited.
            """

    class ReadOnlyContext(BaseBroadcastProcessFunction.ReadOnlyContext):
        """The context of the data side."""

        @abc.abstractmethod
        def timer_service(self) -> TimerService:
            """Clocks and timers."""

        @abc.abstractmethod
        def get_current_key(self) -> Any:
            """The key of the record at hand, or of the timer that fires."""

    class OnTimerContext(ReadOnlyContext):
        """The context of a timer."""

        @abc.abstractmethod
        def time_domain(self) -> TimeDomain:
            """Which clock fired the timer."""

    @abc.abstractmethod
    def process_element(self, value: Any, ctx: KeyedBroadcastProcessFunction.ReadOnlyContext) -> Iterable[Any] | None:
        """Take one record of the keyed side; yield what it gives."""

    @abc.abstractmethod
    def process_broadcast_element(self, value: Any, ctx: KeyedBroadcastProcessFunction.Context) -> Iterable[Any] | None:
        """Take one element of the broadcast side, on every subtask; yield what it gives."""

    def on_timer(self, timestamp: int, ctx: KeyedBroadcastProcessFunction.OnTimerContext) -> Iterable[Any] | None:
        """A timer set earlier for this key is due; yield what it gives."""
        return None
