"""A fast path for the common case: event time sessions with their default trigger.

A session emits nothing before its end. Records are therefore first only assigned to sessions, and at the end of the
batch the contents of each session are updated once. A session that grows keeps the timer of its old end until that
timer is due or the epoch ends; only then is the timer moved. Keys with a record of a session that may have ended are
processed as in the general case, record by record. The results, their order, committed state and timers are those of
:class:`~tidemill.runtime.operators.windowing.merging.MergingWindowOperator`.
"""

from __future__ import annotations

from functools import partial
from operator import length_hint
from typing import Any

from tidemill.common.calls import call_each
from tidemill.datastream.program.specs import WindowSpec
from tidemill.datastream.window.sessions import DynamicEventTimeSessionWindows, EventTimeSessionWindows
from tidemill.datastream.window.triggers import EventTimeTrigger
from tidemill.datastream.window.types import TimeWindow
from tidemill.errors import TidemillError
from tidemill.runtime.batch.records import MAX_TIME, Batch
from tidemill.runtime.operators.windowing.merging import MergingOperator
from tidemill.runtime.operators.windowing.session_set import OpenSession, SessionSet


def is_sessions(spec: WindowSpec) -> bool:
    """Whether the fast path supports the windows of a spec."""
    return (
        type(spec.assigner) in (EventTimeSessionWindows, DynamicEventTimeSessionWindows)
        and type(spec.trigger) is EventTimeTrigger
        and spec.evictor is None
    )


class SessionWindowOperator(MergingOperator[SessionSet]):
    """Event time sessions that fire at their end."""

    def process(self, batch: Batch, input_index: int) -> None:
        self._check_event_times(batch)
        timestamps = batch.timestamps
        if not timestamps:
            return
        keys, ends, watermark = batch.keys or [], self._ends(batch, timestamps), self.current_watermark
        if min(ends) - 1 <= watermark:
            late = {key for key, end in zip(keys, ends, strict=True) if end - 1 <= watermark}
            chosen = [key in late for key in keys]
            super().process(batch.where(chosen), input_index)
            batch = batch.where([not one for one in chosen])
            keys, timestamps = batch.keys or [], batch.timestamps or []
            ends = [end for end, one in zip(ends, chosen, strict=True) if not one]
        self._add_records(keys, timestamps, ends, batch.values)

    def _ends(self, batch: Batch, timestamps: list[int]) -> list[int]:
        """Return the end of the window of each record."""
        assigner = self._assigner
        if type(assigner) is EventTimeSessionWindows:
            gap = assigner.gap_of(None)
            return [timestamp + gap for timestamp in timestamps]
        gaps = call_each(assigner.gap_of, batch.values, partial(self._gap_failed, batch))
        return [timestamp + gap for timestamp, gap in zip(timestamps, gaps, strict=True)]

    def _gap_failed(self, batch: Batch, error: BaseException, position: int) -> TidemillError:
        key = (batch.keys or [])[position]
        return self.failed(error, record=batch.values[position], with_record=True, key=key)

    def _add_records(self, keys: list[Any], timestamps: list[int], ends: list[int], values: list[Any]) -> None:
        """Add records to sessions that have not ended."""
        context = self.backend.context
        latest: dict[Any, OpenSession] = {}  # the session of the last record of each key
        touched: list[tuple[Any, OpenSession]] = []
        for key, timestamp, end, value in zip(keys, timestamps, ends, values, strict=True):
            session = latest.get(key, _NOWHERE)
            if session.start <= timestamp <= session.end and end < session.limit:
                if end > session.end:
                    session.end = end
            else:
                context.key = key
                session, absorbed = self._set().join(timestamp, end)
                if absorbed:
                    self._absorb(session, absorbed, value)
                if not session.values:
                    touched.append((key, session))
                latest[key] = session
            session.values.append(value)
        for context.key, session in touched:
            if session.values:  # otherwise it was absorbed
                self._take(session)
                if not session.timed:
                    self._set_timers(session)

    def _absorb(self, session: OpenSession, absorbed: list[OpenSession], value: Any) -> None:
        """Merge sessions into another one, because of a record that is not part of it yet."""
        for one in (session, *absorbed):
            self._take(one)
        state = self._contents.state
        try:
            state.merge_namespaces(session.namespace, [one.namespace for one in absorbed])
        except BaseException as error:
            raise self.failed(error, record=value, with_record=True, key=self.backend.context.key) from error
        for one in absorbed:
            if one.window is not None:
                self._delete_timers(one.window)

    def _take(self, session: OpenSession) -> None:
        """Add the buffered records of a session to its contents."""
        state, values = self._contents.state, session.values
        if not values:
            return
        state.set_current_namespace(session.namespace)
        taken = iter(values)
        try:
            state.add_all(taken)
        except BaseException as error:
            record = values[len(values) - length_hint(taken) - 1]
            raise self.failed(error, record=record, with_record=True, key=self.backend.context.key) from error
        session.values = []

    # --- timers

    def _set_timers(self, session: OpenSession) -> None:
        """Register the timers of a session for its current extent."""
        window = TimeWindow(session.start, session.end)
        if session.window is not None and session.window != window:
            self._delete_timers(session.window)
        session.window, session.timed = window, True
        timers, key = self.backend.event_timers, self.backend.context.key
        timers.register(window.max_timestamp(), key, window)
        if self._lateness and (cleanup := self._cleanup_time(window)) != MAX_TIME:
            timers.register(cleanup, key, window)

    def _delete_timers(self, window: TimeWindow) -> None:
        timers, key = self.backend.event_timers, self.backend.context.key
        timers.delete(window.max_timestamp(), key, window)
        if self._lateness:
            timers.delete(self._cleanup_time(window), key, window)

    def _on_time(self, time: int, window: Any, by_event_time: bool) -> None:
        sessions = self._set()
        session = sessions.timed_as(window)
        if session is None:  # the session was merged into another one
            return
        if session.moved():
            self._set_timers(session)
            return
        state = self._contents.state
        state.set_current_namespace(session.namespace)
        session.timed = False
        if time == window.max_timestamp():
            self._emit(window)
        if time == self._cleanup_time(window):
            state.clear()
            if self._forget is not None:
                self._forget(window)
            sessions.retire(window)

    def _persist(self) -> None:
        context = self.backend.context
        for context.key, sessions in self._sets.items():
            for session in sessions.moved():
                self._set_timers(session)
        super()._persist()

    def _new_set(self) -> SessionSet:
        return SessionSet(self._merging_state)


#: A session that contains no timestamp.
_NOWHERE = OpenSession(MAX_TIME, MAX_TIME, None, None)
