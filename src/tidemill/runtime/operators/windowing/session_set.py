"""The open sessions of one key, in order of time."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import Any

from tidemill.datastream.window.types import TimeWindow
from tidemill.errors import StateError
from tidemill.runtime.batch.records import MAX_TIME
from tidemill.runtime.operators.windowing.merging_set import Merge, write_changes


class OpenSession:
    """An open session from ``start`` to ``end``.

    ``namespace`` is the namespace of its contents, and ``values`` are records that have not been added to them yet.
    ``window`` is the extent for which its timers were registered, or None. ``timed`` is true if all of its timers are
    known to be registered. ``limit`` is the start of the next session, as determined by :meth:`SessionSet.join`.
    """

    __slots__ = ("end", "limit", "namespace", "start", "timed", "values", "window")

    def __init__(self, start: int, end: int, namespace: Any, window: TimeWindow | None) -> None:
        self.start = start
        self.end = end
        self.namespace = namespace
        self.window = window
        self.timed = False
        self.values: list[Any] = []
        self.limit = MAX_TIME

    def moved(self) -> bool:
        """Whether its timers, if any, are not those of its current extent."""
        return (self.start, self.end) != self.window


class SessionSet:
    """A :class:`~tidemill.runtime.operators.windowing.merging_set.MergingWindowSet` for sessions, with the same state.

    Sessions neither overlap nor touch. The sessions that a record joins are therefore found by its time, and a session
    grows in place.
    """

    def __init__(self, state: Any) -> None:
        # configuration
        self._state = state
        # transient
        self._stored: dict[TimeWindow, Any] = dict(state.items())
        self._sessions = [OpenSession(*window, namespace, window) for window, namespace in sorted(self._stored.items())]
        self._starts = [session.start for session in self._sessions]

    def persist(self) -> None:
        """Write all changes to the state."""
        windows = {TimeWindow(session.start, session.end): session.namespace for session in self._sessions}
        write_changes(self._state, self._stored, windows)
        self._stored = windows

    def join(self, start: int, end: int) -> tuple[OpenSession, list[OpenSession]]:
        """Return the session that contains this interval, and the open sessions that were merged into it."""
        starts, sessions = self._starts, self._sessions
        first = after = bisect_right(starts, end)
        while first and sessions[first - 1].end >= start:
            first -= 1
        if first == after:
            session = OpenSession(start, end, TimeWindow(start, end), None)
            starts.insert(first, start)
            sessions.insert(first, session)
            absorbed = []
        else:
            session = sessions[first]
            session.end = max(end, sessions[after - 1].end)
            if start < session.start:
                session.start = starts[first] = start
            absorbed = sessions[first + 1 : after]
            if absorbed:
                del starts[first + 1 : after], sessions[first + 1 : after]
        session.limit = starts[first + 1] if first + 1 < len(starts) else MAX_TIME
        return session, absorbed

    def add(self, new: TimeWindow, merge: Merge) -> TimeWindow:
        """Add a window, and return the window that contains it. ``merge`` is called if windows are merged.

        It is called with the extents for which the timers of the merged windows were registered.
        """
        session, absorbed = self.join(*new)
        cover = TimeWindow(session.start, session.end)
        before, session.window, session.timed = session.window, cover, False
        # A record inside an existing window changes nothing.
        if before is not None and before != cover:
            merged = [before, *(one.window for one in absorbed)]
            merge(cover, merged, session.namespace, [one.namespace for one in absorbed])
        return cover

    def state_window(self, window: TimeWindow) -> Any:
        """Return the namespace of a window's contents; None if the window is not open."""
        session = self.timed_as(window)
        return None if session is None or session.moved() else session.namespace

    def retire(self, window: TimeWindow) -> None:
        """Remove a window."""
        at = bisect_left(self._starts, window.start)
        if at == len(self._starts) or self._sessions[at].window != window:
            windows = [TimeWindow(session.start, session.end) for session in self._sessions]
            raise StateError(f"window {window} is not one of the open windows: {windows}")
        del self._starts[at], self._sessions[at]

    def timed_as(self, window: TimeWindow) -> OpenSession | None:
        """Return the session with the timers of a window, if any. Its extent may have changed since."""
        at = bisect_right(self._starts, window[0]) - 1
        return self._sessions[at] if at >= 0 and self._sessions[at].window == window else None

    def moved(self) -> list[OpenSession]:
        """Return the sessions whose timers are not those of their current extent."""
        return [session for session in self._sessions if session.moved()]
