"""Functions that process the records of a window when it fires. Like process functions, they emit by yielding."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, Generic

from tidemill.datastream.functions.base import Function, KeyedStateStore
from tidemill.datastream.functions.type_parameters import CONTEXT_WINDOW, IN, KEY, OUT, WINDOW

__all__ = ["AllWindowFunction", "ProcessAllWindowFunction", "ProcessWindowFunction", "WindowFunction", "WithKey"]


class WindowFunction(Function, Generic[IN, OUT, KEY, WINDOW]):
    """Evaluates a window of one key.

    >>> class Total(WindowFunction):
    ...     def apply(self, key, window, inputs):
    ...         yield key, window.end, sum(value for _, value in inputs)
    """

    @abstractmethod
    def apply(self, key: Any, window: Any, inputs: Iterable[Any]) -> Iterable[Any]:
        """Processes the records of a window. Yields the results."""


class WithKey(WindowFunction):
    """Emits each value of a window as a pair of key and value."""

    def apply(self, key: Any, window: Any, inputs: Iterable[Any]) -> Iterable[Any]:
        return [(key, value) for value in inputs]


class AllWindowFunction(Function, Generic[IN, OUT, WINDOW]):
    """Evaluates a window of a non-keyed stream."""

    @abstractmethod
    def apply(self, window: Any, inputs: Iterable[Any]) -> Iterable[Any]:
        """Processes the records of a window. Yields the results."""


class WindowContext(ABC):
    """Information about the evaluated window, and access to its state."""

    @abstractmethod
    def window(self) -> Any:
        """The window."""

    @abstractmethod
    def current_processing_time(self) -> int:
        """The current processing time."""

    @abstractmethod
    def current_watermark(self) -> int:
        """The current watermark."""

    @abstractmethod
    def window_state(self) -> KeyedStateStore:
        """State of this key and window. Remove it in ``clear()``. Not available for merging windows."""

    @abstractmethod
    def global_state(self) -> KeyedStateStore:
        """State of this key, shared by all its windows."""


class ProcessWindowFunction(Function, Generic[IN, OUT, KEY, WINDOW]):
    """Evaluates a window of one key, with access to state and time. ``yield tag, value`` emits to a side output.

    >>> class Count(ProcessWindowFunction):
    ...     def process(self, key, context, elements):
    ...         yield key, context.window().start, len(list(elements))
    """

    class Context(WindowContext, Generic[CONTEXT_WINDOW]):
        """Information about the evaluated window, and access to its state."""

    @abstractmethod
    def process(self, key: Any, context: ProcessWindowFunction.Context, elements: Iterable[Any]) -> Iterable[Any]:
        """Processes the records of a window. Yields the results."""

    def clear(self, context: ProcessWindowFunction.Context) -> None:
        """Called when the window is removed. Clear the state in ``context.window_state()`` here."""


class ProcessAllWindowFunction(Function, Generic[IN, OUT, WINDOW]):
    """Evaluates a window of a non-keyed stream, with access to state and time."""

    class Context(WindowContext, Generic[CONTEXT_WINDOW]):
        """Information about the evaluated window, and access to its state."""

    @abstractmethod
    def process(self, context: ProcessAllWindowFunction.Context, elements: Iterable[Any]) -> Iterable[Any]:
        """Processes the records of a window. Yields the results."""

    def clear(self, context: ProcessAllWindowFunction.Context) -> None:
        """Called when the window is removed. Clear the state in ``context.window_state()`` here."""
