"""The windows of one key that can merge, and where the contents of each of them are."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol

from tidemill.datastream.window.assigners import MergingWindowAssigner
from tidemill.errors import StateError

#: Takes the result, the windows that became it, the state window of the result, and those to merge into that one.
Merge = Callable[[Any, list[Any], Any, list[Any]], None]


class WindowSet(Protocol):
    """The contract of :class:`MergingWindowSet`."""

    def persist(self) -> None: ...
    def state_window(self, window: Any) -> Any: ...
    def retire(self, window: Any) -> None: ...
    def add(self, new: Any, merge: Merge) -> Any: ...


class MergingWindowSet:
    """Maps each window of the current key to its *state window*, the namespace its contents are in.

    When windows merge, the result goes on with the state window of one of them, so that growing by a record moves no
    contents. The map is ``state``, a map state, once :meth:`persist` was called; the key must be at hand then, and when
    the set is made.
    """

    def __init__(self, assigner: MergingWindowAssigner, state: Any) -> None:
        # configuration
        self._assigner = assigner
        self._state = state
        # transient
        self._windows: dict[Any, Any] = dict(state.items())
        self._stored = dict(self._windows)

    def persist(self) -> None:
        """Bring the state up to date."""
        write_changes(self._state, self._stored, self._windows)
        self._stored = dict(self._windows)

    def state_window(self, window: Any) -> Any:
        """The namespace of a window's contents; None if the window is gone."""
        return self._windows.get(window)

    def retire(self, window: Any) -> None:
        """The window is gone."""
        if window not in self._windows:
            raise StateError(f"window {window} is not among the windows that are open: {list(self._windows)}")
        del self._windows[window]

    def add(self, new: Any, merge: Merge) -> Any:
        """Add a window, and return the one it has become part of. ``merge`` is told of windows that became one."""
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
            # A record inside a window that is there already changes nothing.
            if group != [cover]:
                merge(cover, group, state_windows[0], state_windows[1:])
        if not joined:
            self._windows[new] = new
        return result


def write_changes(state: Any, stored: dict[Any, Any], windows: dict[Any, Any]) -> None:
    """Make a map state that holds ``stored`` hold ``windows``."""
    for window in stored:
        if window not in windows:
            state.remove(window)
    for window, state_window in windows.items():
        if stored.get(window) != state_window:
            state.put(window, state_window)


class _Merged(MergingWindowAssigner.MergeCallback[Any]):
    """Collects what an assigner wants merged."""

    def __init__(self) -> None:
        self.found: list[tuple[list[Any], Any]] = []

    def merge(self, to_be_merged: Iterable[Any], merge_result: Any) -> None:
        self.found.append((list(dict.fromkeys(to_be_merged)), merge_result))
