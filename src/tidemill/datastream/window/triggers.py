"""The built-in triggers."""

from __future__ import annotations

from typing import Any, ClassVar, Final, cast

from tidemill.common.time import Length, as_millis
from tidemill.common.typeinfo import Types
from tidemill.datastream.functions.state import ReducingState
from tidemill.datastream.functions.state_descriptors import ReducingStateDescriptor
from tidemill.datastream.window.trigger import Trigger, TriggerResult
from tidemill.datastream.window.types import MAX_TIMESTAMP
from tidemill.python_versions import Self

__all__ = [
    "ContinuousEventTimeTrigger",
    "ContinuousProcessingTimeTrigger",
    "CountTrigger",
    "EndOfStreamTrigger",
    "EventTimeTrigger",
    "NeverTrigger",
    "ProcessingTimeTrigger",
]

CONTINUE: Final = TriggerResult.CONTINUE
FIRE: Final = TriggerResult.FIRE
FIRE_AND_PURGE: Final = TriggerResult.FIRE_AND_PURGE


def _plus(a: int, b: int) -> int:
    return a + b


class _Passive(Trigger):
    """Base class of triggers that support merging windows and by default ignore timers."""

    def on_processing_time(self, time: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        return CONTINUE

    def on_event_time(self, time: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        return CONTINUE

    def can_merge(self) -> bool:
        return True


class EventTimeTrigger(_Passive):
    """Fires when the watermark passes the end of the window, and immediately for each late record within lateness."""

    @staticmethod
    def create() -> EventTimeTrigger:
        """Creates the trigger."""
        return EventTimeTrigger()

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        if window.max_timestamp() <= ctx.get_current_watermark():
            return FIRE
        ctx.register_event_time_timer(window.max_timestamp())
        return CONTINUE

    def on_event_time(self, time: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        return FIRE if time == window.max_timestamp() else CONTINUE

    def on_merge(self, window: Any, ctx: Trigger.OnMergeContext) -> None:
        # A merged window that has already ended fires with the record that caused the merge.
        if window.max_timestamp() > ctx.get_current_watermark():
            ctx.register_event_time_timer(window.max_timestamp())

    def clear(self, window: Any, ctx: Trigger.TriggerContext) -> None:
        ctx.delete_event_time_timer(window.max_timestamp())


class ProcessingTimeTrigger(_Passive):
    """Fires when processing time passes the end of the window."""

    @staticmethod
    def create() -> ProcessingTimeTrigger:
        """Creates the trigger."""
        return ProcessingTimeTrigger()

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        ctx.register_processing_time_timer(window.max_timestamp())
        return CONTINUE

    def on_processing_time(self, time: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        return FIRE

    def on_merge(self, window: Any, ctx: Trigger.OnMergeContext) -> None:
        if window.max_timestamp() > ctx.get_current_processing_time():
            ctx.register_processing_time_timer(window.max_timestamp())

    def clear(self, window: Any, ctx: Trigger.TriggerContext) -> None:
        ctx.delete_processing_time_timer(window.max_timestamp())


class CountTrigger(_Passive):
    """Fires every ``window_size`` records. The window keeps its records, unless wrapped in :class:`PurgingTrigger`.

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
        """Creates a trigger that fires every ``window_size`` records."""
        return CountTrigger(window_size)

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        count = ctx.get_partitioned_state(self._count)
        count.add(1)
        if count.get() >= self._window_size:
            count.clear()
            return FIRE
        return CONTINUE

    def on_merge(self, window: Any, ctx: Trigger.OnMergeContext) -> None:
        ctx.merge_partitioned_state(self._count)

    def clear(self, window: Any, ctx: Trigger.TriggerContext) -> None:
        ctx.get_partitioned_state(self._count).clear()

    def __repr__(self) -> str:
        return f"CountTrigger({self._window_size})"


class _Continuous(_Passive):
    """Fires at multiples of an interval. The next firing time is state; when windows merge, the earliest is kept."""

    #: Whether the interval is in event time.
    _by_event_time: ClassVar[bool]

    def __init__(self, interval: Length) -> None:
        self.interval = as_millis(interval)
        if self.interval <= 0:
            raise ValueError(f"{type(self).__name__} needs an interval above 0, not {self.interval} ms")
        self._fire_time = ReducingStateDescriptor("fire-time", min, Types.LONG())

    @classmethod
    def of(cls, interval: Length) -> Self:
        """Creates a trigger that fires once per interval."""
        return cls(interval)

    def on_processing_time(self, time: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        return CONTINUE if self._by_event_time else self._go_on(time, window, ctx)

    def on_event_time(self, time: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        return self._go_on(time, window, ctx) if self._by_event_time else CONTINUE

    def on_merge(self, window: Any, ctx: Trigger.OnMergeContext) -> None:
        ctx.merge_partitioned_state(self._fire_time)
        time = self._next(ctx).get()
        if time is not None:
            self._register(time, ctx)

    def clear(self, window: Any, ctx: Trigger.TriggerContext) -> None:
        due = self._next(ctx)
        time = due.get()
        if time is not None:
            delete = ctx.delete_event_time_timer if self._by_event_time else ctx.delete_processing_time_timer
            delete(time)
            due.clear()

    def _begin(self, time: int, window: Any, ctx: Trigger.TriggerContext) -> None:
        """Schedule the next firing after a record, unless one is already scheduled."""
        if self._next(ctx).get() is None:
            self._schedule(time - time % self.interval, window, ctx)

    def _go_on(self, time: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        """Handle a timer: fire at the scheduled time and schedule the next firing, up to the end of the window."""
        if time == window.max_timestamp():
            return FIRE
        due = self._next(ctx)
        if due.get() != time:
            return CONTINUE
        due.clear()
        self._schedule(time, window, ctx)
        return FIRE

    def _schedule(self, time: int, window: Any, ctx: Trigger.TriggerContext) -> None:
        end = window.max_timestamp()
        # At the end of the input, a window without an end would fire for ever: it fires once more.
        endless = self._by_event_time and ctx.get_current_watermark() == end == MAX_TIMESTAMP
        following = end if endless else min(time + self.interval, end)
        self._next(ctx).add(following)
        self._register(following, ctx)

    def _next(self, ctx: Trigger.TriggerContext) -> ReducingState[int]:
        return cast("ReducingState[int]", ctx.get_partitioned_state(self._fire_time))

    def _register(self, time: int, ctx: Trigger.TriggerContext) -> None:
        register = ctx.register_event_time_timer if self._by_event_time else ctx.register_processing_time_timer
        register(time)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.interval})"


class ContinuousEventTimeTrigger(_Continuous):
    """Fires each time the watermark passes a multiple of an interval, and at the end of the window.

    >>> from tidemill.common import Time
    >>> ContinuousEventTimeTrigger.of(Time.seconds(10))
    ContinuousEventTimeTrigger(10000)
    """

    _by_event_time = True

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        if window.max_timestamp() <= ctx.get_current_watermark():
            return FIRE
        ctx.register_event_time_timer(window.max_timestamp())
        self._begin(timestamp, window, ctx)
        return CONTINUE


class ContinuousProcessingTimeTrigger(_Continuous):
    """Fires each time processing time passes a multiple of an interval.

    >>> from tidemill.common import Time
    >>> ContinuousProcessingTimeTrigger.of(Time.seconds(10))
    ContinuousProcessingTimeTrigger(10000)
    """

    _by_event_time = False

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        self._begin(ctx.get_current_processing_time(), window, ctx)
        return CONTINUE


class NeverTrigger(_Passive):
    """Never fires. It is the default trigger of :class:`GlobalWindows`, which need an explicit trigger."""

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        return CONTINUE

    def on_merge(self, window: Any, ctx: Trigger.OnMergeContext) -> None:
        """Nothing to merge."""

    def clear(self, window: Any, ctx: Trigger.TriggerContext) -> None:
        """Nothing to clear."""


class EndOfStreamTrigger(NeverTrigger):
    """Fires and purges when all input has ended."""

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        ctx.register_event_time_timer(window.max_timestamp())
        return CONTINUE

    def on_event_time(self, time: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        return FIRE_AND_PURGE if time == window.max_timestamp() else CONTINUE

    def on_merge(self, window: Any, ctx: Trigger.OnMergeContext) -> None:
        ctx.register_event_time_timer(window.max_timestamp())

    def clear(self, window: Any, ctx: Trigger.TriggerContext) -> None:
        ctx.delete_event_time_timer(window.max_timestamp())
