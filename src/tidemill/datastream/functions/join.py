"""Functions that join records of two streams: pairs within an interval of time, or what meets in a window."""

from __future__ import annotations

import abc
from collections.abc import Iterable
from typing import Any

from tidemill.datastream.functions.base import Function

__all__ = ["CoGroupFunction", "FlatJoinFunction", "JoinFunction", "ProcessJoinFunction"]


class ProcessJoinFunction(Function):
    """Called for each pair of an interval join; yields what the pair gives, ``(tag, value)`` for a side output.

    It may use keyed state, but no timers.

    >>> class Delay(ProcessJoinFunction):
    ...     def process_element(self, left, right, ctx):
    ...         yield left, right, ctx.get_right_timestamp() - ctx.get_left_timestamp()
    """

    class Context(abc.ABC):
        """What is known about the pair at hand."""

        @abc.abstractmethod
        def get_left_timestamp(self) -> int:
            """The event timestamp of the record of the first stream."""

        @abc.abstractmethod
        def get_right_timestamp(self) -> int:
            """The event timestamp of the record of the second stream."""

        @abc.abstractmethod
        def get_timestamp(self) -> int:
            """The event timestamp of what the pair gives: the later of the two."""

    @abc.abstractmethod
    def process_element(self, left: Any, right: Any, ctx: ProcessJoinFunction.Context) -> Iterable[Any] | None:
        """Take one pair; yield what it gives."""


class JoinFunction(Function):
    """One record out for each pair of records that meet in a window; a plain callable of two records does as well.

    >>> class Both(JoinFunction):
    ...     def join(self, first, second):
    ...         return first, second
    >>> Both().join(1, 2)
    (1, 2)
    """

    @abc.abstractmethod
    def join(self, first: Any, second: Any) -> Any:
        """The record for a pair."""


class FlatJoinFunction(Function):
    """Any number of records out for each pair of records that meet in a window.

    >>> class Ordered(FlatJoinFunction):
    ...     def join(self, first, second):
    ...         if first < second:
    ...             yield first, second
    >>> list(Ordered().join(1, 2)), list(Ordered().join(2, 1))
    ([(1, 2)], [])
    """

    @abc.abstractmethod
    def join(self, first: Any, second: Any) -> Iterable[Any] | None:
        """Take one pair; yield what it gives."""


class CoGroupFunction(Function):
    """Called once for each window of a key with all its records of both streams; one side may have none.

    >>> class Outer(CoGroupFunction):
    ...     def co_group(self, first, second):
    ...         rights = list(second) or [None]
    ...         yield from ((left, right) for left in first for right in rights)
    >>> list(Outer().co_group([1, 2], []))
    [(1, None), (2, None)]
    """

    @abc.abstractmethod
    def co_group(self, first: Iterable[Any], second: Iterable[Any]) -> Iterable[Any] | None:
        """Take the records of a window, each side in the order in which they came; yield what they give."""
