"""Triggers that wrap another trigger."""

from __future__ import annotations

from typing import Any, cast

from tidemill.common.time import Length, as_millis
from tidemill.common.typeinfo import Types
from tidemill.datastream.functions.state import ValueState
from tidemill.datastream.functions.state_descriptors import ValueStateDescriptor
from tidemill.datastream.window.trigger import Trigger, TriggerResult

__all__ = ["ProcessingTimeoutTrigger", "PurgingTrigger"]


class PurgingTrigger(Trigger):
    """Fires when another trigger fires, and also purges the window.

    >>> from tidemill.datastream.window import CountTrigger
    >>> PurgingTrigger.of(CountTrigger.of(3))
    PurgingTrigger(CountTrigger(3))
    """

    def __init__(self, nested_trigger: Trigger) -> None:
        self.nested_trigger = nested_trigger

    @staticmethod
    def of(nested_trigger: Trigger) -> PurgingTrigger:
        """Creates a trigger that fires when another trigger fires, and also purges the window."""
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
    return TriggerResult.FIRE_AND_PURGE if result.is_fire() else result


class ProcessingTimeoutTrigger(Trigger):
    """Fires when another trigger fires, and also after a timeout in processing time since the first record.

    With ``reset_timer_on_new_record`` the timeout starts at the last record. With ``should_clear_on_timeout`` a timeout
    resets the other trigger.

    >>> from tidemill.common import Time
    >>> from tidemill.datastream.window import CountTrigger
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
        """Creates a trigger that fires when another trigger fires or after a timeout."""
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
        return TriggerResult.FIRE_AND_PURGE if result.is_purge() else TriggerResult.FIRE

    def _state(self, ctx: Trigger.TriggerContext) -> ValueState[int | None]:
        return cast("ValueState[int | None]", ctx.get_partitioned_state(self._timeout))

    def __repr__(self) -> str:
        return f"ProcessingTimeoutTrigger({self.nested_trigger!r}, {self.interval})"
