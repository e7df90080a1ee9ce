"""What is done with the records of a window when it fires. Functions emit by yielding, as process functions do."""

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
        """Take the records of a window; yield what they give."""


class WithKey(WindowFunction):
    """Puts the key before what a window holds."""

    def apply(self, key: Any, window: Any, inputs: Iterable[Any]) -> Iterable[Any]:
        return [(key, value) for value in inputs]


class AllWindowFunction(Function, Generic[IN, OUT, WINDOW]):
    """Evaluates a window of a stream that is not keyed."""

    @abstractmethod
    def apply(self, window: Any, inputs: Iterable[Any]) -> Iterable[Any]:
        """Take the records of a window; yield what they give."""


class WindowContext(ABC):
    """What is known about the window that is evaluated, and its state."""

    @abstractmethod
    def window(self) -> Any:
        """The window."""

    @abstractmethod
    def current_processing_time(self) -> int:
        """The processing time."""

    @abstractmethod
    def current_watermark(self) -> int:
        """The event time."""

    @abstractmethod
    def window_state(self) -> KeyedStateStore:
        """State of this key and window, to be removed in ``clear()``. Windows that merge have none."""

    @abstractmethod
    def global_state(self) -> KeyedStateStore:
        """State of this key, for all its windows."""


class ProcessWindowFunction(Function, Generic[IN, OUT, KEY, WINDOW]):
    """Evaluates a window of one key, with its state and time. ``yield tag, value`` goes to a side output.

    >>> class Count(ProcessWindowFunction):
    ...     def process(self, key, context, elements):
    ...         yield key, context.window().start, len(list(elements))
    """

    class Context(WindowContext, Generic[CONTEXT_WINDOW]):
        """What is known about the window that is evaluated, and its state."""

    @abstractmethod
    def process(self, key: Any, context: ProcessWindowFunction.Context, elements: Iterable[Any]) -> Iterable[Any]:
        """Take the records of a window; yield what they give."""

    def clear(self, context: ProcessWindowFunction.Context) -> None:
        """The window is gone: remove what you keep in ``context.window_state()``."""


class ProcessAllWindowFunction(Function, Generic[IN, OUT, WINDOW]):
    """Evaluates a window of a stream that is not keyed, with its state and time."""

    class Context(WindowContext, Generic[CONTEXT_WINDOW]):
        """What is known about the window that is evaluated, and its state."""

    @abstractmethod
    def process(self, context: ProcessAllWindowFunction.Context, elements: Iterable[Any]) -> Iterable[Any]:
        """Take the records of a window; yield what they give."""

    def clear(self, context: ProcessAllWindowFunction.Context) -> None:
        """The window is gone: remove what you keep in ``context.window_state()``."""
