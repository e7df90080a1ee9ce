"""The operator of merging windows: sessions."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Generic, TypeVar

from tidemill.datastream.functions.state_descriptors import MapStateDescriptor
from tidemill.datastream.program.specs import WindowSpec
from tidemill.errors import StateError
from tidemill.runtime.operators.base import OperatorContext
from tidemill.runtime.operators.keyed import KeyedContext
from tidemill.runtime.operators.windowing.merging_set import MergingWindowSet, WindowSet
from tidemill.runtime.operators.windowing.operator import WindowOperator
from tidemill.runtime.operators.windowing.states import NoWindowStore, PerWindowStore

MERGING_SET = "merging-window-set"

S = TypeVar("S", bound=WindowSet)


class MergingOperator(WindowOperator, Generic[S]):
    """Assigns each record its own window, which may merge with open windows."""

    def __init__(self, spec: WindowSpec, context: OperatorContext) -> None:
        super().__init__(spec, context)
        # transient
        #: Read and written once per key and epoch.
        self._sets: dict[Any, S] = {}

    def open(self) -> None:
        # checkpointed
        self._merging_state = self.backend.map_state(MapStateDescriptor(MERGING_SET))
        self._merging_state.keep_unshared()  # windows are immutable
        super().open()

    def end_keys(self) -> None:
        super().end_keys()
        self._persist()

    def end_epoch(self) -> None:
        super().end_epoch()
        self._persist()

    def _element(self, value: Any, context: KeyedContext) -> None:
        timestamp = context.current_timestamp
        windows = self._set()
        in_time = False
        for assigned in self._assign(value, timestamp):
            window = windows.add(assigned, self._merge)
            if self._is_late(window):
                windows.retire(window)
                continue
            in_time = True
            self._add(window, windows.state_window(window), value, timestamp)
        if not in_time:
            self._skipped(value, timestamp)

    def _on_time(self, time: int, window: Any, by_event_time: bool) -> None:
        windows = self._set()
        namespace = windows.state_window(window)
        if namespace is None:  # the window was merged into another one
            return
        self._on_trigger(time, window, namespace, by_event_time)
        if by_event_time is self._event_time and time == self._cleanup_time(window):
            self._clear(window)
            windows.retire(window)

    def settle(self) -> None:
        self._persist()

    def abandon(self) -> None:
        super().abandon()
        self._sets.clear()

    def pass_over(self, time: int, key: Any, namespace: Any, by_event_time: bool) -> None:
        self.backend.context.key = key
        windows = self._set()
        state_window = windows.state_window(namespace)
        is_over = by_event_time is self._event_time and time == self._cleanup_time(namespace)
        if state_window is not None and is_over:
            self._contents.state.set_current_namespace(state_window)
            self._clear(namespace)
            windows.retire(namespace)
        self._persist()

    def _merge(self, result: Any, merged: list[Any], namespace: Any, namespaces: list[Any]) -> None:
        """Merge the trigger state and the contents of windows. Only the resulting window keeps timers."""
        self._check_open(result)
        context, trigger = self._trigger_context, self._trigger
        context.window, context.merged = result, merged
        trigger.on_merge(result, context)
        for window in merged:
            context.window = window
            trigger.clear(window, context)
            self._delete_cleanup(window)
        if namespaces:
            self._contents.state.merge_namespaces(namespace, namespaces)

    def _check_open(self, window: Any) -> None:
        if self._event_time:
            clock, now, end = "watermark", self.current_watermark, self._cleanup_time(window)
        else:
            clock, now, end = "processing time", self.processing_time, window.max_timestamp()
        if end <= now:
            raise StateError(
                f"a window cannot end earlier by merging: {window} of {self._assigner!r} is over, the {clock} is {now}"
            )

    def _set(self) -> S:
        """Return the windows of the current key."""
        key = self.backend.context.key
        found = self._sets.get(key)
        if found is None:
            found = self._sets[key] = self._new_set()
        return found

    @abstractmethod
    def _new_set(self) -> S:
        """Read the windows of the current key from state."""

    def _persist(self) -> None:
        """Write the windows of all keys to state, at the end of an epoch."""
        keys = self.backend.context
        for keys.key, windows in self._sets.items():
            windows.persist()
        keys.leave()
        self._sets.clear()

    def _window_store(self) -> PerWindowStore | NoWindowStore:
        return NoWindowStore()


class MergingWindowOperator(MergingOperator[MergingWindowSet]):
    """Windows of any merging assigner, with any trigger, evictor and function."""

    def _new_set(self) -> MergingWindowSet:
        return MergingWindowSet(self._assigner, self._merging_state)
