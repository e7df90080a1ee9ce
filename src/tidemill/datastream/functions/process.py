"""Process functions: records with their time, key, timers and side outputs.

All of them emit by yielding (or by returning an iterable). ``yield value`` goes to the main output,
``yield tag, value`` with an :class:`OutputTag` to a side output.
"""

from __future__ import annotations

import abc
from collections.abc import Iterable
from typing import Any, ClassVar

from tidemill.datastream.functions.base import Function
from tidemill.datastream.time_domain import TimeDomain
from tidemill.datastream.timerservice import TimerService


class _ProcessContext(abc.ABC):
    """What every process function's context knows."""

    @abc.abstractmethod
    def timer_service(self) -> TimerService:
        """Clocks, and on keyed streams timers."""

    @abc.abstractmethod
    def timestamp(self) -> int | None:
        """The event timestamp of the record at hand, or the time of the timer that fires; None if there is none."""


class _KeyedProcessContext(_ProcessContext):
    """A context that also knows the key."""

    @abc.abstractmethod
    def get_current_key(self) -> Any:
        """The key of the record at hand, or of the timer that fires."""


class _OnTimerContext(_KeyedProcessContext):
    """The context of a timer."""

    @abc.abstractmethod
    def time_domain(self) -> TimeDomain:
        """Which clock fired the timer."""


class ProcessFunction(Function):
    """Any number of records out for one record in, with access to time and side outputs.

    >>> from tidemill.datastream.output_tag import OutputTag
    >>> odd = OutputTag("odd")
    >>> class Even(ProcessFunction):
    ...     def process_element(self, value, ctx):
    ...         yield value if value % 2 == 0 else (odd, value)
    """

    class Context(_ProcessContext):
        """What is known about the record at hand."""

    @abc.abstractmethod
    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Iterable[Any] | None:
        """Take one record; yield what it gives."""


class KeyedProcessFunction(Function):
    """A process function over a keyed stream: with state and timers of the record's key.

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

    #: Whether timers are set for a later job, and none fires in this one.
    _timers_wait: ClassVar[bool] = False

    class Context(_KeyedProcessContext):
        """What is known about the record at hand."""

    class OnTimerContext(Context, _OnTimerContext):
        """What is known about the timer at hand."""

    @abc.abstractmethod
    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any] | None:
        """Take one record; yield what it gives."""

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterable[Any] | None:
        """A timer set earlier for this key is due; yield what it gives."""
        return None


class CoProcessFunction(Function):
    """A process function over two connected streams.

    If both are keyed it may use keyed state and timers; a :class:`KeyedCoProcessFunction` also knows the key.
    """

    class Context(_ProcessContext):
        """What is known about the record at hand."""

    class OnTimerContext(Context):
        """What is known about the timer at hand."""

        @abc.abstractmethod
        def time_domain(self) -> TimeDomain:
            """Which clock fired the timer."""

    @abc.abstractmethod
    def process_element1(self, value: Any, ctx: CoProcessFunction.Context) -> Iterable[Any] | None:
        """Take one record of the first stream; yield what it gives."""

    @abc.abstractmethod
    def process_element2(self, value: Any, ctx: CoProcessFunction.Context) -> Iterable[Any] | None:
        """Take one record of the second stream; yield what it gives."""

    def on_timer(self, timestamp: int, ctx: CoProcessFunction.OnTimerContext) -> Iterable[Any] | None:
        """A timer set earlier for the key of a record is due; yield what it gives."""
        return None


class KeyedCoProcessFunction(Function):
    """A process function over two connected streams with a common key: both sides share state and timers."""

    class Context(_KeyedProcessContext):
        """What is known about the record at hand."""

    class OnTimerContext(Context, _OnTimerContext):
        """What is known about the timer at hand."""

    @abc.abstractmethod
    def process_element1(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> Iterable[Any] | None:
        """Take one record of the first stream; yield what it gives."""

    @abc.abstractmethod
    def process_element2(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> Iterable[Any] | None:
        """Take one record of the second stream; yield what it gives."""

    def on_timer(self, timestamp: int, ctx: KeyedCoProcessFunction.OnTimerContext) -> Iterable[Any] | None:
        """A timer set earlier for this key is due; yield what it gives."""
        return None
