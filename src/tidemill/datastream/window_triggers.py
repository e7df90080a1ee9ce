"""The triggers that come with the API."""

from __future__ import annotations

from typing import Any, ClassVar, Final, cast

from tidemill.common.time import Length, as_millis
from tidemill.common.typeinfo import Types
from tidemill.datastream.state import ReducingState, ValueState
from tidemill.datastream.state_descriptors import ReducingStateDescriptor, ValueStateDescriptor
from tidemill.datastream.time_domain import TimeDomain
from tidemill.datastream.window_trigger import Trigger, TriggerResult

__all__ = [
    "ContinuousEventTimeTrigger",
    "ContinuousProcessingTimeTrigger",
    "CountTrigger",
    "EndOfStreamTrigger",
    "EventTimeTrigger",
    "NeverTrigger",
    "ProcessingTimeTrigger",
    "ProcessingTimeoutTrigger",
    "PurgingTrigger",
]

CONTINUE: Final = TriggerResult.CONTINUE
FIRE: Final = TriggerResult.FIRE
FIRE_AND_PURGE: Final = TriggerResult.FIRE_AND_PURGE


def _plus(a: int, b: int) -> int:
    return a + b


class EventTimeTrigger(Trigger):
    """Fires when the watermark passes the end of the window, and at once for each late record that is still allowed."""

    @staticmethod
    def create() -> EventTimeTrigger:
        """The trigger."""
        return EventTimeTrigger()

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        if window.max_timestamp() <= ctx.get_current_watermark():
            return FIRE
        ctx.register_event_time_timer(window.max_timestamp())
        return CONTINUE

    def on_processing_time(self, time: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        return CONTINUE

    def on_event_time(self, time: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        return FIRE if time == window.max_timestamp() else CONTINUE

    def can_merge(self) -> bool:
        return True

    def on_merge(self, window: Any, ctx: Trigger.OnMergeContext) -> None:
        # A merged window that has ended already fires with the record that brought the merge.
        if window.max_timestamp() > ctx.get_current_watermark():
            ctx.register_event_time_timer(window.max_timestamp())

    def clear(self, window: Any, ctx: Trigger.TriggerContext) -> None:
        ctx.delete_event_time_timer(window.max_timestamp())


class ProcessingTimeTrigger(Trigger):
    """Fires when processing time passes the end of the window."""

    @staticmethod
    def create() -> ProcessingTimeTrigger:
        """The trigger."""
        return ProcessingTimeTrigger()

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        ctx.register_processing_time_timer(window.max_timestamp())
        return CONTINUE

    def on_processing_time(self, time: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        return FIRE

    def on_event_time(self, time: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        return CONTINUE

    def can_merge(self) -> bool:
        return True

    def on_merge(self, window: Any, ctx: Trigger.OnMergeContext) -> None:
        if window.max_timestamp() > ctx.get_current_processing_time():
            ctx.register_processing_time_timer(window.max_timestamp())

    def clear(self, window: Any, ctx: Trigger.TriggerContext) -> None:
        ctx.delete_processing_time_timer(window.max_timestamp())


class CountTrigger(Trigger):
    """Fires whenever so many records have come; the window keeps them, see :class:`PurgingTrigger`.

    >>> CountTrigger.of(3)
    CountTrigger(3)
    """

    def __init__(self, window_size: int) -> None:
        if window_size < 1:
            raise ValueError(f"a count trigger needs a count of at least 1, not {window_size}")
        self._window_size = window_size
        self._count = ReducingStateDescriptor("count", _plus, Types.LONG())

    @staticmethod
    def of(window_size: int) -> CountTrigger:
        """A trigger that fires at every ``window_size`` records."""
        return CountTrigger(window_size)

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        count = ctx.get_partitioned_state(self._count)
        count.add(1)
        if count.get() >= self._window_size:
            count.clear()
            return FIRE
        return CONTINUE

    def on_processing_time(self, time: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        return CONTINUE

    def on_event_time(self, time: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        return CONTINUE

    def can_merge(self) -> bool:
        return True

    def on_merge(self, window: Any, ctx: Trigger.OnMergeContext) -> None:
        ctx.merge_partitioned_state(self._count)

    def clear(self, window: Any, ctx: Trigger.TriggerContext) -> None:
        ctx.get_partitioned_state(self._count).clear()

    def __repr__(self) -> str:
        return f"CountTrigger({self._window_size})"


class _Continuous(Trigger):
    """Fires at multiples of an interval; the next time is state, the earliest one wins when windows merge."""

    #: Which time goes on.
    _domain: ClassVar[TimeDomain]

    def __init__(self, interval: Length) -> None:
        self.interval = as_millis(interval)
        if self.interval <= 0:
            raise ValueError(f"{type(self).__name__} needs an interval above 0, not {self.interval} ms")
        self._fire_time = ReducingStateDescriptor("fire-time", min, Types.LONG())

    def on_processing_time(self, time: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        return CONTINUE

    def on_event_time(self, time: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        return CONTINUE

    def can_merge(self) -> bool:
        return True

    def on_merge(self, window: Any, ctx: Trigger.OnMergeContext) -> None:
        ctx.merge_partitioned_state(self._fire_time)
        time = self._next(ctx).get()
        if time is not None:
            self._register(time, ctx)

    def clear(self, window: Any, ctx: Trigger.TriggerContext) -> None:
        due = self._next(ctx)
        time = due.get()
        if time is not None:
            delete = ctx.delete_event_time_timer if self._by_event_time() else ctx.delete_processing_time_timer
            delete(time)
            due.clear()

    def _begin(self, time: int, window: Any, ctx: Trigger.TriggerContext) -> None:
        """A record came: set the next time, unless there is one."""
        if self._next(ctx).get() is None:
            self._schedule(time - time % self.interval, window, ctx)

    def _go_on(self, time: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        """A timer of the window is due: fire at the time that was set, and set the next; none is after the end."""
        if time == window.max_timestamp():
            return FIRE
        due = self._next(ctx)
        if due.get() != time:
            return CONTINUE
        due.clear()
        self._schedule(time, window, ctx)
        return FIRE

    def _schedule(self, time: int, window: Any, ctx: Trigger.TriggerContext) -> None:
        following = min(time + self.interval, window.max_timestamp())
        self._next(ctx).add(following)
        self._register(following, ctx)

    def _next(self, ctx: Trigger.TriggerContext) -> ReducingState[int]:
        return cast("ReducingState[int]", ctx.get_partitioned_state(self._fire_time))

    def _register(self, time: int, ctx: Trigger.TriggerContext) -> None:
        register = ctx.register_event_time_timer if self._by_event_time() else ctx.register_processing_time_timer
        register(time)

    def _by_event_time(self) -> bool:
        return self._domain is TimeDomain.EVENT_TIME

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.interval})"


class ContinuousEventTimeTrigger(_Continuous):
    """Fires each time the watermark passes a multiple of an interval, and at the end of the window.

    >>> from tidemill.common import Time
    >>> ContinuousEventTimeTrigger.of(Time.seconds(10))
    ContinuousEventTimeTrigger(10000)
    """

    _domain = TimeDomain.EVENT_TIME

    @staticmethod
    def of(interval: Length) -> ContinuousEventTimeTrigger:
        """A trigger that fires once per interval of event time."""
        return ContinuousEventTimeTrigger(interval)

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        if window.max_timestamp() <= ctx.get_current_watermark():
            return FIRE
        ctx.register_event_time_timer(window.max_timestamp())
        self._begin(timestamp, window, ctx)
        return CONTINUE

    def on_event_time(self, time: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        return self._go_on(time, window, ctx)


class ContinuousProcessingTimeTrigger(_Continuous):
    """Fires each time processing time passes a multiple of an interval.

    >>> from tidemill.common import Time
    >>> ContinuousProcessingTimeTrigger.of(Time.seconds(10))
    ContinuousProcessingTimeTrigger(10000)
    """

    _domain = TimeDomain.PROCESSING_TIME

    @staticmethod
    def of(interval: Length) -> ContinuousProcessingTimeTrigger:
        """A trigger that fires once per interval of processing time."""
        return ContinuousProcessingTimeTrigger(interval)

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        self._begin(ctx.get_current_processing_time(), window, ctx)
        return CONTINUE

    def on_processing_time(self, time: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        return self._go_on(time, window, ctx)


class NeverTrigger(Trigger):
    """Never fires: the default of :class:`GlobalWindows`, which need a trigger of their own."""

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        return CONTINUE

    def on_processing_time(self, time: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        return CONTINUE

    def on_event_time(self, time: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        return CONTINUE

    def can_merge(self) -> bool:
        return True

    def on_merge(self, window: Any, ctx: Trigger.OnMergeContext) -> None:
        """There is nothing to merge."""

    def clear(self, window: Any, ctx: Trigger.TriggerContext) -> None:
        """There is nothing to clear."""


class EndOfStreamTrigger(NeverTrigger):
    """Fires when all input has ended, and purges then: nothing comes after."""

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        ctx.register_event_time_timer(window.max_timestamp())
        return CONTINUE

    def on_event_time(self, time: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        return FIRE_AND_PURGE if time == window.max_timestamp() else CONTINUE

    def on_merge(self, window: Any, ctx: Trigger.OnMergeContext) -> None:
        ctx.register_event_time_timer(window.max_timestamp())

    def clear(self, window: Any, ctx: Trigger.TriggerContext) -> None:
        ctx.delete_event_time_timer(window.max_timestamp())


class PurgingTrigger(Trigger):
    """Makes each fire of another trigger a fire and purge.

    >>> PurgingTrigger.of(CountTrigger.of(3))
    PurgingTrigger(CountTrigger(3))
    """

    def __init__(self, nested_trigger: Trigger) -> None:
        self.nested_trigger = nested_trigger

    @staticmethod
    def of(nested_trigger: Trigger) -> PurgingTrigger:
        """A trigger that fires as another one, and purges then."""
        return PurgingTrigger(nested_trigger)

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        return _purging(self.nested_trigger.on_element(element, timestamp, window, ctx))

    def on_processing_time(self, time: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        return _purging(self.nested_trigger.on_processing_time(time, window, ctx))

    def on_event_time(self, time: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        return _purging(self.nested_trigger.on_event_time(time, window, ctx))

    def can_merge(self) -> bool:
        return self.nested_trigger.can_merge()

    def on_merge(self, window: Any, ctx: Trigger.OnMergeContext) -> None:
        self.nested_trigger.on_merge(window, ctx)

    def clear(self, window: Any, ctx: Trigger.TriggerContext) -> None:
        self.nested_trigger.clear(window, ctx)

    def __repr__(self) -> str:
        return f"PurgingTrigger({self.nested_trigger!r})"


def _purging(result: TriggerResult) -> TriggerResult:
    return FIRE_AND_PURGE if result.is_fire() else result


class ProcessingTimeoutTrigger(Trigger):
    """Fires as another trigger does, and also when so much processing time has gone by since the first record.

    With ``reset_timer_on_new_record`` the time counts from the last record. With ``should_clear_on_timeout`` a timeout
    resets the other trigger.

    >>> from tidemill.common import Time
    >>> ProcessingTimeoutTrigger.of(CountTrigger.of(100), Time.seconds(5))
    ProcessingTimeoutTrigger(CountTrigger(100), 5000)
    """

    def __init__(
        self, nested_trigger: Trigger, timeout: Length, reset_timer_on_new_record: bool, should_clear_on_timeout: bool
    ) -> None:
        self.nested_trigger = nested_trigger
        self.interval = as_millis(timeout)
        self._reset = reset_timer_on_new_record
        self._clears = should_clear_on_timeout
        self._timeout = ValueStateDescriptor("timeout", Types.LONG())

    @staticmethod
    def of(
        nested_trigger: Trigger,
        timeout: Length,
        reset_timer_on_new_record: bool = False,
        should_clear_on_timeout: bool = True,
    ) -> ProcessingTimeoutTrigger:
        """A trigger that fires as another one, or after a time."""
        return ProcessingTimeoutTrigger(nested_trigger, timeout, reset_timer_on_new_record, should_clear_on_timeout)

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        result = self.nested_trigger.on_element(element, timestamp, window, ctx)
        if result.is_fire():
            self.clear(window, ctx)
            return result
        timeout = self._state(ctx)
        due = timeout.value()
        if due is not None and self._reset:
            ctx.delete_processing_time_timer(due)
            due = None
        if due is None:
            due = ctx.get_current_processing_time() + self.interval
            timeout.update(due)
            ctx.register_processing_time_timer(due)
        return result

    def on_processing_time(self, time: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        return self._timed_out(self.nested_trigger.on_processing_time(time, window, ctx), window, ctx)

    def on_event_time(self, time: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        return self._timed_out(self.nested_trigger.on_event_time(time, window, ctx), window, ctx)

    def clear(self, window: Any, ctx: Trigger.TriggerContext) -> None:
        timeout = self._state(ctx)
        due = timeout.value()
        if due is not None:
            ctx.delete_processing_time_timer(due)
            timeout.clear()
        self.nested_trigger.clear(window, ctx)

    def _timed_out(self, result: TriggerResult, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        if self._clears:
            self.clear(window, ctx)
        return FIRE_AND_PURGE if result.is_purge() else FIRE

    def _state(self, ctx: Trigger.TriggerContext) -> ValueState[int | None]:
        return cast("ValueState[int | None]", ctx.get_partitioned_state(self._timeout))

    def __repr__(self) -> str:
        return f"ProcessingTimeoutTrigger({self.nested_trigger!r}, {self.interval})"
