"""When a window is evaluated: the contract of triggers."""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from typing import Any, Generic

from tidemill.datastream.functions.state_descriptors import StateDescriptor
from tidemill.datastream.functions.type_parameters import IN, WINDOW
from tidemill.metrics import MetricGroup

__all__ = ["Trigger", "TriggerResult"]


class TriggerResult(enum.Enum):
    """What a trigger wants done with a window: evaluate it (fire), forget what is in it (purge), both, or nothing.

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
        """Whether the contents of the window are dropped."""
        return self._purge


class Trigger(ABC, Generic[IN, WINDOW]):
    """Decides when a window is evaluated, for each key on its own.

    A trigger keeps nothing on ``self``: what it must remember of a window goes into the state of its context, and is
    removed in :meth:`clear`. For windows that merge it must answer :meth:`can_merge` with true, and move its state and
    timers to the merged window in :meth:`on_merge`.

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
        """Time, timers and state of the window and key at hand."""

        @abstractmethod
        def get_current_processing_time(self) -> int:
            """The processing time."""

        @abstractmethod
        def get_metric_group(self) -> MetricGroup:
            """Where metrics of the operator are registered."""

        @abstractmethod
        def get_current_watermark(self) -> int:
            """The event time."""

        @abstractmethod
        def register_processing_time_timer(self, time: int) -> None:
            """Have :meth:`Trigger.on_processing_time` called at a time."""

        @abstractmethod
        def register_event_time_timer(self, time: int) -> None:
            """Have :meth:`Trigger.on_event_time` called when the watermark reaches a time."""

        @abstractmethod
        def delete_processing_time_timer(self, time: int) -> None:
            """Take a timer back."""

        @abstractmethod
        def delete_event_time_timer(self, time: int) -> None:
            """Take a timer back."""

        @abstractmethod
        def get_partitioned_state(self, state_descriptor: StateDescriptor) -> Any:
            """State of this key and window."""

    class OnMergeContext(TriggerContext):
        """The context of :meth:`Trigger.on_merge`: the window at hand is the result."""

        @abstractmethod
        def merge_partitioned_state(self, state_descriptor: StateDescriptor) -> None:
            """Merge the state of the windows that are merged into that of the result: list, reducing or aggregating."""

    @abstractmethod
    def on_element(self, element: Any, timestamp: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        """A record was added to a window."""

    @abstractmethod
    def on_processing_time(self, time: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        """A processing-time timer of a window is due."""

    @abstractmethod
    def on_event_time(self, time: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        """An event-time timer of a window is due."""

    def can_merge(self) -> bool:
        """Whether the trigger works with windows that merge."""
        return False

    def on_merge(self, window: Any, ctx: Trigger.OnMergeContext) -> None:
        """Several windows have become ``window``."""
        raise NotImplementedError(f"{type(self).__name__} does not support merging")

    @abstractmethod
    def clear(self, window: Any, ctx: Trigger.TriggerContext) -> None:
        """The window is gone: remove its state and timers."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"
