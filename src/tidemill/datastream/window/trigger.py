"""The interface of triggers, which determine when a window is evaluated."""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from typing import Any, Generic

from tidemill.datastream.functions.state_descriptors import StateDescriptor
from tidemill.datastream.functions.type_parameters import IN, WINDOW
from tidemill.metrics import MetricGroup

__all__ = ["Trigger", "TriggerResult"]


class TriggerResult(enum.Enum):
    """The action of a trigger: evaluate the window (fire), discard its contents (purge), both, or nothing.

    A window without records is never evaluated.

    >>> TriggerResult.FIRE_AND_PURGE.is_fire(), TriggerResult.FIRE.is_purge()
    (True, False)
    """

    CONTINUE = (False, False)
    FIRE_AND_PURGE = (True, True)
    FIRE = (True, False)
    PURGE = (False, True)

    def __init__(self, fire: bool, purge: bool) -> None:
        self._fire = fire
        self._purge = purge

    def is_fire(self) -> bool:
        """Whether the window is evaluated."""
        return self._fire

    def is_purge(self) -> bool:
        """Whether the contents of the window are discarded."""
        return self._purge


class Trigger(ABC, Generic[IN, WINDOW]):
    """Determines when a window is evaluated, separately for each key.

    A trigger must not store anything in ``self``. Its data about a window is stored in the state of its context and
    removed in :meth:`clear`. To be used with merging windows, it must return true from :meth:`can_merge` and move its
    state and timers to the merged window in :meth:`on_merge`.

    >>> class Eager(Trigger):
    ...     def on_element(self, element, timestamp, window, ctx):
    ...         ctx.register_event_time_timer(window.max_timestamp())
    ...         return TriggerResult.FIRE if element == "now" else TriggerResult.CONTINUE
    ...     def on_processing_time(self, time, window, ctx):
    ...         return TriggerResult.CONTINUE
    ...     def on_event_time(self, time, window, ctx):
    ...         return TriggerResult.FIRE_AND_PURGE
    ...     def clear(self, window, ctx):
    ...         ctx.delete_event_time_timer(window.max_timestamp())
    >>> Eager().can_merge()
    False
    """

    class TriggerContext(ABC):
        """Access to time, and to the timers and state of the current window and key."""

        @abstractmethod
        def get_current_processing_time(self) -> int:
            """The current processing time."""

        @abstractmethod
        def get_metric_group(self) -> MetricGroup:
            """The metric group of the operator."""

        @abstractmethod
        def get_current_watermark(self) -> int:
            """The current watermark."""

        @abstractmethod
        def register_processing_time_timer(self, time: int) -> None:
            """Register a timer that calls :meth:`Trigger.on_processing_time` at this processing time."""

        @abstractmethod
        def register_event_time_timer(self, time: int) -> None:
            """Register a timer that calls :meth:`Trigger.on_event_time` when the watermark reaches this time."""

        @abstractmethod
        def delete_processing_time_timer(self, time: int) -> None:
            """Delete a processing-time timer."""

        @abstractmethod
        def delete_event_time_timer(self, time: int) -> None:
            """Delete an event-time timer."""

        @abstractmethod
        def get_partitioned_state(self, state_descriptor: StateDescriptor) -> Any:
            """State of this key and window."""

    class OnMergeContext(TriggerContext):
        """The context of :meth:`Trigger.on_merge`. The current window is the result of the merge."""

        @abstractmethod
        def merge_partitioned_state(self, state_descriptor: StateDescriptor) -> None:
            """Merge the state of the merged windows into that of the result: list, reducing or aggregating state."""

    @abstractmethod
    def on_element(self, element: Any, timestamp: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        """Called when a record is added to a window."""

    @abstractmethod
    def on_processing_time(self, time: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        """Called when a processing-time timer of a window fires."""

    @abstractmethod
    def on_event_time(self, time: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        """Called when an event-time timer of a window fires."""

    def can_merge(self) -> bool:
        """Whether the trigger supports merging windows."""
        return False

    def on_merge(self, window: Any, ctx: Trigger.OnMergeContext) -> None:
        """Called when several windows have been merged into ``window``."""
        raise NotImplementedError(f"{type(self).__name__} does not support merging")

    @abstractmethod
    def clear(self, window: Any, ctx: Trigger.TriggerContext) -> None:
        """Called when the window is removed, to remove its state and timers."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"
