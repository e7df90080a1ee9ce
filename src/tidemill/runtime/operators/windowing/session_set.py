"""The open sessions of one key, in the order of time."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import Any

from tidemill.datastream.window.types import TimeWindow
from tidemill.errors import StateError
from tidemill.runtime.batch.records import MAX_TIME
from tidemill.runtime.operators.windowing.merging_set import Merge, write_changes


class OpenSession:
    """An open session of the time from ``start`` to ``end``.

    ``namespace`` is where its contents are, and ``values`` are records that are not yet among these. ``window`` is the
    extent that its timers were set for, None before; ``timed`` is whether it is known that none of them is missing.
    ``limit`` is the start of the session behind it, as :meth:`SessionSet.join` found it.
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
        """Whether its timers, if there are any, are those of another extent."""
        return (self.start, self.end) != self.window


class SessionSet:
    """As :class:`~tidemill.runtime.operators.windowing.merging_set.MergingWindowSet`, in the same state: sessions only.

    They neither overlap nor touch, so those that a record joins are found by its time, and the one that it falls into
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
        """Bring the state up to date."""
        windows = {TimeWindow(session.start, session.end): session.namespace for session in self._sessions}
        write_changes(self._state, self._stored, windows)
        self._stored = windows

    def join(self, start: int, end: int) -> tuple[OpenSession, list[OpenSession]]:
        """The session that now has this time in it, and those that were open and have become part of it."""
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
        """Add a window, and return the one it has become part of. ``merge`` is told of windows that became one.

        It gets these as their timers know them.
        """
        session, absorbed = self.join(*new)
        cover = TimeWindow(session.start, session.end)
        before, session.window, session.timed = session.window, cover, False
        # A record inside a window that is there already changes nothing.
        if before is not None and before != cover:
            merged = [before, *(one.window for one in absorbed)]
            merge(cover, merged, session.namespace, [one.namespace for one in absorbed])
        return cover

    def state_window(self, window: TimeWindow) -> Any:
        """The namespace of a window's contents; None if the window is gone."""
        session = self.timed_as(window)
        return None if session is None or session.moved() else session.namespace

    def retire(self, window: TimeWindow) -> None:
        """The window is gone."""
        at = bisect_left(self._starts, window.start)
        if at == len(self._starts) or self._sessions[at].window != window:
            windows = [TimeWindow(session.start, session.end) for session in self._sessions]
            raise StateError(f"window {window} is not among the windows that are open: {windows}")
        del self._starts[at], self._sessions[at]

    def timed_as(self, window: TimeWindow) -> OpenSession | None:
        """The session that has the timers of a window, if there is one; it may have moved since they were set."""
        at = bisect_right(self._starts, window[0]) - 1
        return self._sessions[at] if at >= 0 and self._sessions[at].window == window else None

    def moved(self) -> list[OpenSession]:
        """The sessions whose timers are not those of their extent."""
        return [session for session in self._sessions if session.moved()]
