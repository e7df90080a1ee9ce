"""Process functions, with access to time, keys, timers and side outputs.

All of them emit by yielding (or by returning an iterable). ``yield value`` emits to the main output, ``yield tag,
value`` with an :class:`OutputTag` to a side output.
"""

from __future__ import annotations

import abc
from collections.abc import Iterable
from typing import Any, ClassVar

from tidemill.datastream.functions.base import Function
from tidemill.datastream.time_domain import TimeDomain
from tidemill.datastream.timerservice import TimerService


class _ProcessContext(abc.ABC):
    """The context of all process functions."""

    @abc.abstractmethod
    def timer_service(self) -> TimerService:
        """Access to the current time and, on keyed streams, to timers."""

    @abc.abstractmethod
    def timestamp(self) -> int | None:
        """The event timestamp of the record or the time of the firing timer. None if the record has no timestamp."""


class _KeyedProcessContext(_ProcessContext):
    """A context with a current key."""

    @abc.abstractmethod
    def get_current_key(self) -> Any:
        """The key of the current record or of the firing timer."""


class _OnTimerContext(_KeyedProcessContext):
    """The context of a timer."""

    @abc.abstractmethod
    def time_domain(self) -> TimeDomain:
        """Whether the timer is an event-time or a processing-time timer."""


class ProcessFunction(Function):
    """Emits zero or more records for each record, with access to time and side outputs.

    >>> from tidemill.datastream.output_tag import OutputTag
    >>> odd = OutputTag("odd")
    >>> class Even(ProcessFunction):
    ...     def process_element(self, value, ctx):
    ...         yield value if value % 2 == 0 else (odd, value)
    """

    class Context(_ProcessContext):
        """Information about the current record."""

    @abc.abstractmethod
    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Iterable[Any] | None:
        """Processes one record. Yields the results."""


class KeyedProcessFunction(Function):
    """A process function on a keyed stream, with access to the state and timers of the record's key.

    >>> from tidemill.common.typeinfo import Types
    >>> from tidemill.datastream.state import ValueStateDescriptor
    >>> class Count(KeyedProcessFunction):
    ...     def open(self, runtime_context):
    ...         self.seen = runtime_context.get_state(ValueStateDescriptor("seen", Types.LONG()))
    ...     def process_element(self, value, ctx):
    ...         count = (self.seen.value() or 0) + 1
    ...         self.seen.update(count)
    ...         yield ctx.get_current_key(), count
    """

    #: Whether timers are only registered for a later job and do not fire in this one.
    _timers_wait: ClassVar[bool] = False

    class Context(_KeyedProcessContext):
        """Information about the current record."""

    class OnTimerContext(Context, _OnTimerContext):
        """Information about the firing timer."""

    @abc.abstractmethod
    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any] | None:
        """Processes one record. Yields the results."""

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterable[Any] | None:
        """Called when a timer of this key fires. Yields the results."""
        return None


class CoProcessFunction(Function):
    """A process function on two connected streams.

    If both are keyed, it may use keyed state and timers. A :class:`KeyedCoProcessFunction` also has access to the key.
    """

    class Context(_ProcessContext):
        """Information about the current record."""

    class OnTimerContext(Context):
        """Information about the firing timer."""

        @abc.abstractmethod
        def time_domain(self) -> TimeDomain:
            """Whether the timer is an event-time or a processing-time timer."""

    @abc.abstractmethod
    def process_element1(self, value: Any, ctx: CoProcessFunction.Context) -> Iterable[Any] | None:
        """Processes one record of the first stream. Yields the results."""

    @abc.abstractmethod
    def process_element2(self, value: Any, ctx: CoProcessFunction.Context) -> Iterable[Any] | None:
        """Processes one record of the second stream. Yields the results."""

    def on_timer(self, timestamp: int, ctx: CoProcessFunction.OnTimerContext) -> Iterable[Any] | None:
        """Called when a timer fires. Yields the results."""
        return None


class KeyedCoProcessFunction(Function):
    """A process function on two connected streams with a common key. Both sides share state and timers."""

    class Context(_KeyedProcessContext):
        """Information about the current record."""

    class OnTimerContext(Context, _OnTimerContext):
        """Information about the firing timer."""

    @abc.abstractmethod
    def process_element1(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> Iterable[Any] | None:
        """Processes one record of the first stream. Yields the results."""

    @abc.abstractmethod
    def process_element2(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> Iterable[Any] | None:
        """Processes one record of the second stream. Yields the results."""

    def on_timer(self, timestamp: int, ctx: KeyedCoProcessFunction.OnTimerContext) -> Iterable[Any] | None:
        """Called when a timer of this key fires. Yields the results."""
        return None
