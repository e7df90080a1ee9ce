"""The contexts of triggers, assigners, evictors and window functions: one object each per operator instance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tidemill.datastream.functions.base import KeyedStateStore, RuntimeContext
from tidemill.datastream.functions.state_descriptors import StateDescriptor
from tidemill.datastream.functions.window import ProcessAllWindowFunction, ProcessWindowFunction
from tidemill.datastream.window.assigners import WindowAssigner
from tidemill.datastream.window.evictors import Evictor
from tidemill.datastream.window.trigger import Trigger
from tidemill.errors import StateError
from tidemill.metrics import MetricGroup
from tidemill.runtime.operators.milliseconds import timer_time
from tidemill.runtime.operators.windowing.states import NoWindowStore, PerWindowStore, WindowStates

if TYPE_CHECKING:
    from tidemill.runtime.operators.base import Operator
    from tidemill.state.keyed.backend import KeyedStateBackend


class WindowTriggerContext(Trigger.OnMergeContext, Evictor.EvictorContext):
    """Context of a trigger, also while windows merge, and of an evictor; ``window`` is set before each call."""

    def __init__(self, operator: Operator, backend: KeyedStateBackend, states: WindowStates) -> None:
        # configuration
        self._operator = operator
        self._keys = backend.context
        self._event_timers = backend.event_timers
        self._processing_timers = backend.processing_timers
        self._states = states
        # transient
        self.window: Any = None
        self.merged: list[Any] = []

    def get_current_processing_time(self) -> int:
        return self._operator.processing_time

    def get_current_watermark(self) -> int:
        return self._operator.current_watermark

    def get_metric_group(self) -> MetricGroup:
        return self._operator.context.metrics.group

    def register_processing_time_timer(self, time: int) -> None:
        self._processing_timers.register(timer_time(time), self._keys.key, self.window)

    def register_event_time_timer(self, time: int) -> None:
        self._event_timers.register(timer_time(time), self._keys.key, self.window)

    def delete_processing_time_timer(self, time: int) -> None:
        self._processing_timers.delete(timer_time(time), self._keys.key, self.window)

    def delete_event_time_timer(self, time: int) -> None:
        self._event_timers.delete(timer_time(time), self._keys.key, self.window)

    def get_partitioned_state(self, state_descriptor: StateDescriptor) -> Any:
        return self._states.at(state_descriptor, self.window)

    def merge_partitioned_state(self, state_descriptor: StateDescriptor) -> None:
        state = self._states.at(state_descriptor, self.window)
        if not hasattr(state, "merge_namespaces"):
            raise StateError(
                f"state {state_descriptor.name!r} of a trigger is {state_descriptor.kind} state, which cannot be "
                "merged: use list, reducing or aggregating state"
            )
        state.merge_namespaces(self.window, self.merged)


class AssignerContext(WindowAssigner.WindowAssignerContext):
    """Context of an assigner."""

    def __init__(self, operator: Operator, runtime_context: RuntimeContext) -> None:
        self._operator = operator
        self._runtime_context = runtime_context

    def get_current_processing_time(self) -> int:
        return self._operator.processing_time

    def get_runtime_context(self) -> RuntimeContext:
        return self._runtime_context


class EvaluationContext(ProcessWindowFunction.Context, ProcessAllWindowFunction.Context):
    """Context of a window function; :meth:`at` is called before each call of the function."""

    def __init__(
        self, operator: Operator, runtime_context: RuntimeContext, window_store: PerWindowStore | NoWindowStore
    ) -> None:
        # configuration
        self._operator = operator
        self._global = runtime_context
        self._store = window_store
        # transient
        self._window: Any = None

    def at(self, window: Any) -> EvaluationContext:
        """Set the window, and return this context."""
        self._window = self._store.window = window
        return self

    def window(self) -> Any:
        return self._window

    def current_processing_time(self) -> int:
        return self._operator.processing_time

    def current_watermark(self) -> int:
        return self._operator.current_watermark

    def window_state(self) -> KeyedStateStore:
        return self._store

    def global_state(self) -> KeyedStateStore:
        return self._global
