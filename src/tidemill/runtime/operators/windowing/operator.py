"""The window operator: adds each record to its windows, and evaluates a window when its trigger fires.

The contents of a window are keyed state in the namespace of the window, which is also the namespace of its timers. When
event time passes the end of the window plus the allowed lateness (processing time: its end), all of it is removed.
"""

from __future__ import annotations

from typing import Any

from tidemill.datastream.program.specs import WindowSpec
from tidemill.datastream.window.trigger import TriggerResult
from tidemill.errors import GraphError
from tidemill.runtime.batch.emitted import emitted, is_immutable
from tidemill.runtime.batch.records import MAX_TIME, MIN_TIME, Batch
from tidemill.runtime.operators.base import FunctionContext, OperatorContext
from tidemill.runtime.operators.keyed import KeyedContext, KeyedOperator
from tidemill.runtime.operators.record_loops import flat_map_each
from tidemill.runtime.operators.windowing.contents import make_contents
from tidemill.runtime.operators.windowing.contexts import AssignerContext, EvaluationContext, WindowTriggerContext
from tidemill.runtime.operators.windowing.evaluation import evaluation_of
from tidemill.runtime.operators.windowing.lateness import LateRecords
from tidemill.runtime.operators.windowing.states import NoWindowStore, PerWindowStore, WindowStates

_CONTINUE = TriggerResult.CONTINUE


class WindowOperator(KeyedOperator):
    """Windows of any non-merging assigner, with any trigger, evictor and function."""

    timer_method = ""

    def __init__(self, spec: WindowSpec, context: OperatorContext) -> None:
        super().__init__(spec.function, context)
        # configuration
        self._spec = spec
        self._assigner = spec.assigner
        self._trigger = spec.trigger
        self._event_time: bool = spec.assigner.is_event_time()
        self._lateness = spec.allowed_lateness
        self._late = LateRecords(spec.late_tag, context.metrics, context.where)
        self._states = WindowStates(self.backend)
        self._trigger_context = WindowTriggerContext(self, self.backend, self._states)
        runtime_context = FunctionContext(context)
        self._assigner_context = AssignerContext(self, runtime_context)
        evaluation_context = EvaluationContext(self, runtime_context, self._window_store())
        self._evaluate, self._forget = evaluation_of(spec.function, evaluation_context)
        # transient
        self._elements: list[Any] | None = None

    def functions(self) -> list[Any]:
        spec = self._spec
        return [function for function in (spec.reduce, spec.aggregate, spec.function) if function is not None]

    def open(self) -> None:
        # checkpointed
        self._contents = make_contents(self._spec, self.backend, self._trigger_context)
        super().open()

    def process(self, batch: Batch, input_index: int) -> None:
        self._check_event_times(batch)
        flat_map_each(self, batch, self._element, self.function_context, with_context=True)
        self._flush()

    # --- records

    def _element(self, value: Any, context: KeyedContext) -> None:
        """Add one record to its windows, and collect the results of windows that fire."""
        timestamp = context.current_timestamp
        windows = self._assign(value, timestamp)
        in_time = [window for window in windows if not self._is_late(window)]
        # Windows must not share an object that a function may change.
        shared = len(in_time) > 1 and not is_immutable(value)
        for window in in_time:
            self._add(window, window, emitted(value) if shared else value, timestamp)
        if not in_time:
            self._skipped(value, timestamp)

    def _assign(self, value: Any, timestamp: int | None) -> Any:
        return self._assigner.assign_windows(
            value, MIN_TIME if timestamp is None else timestamp, self._assigner_context
        )

    def _add(self, window: Any, namespace: Any, value: Any, timestamp: int | None) -> None:
        """Add one record to a window whose contents are in ``namespace``, and apply the result of the trigger."""
        contents, context = self._contents, self._trigger_context
        contents.state.set_current_namespace(namespace)
        contents.add(value, timestamp)
        context.window = window
        result = self._trigger.on_element(value, MIN_TIME if timestamp is None else timestamp, window, context)
        if result is not _CONTINUE:
            if result.is_fire() and not self._emit(window):
                return
            if result.is_purge():
                contents.state.clear()
        self._register_cleanup(window)

    def _skipped(self, value: Any, timestamp: int | None) -> None:
        """Handle a record that was added to no window: it is late, or the assigner returned no window."""
        watermark = self.current_watermark
        if self._event_time and timestamp is not None and min(timestamp + self._lateness, MAX_TIME) <= watermark:
            late = self._late.take(value, timestamp, watermark)
            if late is not None:
                self._values.append(late)
                self._timestamps.append(timestamp)

    def _check_event_times(self, batch: Batch) -> None:
        timestamps = batch.timestamps
        if self._event_time and (timestamps is None or MIN_TIME in timestamps):
            raise GraphError(
                f"{self.context.where} has event time windows ({self._assigner!r}), but its records have no "
                "timestamps: call assign_timestamps_and_watermarks() before it, or pass a WatermarkStrategy to "
                f"from_source() (defined at {self.context.plan.user_line})"
            )

    # --- time

    def _on_time(self, time: int, window: Any, by_event_time: bool) -> None:
        """Handle a timer of a window: of its trigger, or the timer that removes the window."""
        self._on_trigger(time, window, window, by_event_time)
        if by_event_time is self._event_time and time == self._cleanup_time(window):
            self._clear(window)

    def _on_trigger(self, time: int, window: Any, namespace: Any, by_event_time: bool) -> None:
        contents, context, trigger = self._contents, self._trigger_context, self._trigger
        contents.state.set_current_namespace(namespace)
        context.window = window
        on_time = trigger.on_event_time if by_event_time else trigger.on_processing_time
        result = on_time(time, window, context)
        if result is not _CONTINUE:
            if result.is_fire():
                self._emit(window)
            if result.is_purge():
                contents.state.clear()

    def _clear(self, window: Any) -> None:
        """Remove a window with everything that belongs to it. Its namespace must be the current one."""
        self._contents.state.clear()
        self._trigger_context.window = window
        self._trigger.clear(window, self._trigger_context)
        if self._forget is not None:
            self._forget(window)

    def _is_late(self, window: Any) -> bool:
        return self._event_time and self._cleanup_time(window) <= self.current_watermark

    def _cleanup_time(self, window: Any) -> int:
        """Return the time at which a window is removed."""
        end: int = window.max_timestamp()
        return min(end + self._lateness, MAX_TIME) if self._event_time else end

    def _register_cleanup(self, window: Any) -> None:
        time = self._cleanup_time(window)
        if time != MAX_TIME:  # a window that never ends is not cleaned up
            timers = self.backend.event_timers if self._event_time else self.backend.processing_timers
            timers.register(time, self.backend.context.key, window)

    def _delete_cleanup(self, window: Any) -> None:
        time = self._cleanup_time(window)
        if time != MAX_TIME:
            timers = self.backend.event_timers if self._event_time else self.backend.processing_timers
            timers.delete(time, self.backend.context.key, window)

    # --- calls that raised and are undone

    @property
    def evaluating(self) -> Any:
        return self._elements

    def abandon(self) -> None:
        super().abandon()
        self._elements = None

    def pass_over(self, time: int, key: Any, namespace: Any, by_event_time: bool) -> None:
        self.backend.context.key = key
        if by_event_time is self._event_time and time == self._cleanup_time(namespace):
            self._contents.state.set_current_namespace(namespace)
            self._clear(namespace)

    # --- results

    def _emit(self, window: Any) -> bool:
        """Evaluate a window whose namespace is the current one; return False if it is empty."""
        elements = self._contents.elements(window)
        if elements is None:
            return False
        self._elements = elements
        self._collect(self._evaluate(self.backend.context.key, window, elements), window.max_timestamp())
        self._contents.evaluated(window)
        self._elements = None
        return True

    def _emit_fired(self, by_event_time: bool) -> None:
        self._flush()

    def _window_store(self) -> PerWindowStore | NoWindowStore:
        return PerWindowStore(self._states)
