"""Window assigners: the interface, and the assigners of fixed windows. Session windows are in ``sessions.py``."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable
from typing import Any, Generic, TypeVar

from tidemill.common.time import Length, as_millis, offset_millis
from tidemill.common.typeinfo import Types
from tidemill.datastream.functions.base import RuntimeContext
from tidemill.datastream.functions.state_descriptors import ValueStateDescriptor
from tidemill.datastream.functions.type_parameters import IN, WINDOW
from tidemill.datastream.window.nested_triggers import PurgingTrigger
from tidemill.datastream.window.trigger import Trigger
from tidemill.datastream.window.triggers import (
    CountTrigger,
    EndOfStreamTrigger,
    EventTimeTrigger,
    NeverTrigger,
    ProcessingTimeTrigger,
)
from tidemill.datastream.window.types import CountWindow, GlobalWindow, TimeWindow

__all__ = [
    "CountSlidingWindowAssigner",
    "CountTumblingWindowAssigner",
    "FixedTimeWindows",
    "GlobalWindows",
    "MergingWindowAssigner",
    "SlidingEventTimeWindows",
    "SlidingProcessingTimeWindows",
    "TumblingEventTimeWindows",
    "TumblingProcessingTimeWindows",
    "WindowAssigner",
]

W = TypeVar("W")


class WindowAssigner(ABC, Generic[IN, WINDOW]):
    """Assigns each record to zero or more windows.

    >>> class Halves(WindowAssigner):
    ...     '''Windows from noon and from midnight.'''
    ...     def assign_windows(self, element, timestamp, context):
    ...         start = timestamp - timestamp % 43_200_000
    ...         return [TimeWindow(start, start + 43_200_000)]
    ...     def get_default_trigger(self, env):
    ...         return EventTimeTrigger()
    ...     def is_event_time(self):
    ...         return True
    >>> Halves().assign_windows("x", 50_000_000, None)
    [TimeWindow(start=43200000, end=86400000)]
    """

    class WindowAssignerContext(ABC):
        """The context of an assigner."""

        @abstractmethod
        def get_current_processing_time(self) -> int:
            """The current processing time."""

        @abstractmethod
        def get_runtime_context(self) -> RuntimeContext:
            """The context of the operator, with the state of the current key."""

    @abstractmethod
    def assign_windows(
        self, element: Any, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> Collection[Any]:
        """Returns the windows of a record."""

    @abstractmethod
    def get_default_trigger(self, env: Any) -> Trigger:
        """The trigger that is used if the program sets none."""

    def get_window_serializer(self) -> Any:
        """Unused. It exists because custom assigners for PyFlink implement it."""
        return None

    @abstractmethod
    def is_event_time(self) -> bool:
        """Whether windows end by event time. Only then can records be late."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class MergingWindowAssigner(WindowAssigner[IN, WINDOW]):
    """An assigner whose windows can be merged."""

    class MergeCallback(ABC, Generic[W]):
        """Receives the windows to merge."""

        @abstractmethod
        def merge(self, to_be_merged: Iterable[W], merge_result: W) -> None:
            """Merges the windows ``to_be_merged`` into ``merge_result``."""

    @abstractmethod
    def merge_windows(self, windows: Iterable[Any], callback: MergingWindowAssigner.MergeCallback[Any]) -> None:
        """Determine which windows of a key are merged, and call the callback with them."""


class FixedTimeWindows(WindowAssigner):
    """Base class of the tumbling and sliding assigners: windows of fixed size that start at multiples of a slide."""

    def __init__(self, size: int, slide: int, offset: int) -> None:
        self.size = size
        self.slide = slide
        self.offset = offset

    def windows_at(self, timestamp: int) -> list[TimeWindow]:
        """The windows that contain a timestamp, latest first."""
        last = timestamp - (timestamp - self.offset) % self.slide
        return [TimeWindow(start, start + self.size) for start in range(last, timestamp - self.size, -self.slide)]

    def assign_windows(
        self, element: Any, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> Collection[TimeWindow]:
        return self.windows_at(timestamp if self.is_event_time() else context.get_current_processing_time())

    def get_default_trigger(self, env: Any) -> Trigger:
        return EventTimeTrigger() if self.is_event_time() else ProcessingTimeTrigger()


class _Tumbling(FixedTimeWindows):
    def __init__(self, size: int, offset: int = 0) -> None:
        if size <= 0 or abs(offset) >= size:
            raise ValueError(
                f"{type(self).__name__} parameters must satisfy abs(offset) < size and size > 0, not size {size} ms, "
                f"offset {offset} ms"
            )
        super().__init__(size, size, offset)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.size}, {self.offset})"


class _Sliding(FixedTimeWindows):
    def __init__(self, size: int, slide: int, offset: int = 0) -> None:
        if size <= 0 or slide <= 0 or abs(offset) >= slide:
            raise ValueError(
                f"{type(self).__name__} parameters must satisfy abs(offset) < slide and size > 0, "
                f"not size {size} ms, slide {slide} ms, offset {offset} ms"
            )
        super().__init__(size, slide, offset)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.size}, {self.slide}, {self.offset})"


class TumblingEventTimeWindows(_Tumbling):
    """Tumbling windows by event time: consecutive windows of fixed size.

    The offset shifts the start of the windows: ``of(Time.days(1), Time.hours(-8))`` are the days of UTC+8.

    >>> from tidemill.common import Time
    >>> TumblingEventTimeWindows.of(Time.seconds(5)).windows_at(12_000)
    [TimeWindow(start=10000, end=15000)]
    """

    @staticmethod
    def of(size: Length, offset: Length | None = 0) -> TumblingEventTimeWindows:
        """Creates windows of a fixed size, shifted by an offset."""
        return TumblingEventTimeWindows(as_millis(size), offset_millis(offset))

    def is_event_time(self) -> bool:
        return True


class TumblingProcessingTimeWindows(_Tumbling):
    """Tumbling windows by processing time: consecutive windows of fixed size.

    All records of an epoch have the same processing time.

    >>> from tidemill.common import Time
    >>> TumblingProcessingTimeWindows.of(Time.seconds(5), Time.seconds(1))
    TumblingProcessingTimeWindows(5000, 1000)
    """

    @staticmethod
    def of(size: Length, offset: Length | None = 0) -> TumblingProcessingTimeWindows:
        """Creates windows of a fixed size, shifted by an offset."""
        return TumblingProcessingTimeWindows(as_millis(size), offset_millis(offset))

    def is_event_time(self) -> bool:
        return False


class SlidingEventTimeWindows(_Sliding):
    """Sliding windows by event time: windows of fixed size, one of which starts at every slide. They may overlap.

    >>> from tidemill.common import Time
    >>> SlidingEventTimeWindows.of(Time.milliseconds(10), Time.milliseconds(5)).windows_at(7)
    [TimeWindow(start=5, end=15), TimeWindow(start=0, end=10)]
    """

    @staticmethod
    def of(size: Length, slide: Length, offset: Length | None = 0) -> SlidingEventTimeWindows:
        """Creates windows of a fixed size that start at every slide, shifted by an offset."""
        return SlidingEventTimeWindows(as_millis(size), as_millis(slide), offset_millis(offset))

    def is_event_time(self) -> bool:
        return True


class SlidingProcessingTimeWindows(_Sliding):
    """Sliding windows by processing time: windows of fixed size, one of which starts at every slide. They may overlap.

    >>> from tidemill.common import Time
    >>> SlidingProcessingTimeWindows.of(Time.seconds(10), Time.seconds(5))
    SlidingProcessingTimeWindows(10000, 5000, 0)
    """

    @staticmethod
    def of(size: Length, slide: Length, offset: Length | None = 0) -> SlidingProcessingTimeWindows:
        """Creates windows of a fixed size that start at every slide, shifted by an offset."""
        return SlidingProcessingTimeWindows(as_millis(size), as_millis(slide), offset_millis(offset))

    def is_event_time(self) -> bool:
        return False


class GlobalWindows(WindowAssigner):
    """Assigns all records of a key to one window. The window never ends, so it needs a trigger.

    >>> GlobalWindows.create().get_default_trigger(None)
    NeverTrigger()
    """

    def __init__(self, default_trigger: Trigger | None = None) -> None:
        self._default_trigger = default_trigger or NeverTrigger()

    @staticmethod
    def create() -> GlobalWindows:
        """Creates the assigner. Without a trigger it never emits results."""
        return GlobalWindows()

    @staticmethod
    def create_with_end_of_stream_trigger() -> GlobalWindows:
        """Creates the assigner with a trigger that fires when all input has ended."""
        return GlobalWindows(EndOfStreamTrigger())

    def assign_windows(
        self, element: Any, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> Collection[GlobalWindow]:
        return (GlobalWindow(),)

    def get_default_trigger(self, env: Any) -> Trigger:
        return self._default_trigger

    def is_event_time(self) -> bool:
        return False


class _CountAssigner(WindowAssigner):
    """Numbers the records of each key. A full window receives no more records, so it is purged when it fires."""

    def __init__(self, size: int, slide: int, state: str) -> None:
        if size < 1 or slide < 1:
            raise ValueError(f"{type(self).__name__}: size and slide must be at least 1, not {size} and {slide}")
        self._size = size
        self._slide = slide
        self._count = ValueStateDescriptor(state, Types.LONG(), default_value=0)

    def assign_windows(
        self, element: Any, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> Collection[CountWindow]:
        state = context.get_runtime_context().get_state(self._count)
        number = state.value()
        state.update(number + 1)
        first = max(0, (number - self._size) // self._slide + 1)
        return [CountWindow(window) for window in range(number // self._slide, first - 1, -1)]

    def get_default_trigger(self, env: Any) -> Trigger:
        return PurgingTrigger(CountTrigger(self._size))

    def is_event_time(self) -> bool:
        return False


class CountTumblingWindowAssigner(_CountAssigner):
    """Tumbling windows with a fixed number of records.

    >>> CountTumblingWindowAssigner.of(3)
    CountTumblingWindowAssigner(3)
    """

    def __init__(self, window_size: int) -> None:
        super().__init__(window_size, window_size, "tumble-count-assigner")

    @staticmethod
    def of(window_size: int) -> CountTumblingWindowAssigner:
        """Creates windows of ``window_size`` records."""
        return CountTumblingWindowAssigner(window_size)

    def __repr__(self) -> str:
        return f"CountTumblingWindowAssigner({self._size})"


class CountSlidingWindowAssigner(_CountAssigner):
    """Sliding windows with a fixed number of records, one of which starts at every slide. Only full windows fire.

    >>> CountSlidingWindowAssigner.of(4, 2)
    CountSlidingWindowAssigner(4, 2)
    """

    def __init__(self, window_size: int, window_slide: int) -> None:
        super().__init__(window_size, window_slide, "slide-count-assigner")

    @staticmethod
    def of(window_size: int, window_slide: int) -> CountSlidingWindowAssigner:
        """Creates windows of ``window_size`` records that start every ``window_slide`` records."""
        return CountSlidingWindowAssigner(window_size, window_slide)

    def __repr__(self) -> str:
        return f"CountSlidingWindowAssigner({self._size}, {self._slide})"
