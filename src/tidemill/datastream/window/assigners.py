"""Which windows a record goes into: the contract, and the assigners of fixed windows. Sessions: window_sessions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable
from typing import Any, Generic, TypeVar

from tidemill.common.time import Length, as_millis
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
    """Puts each record into any number of windows.

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
        """What an assigner may ask for."""

        @abstractmethod
        def get_current_processing_time(self) -> int:
            """The processing time."""

        @abstractmethod
        def get_runtime_context(self) -> RuntimeContext:
            """The context of the operator, with the state of the current key."""

    @abstractmethod
    def assign_windows(
        self, element: Any, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> Collection[Any]:
        """The windows of a record."""

    @abstractmethod
    def get_default_trigger(self, env: Any) -> Trigger:
        """The trigger that is used where the program gives none."""

    def get_window_serializer(self) -> Any:
        """Not used: windows are stored in a form of their own. PyFlink's custom assigners have this method."""
        return None

    @abstractmethod
    def is_event_time(self) -> bool:
        """Whether windows end by event time: only then records can be late."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class MergingWindowAssigner(WindowAssigner[IN, WINDOW]):
    """An assigner whose windows can become one."""

    class MergeCallback(ABC, Generic[W]):
        """Is told which windows merge."""

        @abstractmethod
        def merge(self, to_be_merged: Iterable[W], merge_result: W) -> None:
            """These windows become that one."""

    @abstractmethod
    def merge_windows(self, windows: Iterable[Any], callback: MergingWindowAssigner.MergeCallback[Any]) -> None:
        """Look at all windows of a key, and tell the callback which of them merge."""


class FixedTimeWindows(WindowAssigner):
    """Windows of one size that begin at multiples of a slide, moved by an offset: what the four assigners share."""

    def __init__(self, size: int, slide: int, offset: int) -> None:
        self.size = size
        self.slide = slide
        self.offset = offset

    def windows_at(self, timestamp: int) -> list[TimeWindow]:
        """The windows that a time is in, the latest first."""
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
                f"{type(self).__name__}: size must be above 0 and abs(offset) below it, not size {size} ms, "
                f"offset {offset} ms"
            )
        super().__init__(size, size, offset)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.size}, {self.offset})"


class _Sliding(FixedTimeWindows):
    def __init__(self, size: int, slide: int, offset: int = 0) -> None:
        if size <= 0 or slide <= 0 or abs(offset) >= slide:
            raise ValueError(
                f"{type(self).__name__}: size and slide must be above 0 and abs(offset) below the slide, "
                f"not size {size} ms, slide {slide} ms, offset {offset} ms"
            )
        super().__init__(size, slide, offset)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.size}, {self.slide}, {self.offset})"


class TumblingEventTimeWindows(_Tumbling):
    """Windows of one size by event time, one after the other.

    With an offset they begin so much later: ``of(Time.days(1), Time.hours(-8))`` are the days of UTC+8.

    >>> from tidemill.common import Time
    >>> TumblingEventTimeWindows.of(Time.seconds(5)).windows_at(12_000)
    [TimeWindow(start=10000, end=15000)]
    """

    @staticmethod
    def of(size: Length, offset: Length = 0) -> TumblingEventTimeWindows:
        """Windows of a size, moved by an offset."""
        return TumblingEventTimeWindows(as_millis(size), as_millis(offset))

    def is_event_time(self) -> bool:
        return True


class TumblingProcessingTimeWindows(_Tumbling):
    """Windows of one size by processing time, one after the other. All records of an epoch have one processing time.

    >>> from tidemill.common import Time
    >>> TumblingProcessingTimeWindows.of(Time.seconds(5), Time.seconds(1))
    TumblingProcessingTimeWindows(5000, 1000)
    """

    @staticmethod
    def of(size: Length, offset: Length = 0) -> TumblingProcessingTimeWindows:
        """Windows of a size, moved by an offset."""
        return TumblingProcessingTimeWindows(as_millis(size), as_millis(offset))

    def is_event_time(self) -> bool:
        return False


class SlidingEventTimeWindows(_Sliding):
    """Windows of one size by event time, of which one begins at every slide: a record is in several.

    >>> from tidemill.common import Time
    >>> SlidingEventTimeWindows.of(Time.milliseconds(10), Time.milliseconds(5)).windows_at(7)
    [TimeWindow(start=5, end=15), TimeWindow(start=0, end=10)]
    """

    @staticmethod
    def of(size: Length, slide: Length, offset: Length = 0) -> SlidingEventTimeWindows:
        """Windows of a size that begin at every slide, moved by an offset."""
        return SlidingEventTimeWindows(as_millis(size), as_millis(slide), as_millis(offset))

    def is_event_time(self) -> bool:
        return True


class SlidingProcessingTimeWindows(_Sliding):
    """Windows of one size by processing time, of which one begins at every slide: a record is in several.

    >>> from tidemill.common import Time
    >>> SlidingProcessingTimeWindows.of(Time.seconds(10), Time.seconds(5))
    SlidingProcessingTimeWindows(10000, 5000, 0)
    """

    @staticmethod
    def of(size: Length, slide: Length, offset: Length = 0) -> SlidingProcessingTimeWindows:
        """Windows of a size that begin at every slide, moved by an offset."""
        return SlidingProcessingTimeWindows(as_millis(size), as_millis(slide), as_millis(offset))

    def is_event_time(self) -> bool:
        return False


class GlobalWindows(WindowAssigner):
    """One window for all records of a key. It never ends, so it needs a trigger.

    >>> GlobalWindows.create().get_default_trigger(None)
    NeverTrigger()
    """

    def __init__(self, default_trigger: Trigger | None = None) -> None:
        self._default_trigger = default_trigger or NeverTrigger()

    @staticmethod
    def create() -> GlobalWindows:
        """The assigner; without a trigger nothing ever comes out."""
        return GlobalWindows()

    @staticmethod
    def create_with_end_of_stream_trigger() -> GlobalWindows:
        """The assigner, with a trigger that fires when all input has ended."""
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
    """Numbers the records of each key. A window gets no record after it is full, so it is purged when it fires."""

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
    """Windows of so many records each, numbered.

    >>> CountTumblingWindowAssigner.of(3)
    CountTumblingWindowAssigner(3)
    """

    def __init__(self, window_size: int) -> None:
        super().__init__(window_size, window_size, "tumble-count-assigner")

    @staticmethod
    def of(window_size: int) -> CountTumblingWindowAssigner:
        """Windows of a number of records."""
        return CountTumblingWindowAssigner(window_size)

    def __repr__(self) -> str:
        return f"CountTumblingWindowAssigner({self._size})"


class CountSlidingWindowAssigner(_CountAssigner):
    """Windows of so many records each, of which one begins at every slide. Only full windows fire.

    >>> CountSlidingWindowAssigner.of(4, 2)
    CountSlidingWindowAssigner(4, 2)
    """

    def __init__(self, window_size: int, window_slide: int) -> None:
        super().__init__(window_size, window_slide, "slide-count-assigner")

    @staticmethod
    def of(window_size: int, window_slide: int) -> CountSlidingWindowAssigner:
        """Windows of a number of records, that many records apart."""
        return CountSlidingWindowAssigner(window_size, window_slide)

    def __repr__(self) -> str:
        return f"CountSlidingWindowAssigner({self._size}, {self._slide})"
