"""A fast path for the common case: tumbling and sliding event time windows with their default trigger.

Such a window emits nothing before its end, so records need not be processed one by one: a batch is grouped by window,
each group is added to the contents of the window in one loop, and timers are registered only for keys that are new to
the window in this epoch. Records of windows that have already ended are processed as in the general case. The results,
their order, state and timers are those of :class:`WindowOperator`.
"""

from __future__ import annotations

from operator import length_hint
from typing import Any

import numpy as np

from tidemill.datastream.program.specs import WindowSpec
from tidemill.datastream.window.assigners import SlidingEventTimeWindows, TumblingEventTimeWindows
from tidemill.datastream.window.triggers import EventTimeTrigger
from tidemill.datastream.window.types import TimeWindow
from tidemill.runtime.batch.columns import ColumnBatch
from tidemill.runtime.batch.emitted import emitted, is_immutable
from tidemill.runtime.batch.records import MAX_TIME, MIN_TIME, Batch
from tidemill.runtime.operators.base import OperatorContext
from tidemill.runtime.operators.columnar.aggregates import columnar
from tidemill.runtime.operators.windowing.operator import WindowOperator

_Groups = dict[int, tuple[list[Any], list[Any]]]  # by start of the window: keys, values


def is_aligned(spec: WindowSpec) -> bool:
    """Whether the fast path supports the windows of a spec."""
    assigner = spec.assigner
    return (
        type(assigner) in (TumblingEventTimeWindows, SlidingEventTimeWindows)
        and assigner.slide <= assigner.size
        and type(spec.trigger) is EventTimeTrigger
        and spec.evictor is None
    )


class AlignedWindowOperator(WindowOperator):
    """Tumbling and sliding event time windows that fire at their end."""

    def __init__(self, spec: WindowSpec, context: OperatorContext) -> None:
        super().__init__(spec, context)
        # configuration
        self._size: int = spec.assigner.size
        self._slide: int = spec.assigner.slide
        self._offset: int = spec.assigner.offset
        self._columnar = columnar(spec.reduce or spec.aggregate) if context.plan.takes_columns else None

    def process(self, batch: Batch, input_index: int) -> None:
        if self._columnar is not None and isinstance(batch, ColumnBatch) and self._process_columns(batch):
            return
        self._check_event_times(batch)
        timestamps = batch.timestamps
        if not timestamps:
            return
        # The first window of the earliest record is the first one of all to end.
        if self._assigner.windows_at(min(timestamps))[-1].max_timestamp() <= self.current_watermark:
            groups = self._with_late(batch, timestamps)
        elif self._size == self._slide:
            groups = self._tumbling(batch, timestamps)
        else:
            groups = self._sliding(batch, timestamps)
        for start, (keys, values) in groups.items():
            self._add_group(TimeWindow(start, start + self._size), keys, values)
        self._flush()

    def _process_columns(self, batch: ColumnBatch) -> bool:
        """Add the rows to their windows; False, and nothing has happened, if some must be looked at one by one."""
        if batch.times is None or batch.times.null_count or batch.key is None or not len(batch):
            return False
        times = batch.times.to_numpy()
        earliest = int(times.min())
        if earliest == MIN_TIME or self._assigner.windows_at(earliest)[-1].max_timestamp() <= self.current_watermark:
            return False
        newest = times - (times - self._offset) % self._slide
        for start in self._starts(times, newest):
            rows = batch
            if self._size != self._slide:
                rows = batch.rows(np.flatnonzero((newest >= start) & (times < start + self._size)))
            elif newest.min() != newest.max():
                rows = batch.rows(np.flatnonzero(newest == start))
            self._add_rows(TimeWindow(start, start + self._size), rows)
        self._flush()
        return True

    def _starts(self, times: np.ndarray, newest: np.ndarray) -> list[int]:
        """Return the starts of all windows of a batch, given the newest window of each row."""
        if self._size == self._slide:
            found: list[int] = np.unique(newest).tolist()
            return found
        starts: set[int] = set()
        for back in range(-(-self._size // self._slide)):
            start = newest - back * self._slide
            starts.update(np.unique(start[start > times - self._size]).tolist())
        return sorted(starts)

    def _add_rows(self, window: TimeWindow, rows: ColumnBatch) -> None:
        """Add rows to a window that has not ended, as columns if possible."""
        state = self._contents.state
        state.set_current_namespace(window)
        new = None if self._columnar is None else self._columnar.add(rows, state)
        if new is None:
            self._add_group(window, rows.keys or [], rows.values)
        else:
            self._register(window, new)

    def _tumbling(self, batch: Batch, timestamps: list[int]) -> _Groups:
        size, offset = self._size, self._offset
        first, last = min(timestamps), max(timestamps)
        start = first - (first - offset) % size
        if last < start + size:
            return {start: (batch.keys or [], batch.values)}
        groups: _Groups = {}
        for timestamp, key, value in zip(timestamps, batch.keys or [], batch.values, strict=True):
            start = timestamp - (timestamp - offset) % size
            group = groups.get(start)
            if group is None:
                group = groups[start] = ([], [])
            group[0].append(key)
            group[1].append(value)
        return groups

    def _sliding(self, batch: Batch, timestamps: list[int]) -> _Groups:
        size, slide, offset = self._size, self._slide, self._offset
        shared = self.backend.mutable and not all(map(is_immutable, batch.values))
        groups: _Groups = {}
        for timestamp, key, value in zip(timestamps, batch.keys or [], batch.values, strict=True):
            for start in range(timestamp - (timestamp - offset) % slide, timestamp - size, -slide):
                group = groups.get(start)
                if group is None:
                    group = groups[start] = ([], [])
                group[0].append(key)
                # Windows must not share an object that a function may change.
                group[1].append(emitted(value) if shared else value)
        return groups

    def _with_late(self, batch: Batch, timestamps: list[int]) -> _Groups:
        """Group records if some windows have ended. Records of those windows are added one by one."""
        keys, watermark = self.backend.context, self.current_watermark
        several = self._size != self._slide
        groups: _Groups = {}
        value = None
        try:
            for timestamp, keys.key, value in zip(timestamps, batch.keys or [], batch.values, strict=True):
                taken = False
                shared = several and not is_immutable(value)
                for window in self._assigner.windows_at(timestamp):
                    if self._is_late(window):
                        continue
                    taken = True
                    one = emitted(value) if shared else value
                    if window.max_timestamp() <= watermark:
                        self._add(window, window, one, timestamp)
                    else:
                        group = groups.setdefault(window.start, ([], []))
                        group[0].append(keys.key)
                        group[1].append(one)
                if not taken:
                    self._skipped(value, timestamp)
        except BaseException as error:
            raise self.failed(error, record=value, with_record=True, key=keys.key) from error
        return groups

    def _add_group(self, window: TimeWindow, keys: list[Any], values: list[Any]) -> None:
        """Add records to a window that has not ended."""
        state = self._contents.state
        state.set_current_namespace(window)
        taken = iter(values)
        try:
            new = state.add_each(keys, taken)
        except BaseException as error:
            record = values[len(values) - length_hint(taken) - 1]
            raise self.failed(error, record=record, with_record=True, key=self.backend.context.key) from error
        self._register(window, new)

    def _register(self, window: TimeWindow, new: list[Any]) -> None:
        """Register the timers of a window for keys that are new to it."""
        register, end = self.backend.event_timers.register, window.max_timestamp()
        for key in new:
            register(end, key, window)
        cleanup = self._cleanup_time(window)
        if cleanup not in (end, MAX_TIME):
            for key in new:
                register(cleanup, key, window)

    def _on_time(self, time: int, window: Any, by_event_time: bool) -> None:
        state = self._contents.state
        state.set_current_namespace(window)
        if time == window.max_timestamp():
            self._emit(window)
        if time == self._cleanup_time(window):
            state.clear()
            if self._forget is not None:
                self._forget(window)
