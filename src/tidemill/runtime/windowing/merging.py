"""The operator of windows that merge: sessions."""

from __future__ import annotations

from typing import Any

from tidemill.datastream.specs import WindowSpec
from tidemill.datastream.state_descriptors import MapStateDescriptor
from tidemill.errors import StateError
from tidemill.runtime.operators.base import OperatorContext
from tidemill.runtime.windowing.merging_set import MergingWindowSet
from tidemill.runtime.windowing.operator import WindowOperator
from tidemill.runtime.windowing.states import NoWindowStore, PerWindowStore

MERGING_SET = "merging-window-set"


class MergingWindowOperator(WindowOperator):
    """Each record brings a window of its own, which may join windows that are open into one."""

    def __init__(self, spec: WindowSpec, context: OperatorContext) -> None:
        super().__init__(spec, context)
        # transient
        #: Read once per key and epoch, written once per key and batch.
        self._sets: dict[Any, MergingWindowSet] = {}
        self._changed: dict[Any, MergingWindowSet] = {}

    def open(self) -> None:
        # checkpointed
        self._merging_state = self.backend.map_state(MapStateDescriptor(MERGING_SET))
        self._merging_state.keep_unshared()  # windows do not change
        super().open()

    def begin_epoch(self, processing_time: int) -> None:
        self._sets.clear()
        super().begin_epoch(processing_time)

    def end_keys(self) -> None:
        super().end_keys()
        self._sets.clear()

    def _element(self, value: Any, timestamp: int | None) -> None:
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
        if namespace is None:  # merged into another since
            return
        self._on_trigger(time, window, namespace, by_event_time)
        if by_event_time is self._event_time and time == self._cleanup_time(window):
            self._clear(window)
            windows.retire(window)

    def _merge(self, result: Any, merged: list[Any], namespace: Any, namespaces: list[Any]) -> None:
        """Windows became one: so do their trigger's state and their contents, and only the result has timers."""
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

    def _set(self) -> MergingWindowSet:
        """The windows of the current key, about to be changed."""
        key = self.backend.context.key
        found = self._sets.get(key)
        if found is None:
            found = self._sets[key] = MergingWindowSet(self._assigner, self._merging_state)
        self._changed[key] = found
        return found

    def _flush(self) -> None:
        keys = self.backend.context
        for keys.key, windows in self._changed.items():
            windows.persist()
        self._changed.clear()
        super()._flush()

    def _window_store(self) -> PerWindowStore | NoWindowStore:
        return NoWindowStore()
