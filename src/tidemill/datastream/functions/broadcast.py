"""Functions on a stream and a broadcast stream. Broadcast elements update a state that is the same on all subtasks.

Like process functions, they emit by yielding.
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
    """The function that ``apply_to_keyed_state`` calls for each key. A callable of key and state is also accepted."""

    @abc.abstractmethod
    def process(self, key: Any, state: State) -> None:
        """Reads or changes the state of one key."""


class BaseBroadcastProcessFunction(Function):
    """Base class of functions with a broadcast side."""

    class BaseContext(abc.ABC):
        """Information about the current record or the firing timer."""

        @abc.abstractmethod
        def timestamp(self) -> int | None:
            """The event timestamp of the record or the time of the timer. None if the record has no timestamp."""

        @abc.abstractmethod
        def current_processing_time(self) -> int:
            """The processing time of the epoch in ms."""

        @abc.abstractmethod
        def current_watermark(self) -> int:
            """The current watermark in ms."""

    class Context(BaseContext):
        """The context of the broadcast side, which can change the broadcast state."""

        @abc.abstractmethod
        def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> BroadcastState[Any, Any]:
            """One of the states that were passed to ``broadcast()``."""

    class ReadOnlyContext(BaseContext):
        """The context of the data side, which can read the broadcast state."""

        @abc.abstractmethod
        def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> ReadOnlyBroadcastState[Any, Any]:
            """A read-only view of one of the states that were passed to ``broadcast()``."""


class BroadcastProcessFunction(BaseBroadcastProcessFunction, Generic[IN1, IN2, OUT]):
    """A function on a non-keyed stream and a broadcast stream.

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
        """Processes one record of the data side. Yields the results."""

    @abc.abstractmethod
    def process_broadcast_element(self, value: Any, ctx: BroadcastProcessFunction.Context) -> Iterable[Any] | None:
        """Processes one element of the broadcast side. Called on every subtask. Yields the results."""


class KeyedBroadcastProcessFunction(BaseBroadcastProcessFunction, Generic[KEY, IN1, IN2, OUT]):
    """A function on a keyed stream and a broadcast stream, with access to the state and timers of the record's key.

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
        """The context of the broadcast side, which has no current key."""

        @abc.abstractmethod
        def apply_to_keyed_state(
            self, state_descriptor: StateDescriptor, function: KeyedStateFunction | Callable[[Any, Any], None]
        ) -> None:
            """Calls ``function(key, state)`` for each key of this subtask for which the state is not empty.

            The order of the keys is the same in every run. Keys that are added during the iteration are not visited.
            """

    class ReadOnlyContext(BaseBroadcastProcessFunction.ReadOnlyContext):
        """The context of the data side."""

        @abc.abstractmethod
        def timer_service(self) -> TimerService:
            """Access to timers and the current time."""

        @abc.abstractmethod
        def get_current_key(self) -> Any:
            """The key of the current record or of the firing timer."""

    class OnTimerContext(ReadOnlyContext):
        """The context of a timer."""

        @abc.abstractmethod
        def time_domain(self) -> TimeDomain:
            """Whether the timer is an event-time or a processing-time timer."""

    @abc.abstractmethod
    def process_element(self, value: Any, ctx: KeyedBroadcastProcessFunction.ReadOnlyContext) -> Iterable[Any] | None:
        """Processes one record of the keyed side. Yields the results."""

    @abc.abstractmethod
    def process_broadcast_element(self, value: Any, ctx: KeyedBroadcastProcessFunction.Context) -> Iterable[Any] | None:
        """Processes one element of the broadcast side. Called on every subtask. Yields the results."""

    def on_timer(self, timestamp: int, ctx: KeyedBroadcastProcessFunction.OnTimerContext) -> Iterable[Any] | None:
        """Called when a timer of this key fires. Yields the results."""
        return None
