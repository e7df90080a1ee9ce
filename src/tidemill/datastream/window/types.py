"""Windows: what records are put into. As namespaces of keyed state and of timers they are stored, so they are small
tuples: quick to compare, equal on every worker, and written without pickle.

The names of these classes, with that of this module, are part of stored state.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, NamedTuple, Self

if TYPE_CHECKING:
    from tidemill.datastream.window.assigners import MergingWindowAssigner

__all__ = ["MAX_TIMESTAMP", "CountWindow", "GlobalWindow", "TimeWindow", "Window"]

#: The end of time.
MAX_TIMESTAMP: Final = 2**63 - 1


class Window(ABC):
    """A bucket of records that will be complete at some time.

    A window class of your own must be a NamedTuple, or a frozen dataclass that can be ordered (``order=True``): two
    windows of the same extent are equal, on every worker.
    """

    __slots__ = ()

    @abstractmethod
    def max_timestamp(self) -> int:
        """The largest timestamp that still belongs to the window."""


class _TimeFields(NamedTuple):
    start: int
    end: int


class TimeWindow(_TimeFields, Window):
    """The time from ``start`` (inclusive) to ``end`` (exclusive), in milliseconds.

    Windows are ordered by their start, then by their end.

    >>> window = TimeWindow(0, 5000)
    >>> window.start, window.end, window.max_timestamp()
    (0, 5000, 4999)
    """

    __slots__ = ()

    def max_timestamp(self) -> int:
        """The last millisecond of the window."""
        return self[1] - 1

    def intersects(self, other: TimeWindow) -> bool:
        """Whether the windows have a common time, or touch.

        >>> TimeWindow(0, 5).intersects(TimeWindow(5, 9)), TimeWindow(0, 5).intersects(TimeWindow(6, 9))
        (True, False)
        """
        return self.start <= other.end and self.end >= other.start

    def cover(self, other: TimeWindow) -> TimeWindow:
        """The smallest window that has both in it.

        >>> TimeWindow(0, 5).cover(TimeWindow(7, 9))
        TimeWindow(start=0, end=9)
        """
        return TimeWindow(min(self.start, other.start), max(self.end, other.end))

    @staticmethod
    def get_window_start_with_offset(timestamp: int, offset: int, window_size: int) -> int:
        """The start of the window of this size that a timestamp is in; right for times before 1970 too.

        >>> TimeWindow.get_window_start_with_offset(7, 0, 5), TimeWindow.get_window_start_with_offset(-1, 0, 5)
        (5, -5)
        """
        return timestamp - (timestamp - offset) % window_size

    @staticmethod
    def merge_windows(windows: Iterable[TimeWindow], callback: MergingWindowAssigner.MergeCallback[TimeWindow]) -> None:
        """Tell the callback of each group of windows that overlap or touch, in the order of time."""
        group: list[TimeWindow] = []
        cover: TimeWindow | None = None
        for window in sorted(windows):
            if cover is not None and cover.intersects(window):
                cover = cover.cover(window)
                group.append(window)
            else:
                if cover is not None and len(group) > 1:
                    callback.merge(group, cover)
                cover, group = window, [window]
        if cover is not None and len(group) > 1:
            callback.merge(group, cover)

    def __repr__(self) -> str:
        return f"TimeWindow(start={self.start}, end={self.end})"


class _CountFields(NamedTuple):
    id: int


class CountWindow(_CountFields, Window):
    """The window of a number of records, told apart from others by its number.

    >>> CountWindow(3)
    CountWindow(id=3)
    """

    __slots__ = ()

    def max_timestamp(self) -> int:
        """The end of time: a count window has no extent in time."""
        return MAX_TIMESTAMP

    def __repr__(self) -> str:
        return f"CountWindow(id={self.id})"


class _NoFields(NamedTuple):
    pass


class GlobalWindow(_NoFields, Window):
    """The one window that all records are in.

    >>> GlobalWindow.get() == GlobalWindow()
    True
    """

    __slots__ = ()

    @classmethod
    def get(cls) -> Self:
        """The window."""
        return cls()

    def max_timestamp(self) -> int:
        """The end of time."""
        return MAX_TIMESTAMP

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        return "GlobalWindow"
