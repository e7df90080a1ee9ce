"""The merging windows of one key, and the namespaces of their contents."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol

from tidemill.datastream.window.assigners import MergingWindowAssigner
from tidemill.errors import StateError

#: Accepts the resulting window, the merged windows, the state window of the result, and those to merge into it.
Merge = Callable[[Any, list[Any], Any, list[Any]], None]


class WindowSet(Protocol):
    """The contract of :class:`MergingWindowSet`."""

    def persist(self) -> None: ...
    def state_window(self, window: Any) -> Any: ...
    def retire(self, window: Any) -> None: ...
    def add(self, new: Any, merge: Merge) -> Any: ...


class MergingWindowSet:
    """Maps each window of the current key to its *state window*, the namespace of its contents.

    When windows merge, the result keeps the state window of one of them, so that no contents are moved when a window
    grows by a record. The map is read from ``state``, a map state, and written to it by :meth:`persist`. The key must
    be the current one in both cases.
    """

    def __init__(self, assigner: MergingWindowAssigner, state: Any) -> None:
        # configuration
        self._assigner = assigner
        self._state = state
        # transient
        self._windows: dict[Any, Any] = dict(state.items())
        self._stored = dict(self._windows)

    def persist(self) -> None:
        """Write all changes to the state."""
        write_changes(self._state, self._stored, self._windows)
        self._stored = dict(self._windows)

    def state_window(self, window: Any) -> Any:
        """Return the namespace of a window's contents; None if the window is not open."""
        return self._windows.get(window)

    def retire(self, window: Any) -> None:
        """Remove a window."""
        if window not in self._windows:
            raise StateError(f"window {window} is not one of the open windows: {list(self._windows)}")
        del self._windows[window]

    def add(self, new: Any, merge: Merge) -> Any:
        """Add a window, and return the window that contains it. ``merge`` is called if windows are merged."""
        if new in self._windows:
            return new
        merged = _Merged()
        self._assigner.merge_windows([*self._windows, new], merged)
        result, joined = new, False
        for group, cover in merged.found:
            if new in group:
                group.remove(new)
                result, joined = cover, True
            state_windows = [self._windows.pop(window) for window in group]
            self._windows[cover] = state_windows[0]
            # A record inside an existing window changes nothing.
            if group != [cover]:
                merge(cover, group, state_windows[0], state_windows[1:])
        if not joined:
            self._windows[new] = new
        return result


def write_changes(state: Any, stored: dict[Any, Any], windows: dict[Any, Any]) -> None:
    """Update a map state that contains ``stored``, so that it contains ``windows``."""
    for window in stored:
        if window not in windows:
            state.remove(window)
    for window, state_window in windows.items():
        if stored.get(window) != state_window:
            state.put(window, state_window)


class _Merged(MergingWindowAssigner.MergeCallback[Any]):
    """Collects the merges that an assigner requests."""

    def __init__(self) -> None:
        self.found: list[tuple[list[Any], Any]] = []

    def merge(self, to_be_merged: Iterable[Any], merge_result: Any) -> None:
        self.found.append((list(dict.fromkeys(to_be_merged)), merge_result))
