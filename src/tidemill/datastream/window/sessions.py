"""Session windows: records that are separated by less than a gap belong to one session."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable
from typing import Any

from tidemill.common.time import Length, as_millis
from tidemill.datastream.window.assigners import MergingWindowAssigner, WindowAssigner
from tidemill.datastream.window.trigger import Trigger
from tidemill.datastream.window.triggers import EventTimeTrigger, ProcessingTimeTrigger
from tidemill.datastream.window.types import TimeWindow

__all__ = [
    "DynamicEventTimeSessionWindows",
    "DynamicProcessingTimeSessionWindows",
    "EventTimeSessionWindows",
    "ProcessingTimeSessionWindows",
    "SessionWindowTimeGapExtractor",
]


class SessionWindowTimeGapExtractor(ABC):
    """Extracts the session gap of a record, for gaps that differ from record to record."""

    @abstractmethod
    def extract(self, element: Any) -> int:
        """Returns the gap after a record in milliseconds. It must be greater than 0."""


class _Sessions(MergingWindowAssigner):
    """Assigns a window from the record's time to the end of its gap. Overlapping or adjacent windows are merged."""

    def merge_windows(self, windows: Iterable[Any], callback: MergingWindowAssigner.MergeCallback[Any]) -> None:
        TimeWindow.merge_windows(windows, callback)

    def assign_windows(
        self, element: Any, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> Collection[TimeWindow]:
        start = timestamp if self.is_event_time() else context.get_current_processing_time()
        return (TimeWindow(start, start + self.gap_of(element)),)

    def get_default_trigger(self, env: Any) -> Trigger:
        return EventTimeTrigger() if self.is_event_time() else ProcessingTimeTrigger()

    @abstractmethod
    def gap_of(self, element: Any) -> int:
        """The gap after a record in milliseconds."""


class _FixedGap(_Sessions):
    def __init__(self, session_gap: int) -> None:
        if session_gap <= 0:
            raise ValueError(f"{type(self).__name__} parameters must satisfy 0 < size, not {session_gap} ms")
        self._session_gap = session_gap

    def gap_of(self, element: Any) -> int:
        return self._session_gap

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._session_gap})"


class _DynamicGap(_Sessions):
    def __init__(
        self, session_window_time_gap_extractor: SessionWindowTimeGapExtractor | Callable[[Any], Length]
    ) -> None:
        extractor = session_window_time_gap_extractor
        if not isinstance(extractor, SessionWindowTimeGapExtractor) and not callable(extractor):
            raise TypeError(
                f"{type(self).__name__} needs a SessionWindowTimeGapExtractor or a callable of a record, "
                f"not {type(extractor).__name__}"
            )
        self._extractor = extractor

    def gap_of(self, element: Any) -> int:
        extractor = self._extractor
        found = (
            extractor.extract(element) if isinstance(extractor, SessionWindowTimeGapExtractor) else extractor(element)
        )
        gap = as_millis(found)
        if gap <= 0:
            raise ValueError(f"the gap of a session must be above 0: the extractor returned {gap} ms for {element!r}")
        return gap


class EventTimeSessionWindows(_FixedGap):
    """Session windows by event time. A session ends when there is no record for the length of the gap.

    >>> EventTimeSessionWindows.with_gap(10).assign_windows("x", 5, None)
    (TimeWindow(start=5, end=15),)
    """

    @staticmethod
    def with_gap(size: Length) -> EventTimeSessionWindows:
        """Creates sessions with a fixed gap."""
        return EventTimeSessionWindows(as_millis(size))

    @staticmethod
    def with_dynamic_gap(
        extractor: SessionWindowTimeGapExtractor | Callable[[Any], Length],
    ) -> DynamicEventTimeSessionWindows:
        """Creates sessions with a gap that is extracted from each record.

        >>> EventTimeSessionWindows.with_dynamic_gap(lambda pair: pair[1]).assign_windows(("x", 20), 5, None)
        (TimeWindow(start=5, end=25),)
        """
        return DynamicEventTimeSessionWindows(extractor)

    def is_event_time(self) -> bool:
        return True


class ProcessingTimeSessionWindows(_FixedGap):
    """Session windows by processing time.

    >>> ProcessingTimeSessionWindows.with_gap(10)
    ProcessingTimeSessionWindows(10)
    """

    @staticmethod
    def with_gap(size: Length) -> ProcessingTimeSessionWindows:
        """Creates sessions with a fixed gap."""
        return ProcessingTimeSessionWindows(as_millis(size))

    @staticmethod
    def with_dynamic_gap(
        extractor: SessionWindowTimeGapExtractor | Callable[[Any], Length],
    ) -> DynamicProcessingTimeSessionWindows:
        """Creates sessions with a gap that is extracted from each record."""
        return DynamicProcessingTimeSessionWindows(extractor)

    def is_event_time(self) -> bool:
        return False


class DynamicEventTimeSessionWindows(_DynamicGap):
    """Session windows by event time with a gap that is extracted from each record."""

    @staticmethod
    def with_dynamic_gap(
        extractor: SessionWindowTimeGapExtractor | Callable[[Any], Length],
    ) -> DynamicEventTimeSessionWindows:
        """Creates sessions with a gap that is extracted from each record."""
        return DynamicEventTimeSessionWindows(extractor)

    def is_event_time(self) -> bool:
        return True


class DynamicProcessingTimeSessionWindows(_DynamicGap):
    """Session windows by processing time with a gap that is extracted from each record."""

    @staticmethod
    def with_dynamic_gap(
        extractor: SessionWindowTimeGapExtractor | Callable[[Any], Length],
    ) -> DynamicProcessingTimeSessionWindows:
        """Creates sessions with a gap that is extracted from each record."""
        return DynamicProcessingTimeSessionWindows(extractor)

    def is_event_time(self) -> bool:
        return False
