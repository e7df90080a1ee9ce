"""Functions that join records of two streams within a time interval or a window."""

from __future__ import annotations

import abc
from collections.abc import Iterable
from typing import Any

from tidemill.datastream.functions.base import Function

__all__ = ["CoGroupFunction", "FlatJoinFunction", "JoinFunction", "ProcessJoinFunction"]


class ProcessJoinFunction(Function):
    """Processes each pair of an interval join. Emits by yielding; ``yield tag, value`` emits to a side output.

    It may use keyed state but not timers.

    >>> class Delay(ProcessJoinFunction):
    ...     def process_element(self, left, right, ctx):
    ...         yield left, right, ctx.get_right_timestamp() - ctx.get_left_timestamp()
    """

    class Context(abc.ABC):
        """Information about the current pair."""

        @abc.abstractmethod
        def get_left_timestamp(self) -> int:
            """The event timestamp of the record of the first stream."""

        @abc.abstractmethod
        def get_right_timestamp(self) -> int:
            """The event timestamp of the record of the second stream."""

        @abc.abstractmethod
        def get_timestamp(self) -> int:
            """The event timestamp of the results, which is the later of the two."""

    @abc.abstractmethod
    def process_element(self, left: Any, right: Any, ctx: ProcessJoinFunction.Context) -> Iterable[Any] | None:
        """Processes one pair. Yields the results."""


class JoinFunction(Function):
    """Returns one result for each pair of records in a window. A callable of two records may be used instead.

    >>> class Both(JoinFunction):
    ...     def join(self, first, second):
    ...         return first, second
    >>> Both().join(1, 2)
    (1, 2)
    """

    @abc.abstractmethod
    def join(self, first: Any, second: Any) -> Any:
        """Returns the result for a pair."""


class FlatJoinFunction(Function):
    """Emits zero or more results for each pair of records in a window.

    >>> class Ordered(FlatJoinFunction):
    ...     def join(self, first, second):
    ...         if first < second:
    ...             yield first, second
    >>> list(Ordered().join(1, 2)), list(Ordered().join(2, 1))
    ([(1, 2)], [])
    """

    @abc.abstractmethod
    def join(self, first: Any, second: Any) -> Iterable[Any] | None:
        """Processes one pair. Yields the results."""


class CoGroupFunction(Function):
    """Called once for each key and window with all records of both streams. One side may be empty.

    >>> class Outer(CoGroupFunction):
    ...     def co_group(self, first, second):
    ...         rights = list(second) or [None]
    ...         yield from ((left, right) for left in first for right in rights)
    >>> list(Outer().co_group([1, 2], []))
    [(1, None), (2, None)]
    """

    @abc.abstractmethod
    def co_group(self, first: Iterable[Any], second: Iterable[Any]) -> Iterable[Any] | None:
        """Processes the records of a window, each side in order of arrival. Yields the results."""
