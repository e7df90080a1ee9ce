"""Windows, to which records are assigned.

Windows are stored as namespaces of keyed state and timers. So they are small tuples, which are fast to compare, equal
on every worker, and stored without pickle. The names of these classes and of this module are part of stored state.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, NamedTuple

from tidemill.python_versions import Self

if TYPE_CHECKING:
    from tidemill.datastream.window.assigners import MergingWindowAssigner

__all__ = ["MAX_TIMESTAMP", "CountWindow", "GlobalWindow", "TimeWindow", "Window"]

#: The maximum timestamp.
MAX_TIMESTAMP: Final = 2**63 - 1


class Window(ABC):
    """A finite group of records.

    A user-defined window class must be a NamedTuple, or a frozen dataclass that can be ordered (``order=True``), so
    that two windows with the same bounds are equal on every worker.
    """

    __slots__ = ()

    @abstractmethod
    def max_timestamp(self) -> int:
        """The largest timestamp that still belongs to the window."""


class _TimeFields(NamedTuple):
    start: int
    end: int


class TimeWindow(_TimeFields, Window):
    """The time interval from ``start`` (inclusive) to ``end`` (exclusive), in milliseconds.

    Windows are ordered by their start, then by their end.

    >>> window = TimeWindow(0, 5000)
    >>> window.start, window.end, window.max_timestamp()
    (0, 5000, 4999)
    """

    __slots__ = ()

    def max_timestamp(self) -> int:
        """The last millisecond of the window. A window that ends after the maximum timestamp has that one."""
        return min(self[1] - 1, MAX_TIMESTAMP)

    def intersects(self, other: TimeWindow) -> bool:
        """Whether the windows overlap or are adjacent.

        >>> TimeWindow(0, 5).intersects(TimeWindow(5, 9)), TimeWindow(0, 5).intersects(TimeWindow(6, 9))
        (True, False)
        """
        return self.start <= other.end and self.end >= other.start

    def cover(self, other: TimeWindow) -> TimeWindow:
        """The smallest window that contains both windows.

        >>> TimeWindow(0, 5).cover(TimeWindow(7, 9))
        TimeWindow(start=0, end=9)
        """
        return TimeWindow(min(self.start, other.start), max(self.end, other.end))

    @staticmethod
    def get_window_start_with_offset(timestamp: int, offset: int, window_size: int) -> int:
        """The start of the window that contains a timestamp. Also correct for times before 1970.

        >>> TimeWindow.get_window_start_with_offset(7, 0, 5), TimeWindow.get_window_start_with_offset(-1, 0, 5)
        (5, -5)
        """
        return timestamp - (timestamp - offset) % window_size

    @staticmethod
    def merge_windows(windows: Iterable[TimeWindow], callback: MergingWindowAssigner.MergeCallback[TimeWindow]) -> None:
        """Call the callback for each group of overlapping or adjacent windows, ordered by time."""
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
    """A window with a fixed number of records, identified by its id.

    >>> CountWindow(3)
    CountWindow(id=3)
    """

    __slots__ = ()

    def max_timestamp(self) -> int:
        """The maximum timestamp, because a count window has no end in time."""
        return MAX_TIMESTAMP

    def __repr__(self) -> str:
        return f"CountWindow(id={self.id})"


class _NoFields(NamedTuple):
    pass


class GlobalWindow(_NoFields, Window):
    """The window that contains all records.

    >>> GlobalWindow.get() == GlobalWindow()
    True
    """

    __slots__ = ()

    @classmethod
    def get(cls) -> Self:
        """Returns the window."""
        return cls()

    def max_timestamp(self) -> int:
        """The maximum timestamp."""
        return MAX_TIMESTAMP

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        return "GlobalWindow"
