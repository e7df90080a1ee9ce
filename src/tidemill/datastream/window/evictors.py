"""Evictors, which remove records from a window when it fires."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple

from tidemill.common.time import Length, as_millis
from tidemill.errors import TypeMismatchError
from tidemill.metrics import MetricGroup

__all__ = ["CountEvictor", "DeltaEvictor", "DeltaFunction", "Evictor", "TimeEvictor", "TimestampedValue"]


class TimestampedValue(NamedTuple):
    """A record of a window with its event timestamp, which is None if the record has none."""

    value: Any
    timestamp: int | None

    def get_value(self) -> Any:
        """The record."""
        return self.value

    def get_timestamp(self) -> int | None:
        """The event timestamp."""
        return self.timestamp

    def has_timestamp(self) -> bool:
        """Whether the record has an event timestamp."""
        return self.timestamp is not None


class Evictor(ABC):
    """Removes records from a window when it fires, before or after the window function is called.

    ``elements`` is a list of :class:`TimestampedValue`, which is modified in place. Removed records are deleted from
    the window permanently. A window with an evictor stores all its records, even for reduce and aggregate.

    >>> class OnlyPositive(Evictor):
    ...     def evict_before(self, elements, size, window, evictor_context):
    ...         elements[:] = [element for element in elements if element.value > 0]
    ...     def evict_after(self, elements, size, window, evictor_context):
    ...         pass
    """

    class EvictorContext(ABC):
        """The context of an evictor."""

        @abstractmethod
        def get_current_processing_time(self) -> int:
            """The current processing time."""

        @abstractmethod
        def get_metric_group(self) -> MetricGroup:
            """The metric group of the operator."""

        @abstractmethod
        def get_current_watermark(self) -> int:
            """The current watermark."""

    @abstractmethod
    def evict_before(
        self, elements: list[TimestampedValue], size: int, window: Any, evictor_context: Evictor.EvictorContext
    ) -> None:
        """Remove records before the window function is called."""

    @abstractmethod
    def evict_after(
        self, elements: list[TimestampedValue], size: int, window: Any, evictor_context: Evictor.EvictorContext
    ) -> None:
        """Remove records after the window function is called."""


class _BuiltIn(Evictor):
    """Base class of evictors that run either before or after the window function."""

    def __init__(self, do_evict_after: bool) -> None:
        self._after = do_evict_after

    def evict_before(
        self, elements: list[TimestampedValue], size: int, window: Any, evictor_context: Evictor.EvictorContext
    ) -> None:
        if not self._after and elements:
            self._evict(elements)

    def evict_after(
        self, elements: list[TimestampedValue], size: int, window: Any, evictor_context: Evictor.EvictorContext
    ) -> None:
        if self._after and elements:
            self._evict(elements)

    @abstractmethod
    def _evict(self, elements: list[TimestampedValue]) -> None:
        """Remove records from a non-empty list."""


class CountEvictor(_BuiltIn):
    """Keeps the last ``max_count`` records.

    >>> elements = [TimestampedValue(n, None) for n in range(5)]
    >>> CountEvictor.of(2).evict_before(elements, 5, None, None)
    >>> [element.value for element in elements]
    [3, 4]
    """

    def __init__(self, max_count: int, do_evict_after: bool = False) -> None:
        super().__init__(do_evict_after)
        if max_count < 0:
            raise ValueError(f"CountEvictor: the count must not be negative, not {max_count}")
        self._max_count = max_count

    @staticmethod
    def of(max_count: int, do_evict_after: bool = False) -> CountEvictor:
        """Creates an evictor that keeps the last ``max_count`` records."""
        return CountEvictor(max_count, do_evict_after)

    def _evict(self, elements: list[TimestampedValue]) -> None:
        if len(elements) > self._max_count:
            del elements[: len(elements) - self._max_count]


class TimeEvictor(_BuiltIn):
    """Keeps the records of the last ``window_size`` of time, relative to the latest timestamp in the window.

    All records are kept if the first one has no timestamp. If the first one has a timestamp, all others need one too.

    >>> elements = [TimestampedValue(n, n) for n in range(0, 50, 10)]
    >>> TimeEvictor.of(20).evict_before(elements, 5, None, None)
    >>> [element.value for element in elements]
    [30, 40]
    """

    def __init__(self, window_size: Length, do_evict_after: bool = False) -> None:
        super().__init__(do_evict_after)
        self._window_size = as_millis(window_size)

    @staticmethod
    def of(window_size: Length, do_evict_after: bool = False) -> TimeEvictor:
        """Creates an evictor that keeps the records of the last ``window_size`` of time."""
        return TimeEvictor(window_size, do_evict_after)

    def _evict(self, elements: list[TimestampedValue]) -> None:
        if elements[0].timestamp is None:
            return
        times = [_time_of(element) for element in elements]
        cutoff = max(times) - self._window_size
        elements[:] = [element for element, time in zip(elements, times, strict=True) if time > cutoff]


def _time_of(element: TimestampedValue) -> int:
    if element.timestamp is None:
        raise TypeMismatchError(
            f"a TimeEvictor needs the timestamp of {element.value!r}, which has none, unlike the first record of its "
            "window: assign timestamps to all streams whose records are in the window"
        )
    return element.timestamp


class DeltaFunction(ABC):
    """The distance between two records."""

    @abstractmethod
    def get_delta(self, old_data_point: Any, new_data_point: Any) -> float:
        """Returns the distance between the records."""


class DeltaEvictor(_BuiltIn):
    """Keeps the records whose distance to the last record is below a threshold.

    >>> elements = [TimestampedValue(n, None) for n in (1, 7, 3, 4)]
    >>> DeltaEvictor.of(3, lambda old, new: abs(old - new)).evict_before(elements, 4, None, None)
    >>> [element.value for element in elements]
    [3, 4]
    """

    def __init__(
        self,
        threshold: float,
        delta_function: DeltaFunction | Callable[[Any, Any], float],
        do_evict_after: bool = False,
    ) -> None:
        super().__init__(do_evict_after)
        self._threshold = threshold
        self._delta_function = delta_function

    @staticmethod
    def of(
        threshold: float,
        delta_function: DeltaFunction | Callable[[Any, Any], float],
        do_evict_after: bool = False,
    ) -> DeltaEvictor:
        """Creates an evictor with a threshold for the distance to the last record."""
        return DeltaEvictor(threshold, delta_function, do_evict_after)

    def _evict(self, elements: list[TimestampedValue]) -> None:
        function, last = self._delta_function, elements[-1].value
        delta = function.get_delta if isinstance(function, DeltaFunction) else function
        elements[:] = [element for element in elements if delta(element.value, last) < self._threshold]
