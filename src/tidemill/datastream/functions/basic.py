"""Functions that see one record at a time and nothing else: map, filter, reduce, keys, partitions, sinks."""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterable
from typing import Any

from tidemill.datastream.functions.base import Function


class MapFunction(Function):
    """One record in, one record out.

    >>> class Twice(MapFunction):
    ...     def map(self, value):
    ...         return 2 * value
    >>> Twice().map(21)
    42
    """

    @abc.abstractmethod
    def map(self, value: Any) -> Any:
        """The record that takes the place of ``value``."""


class FlatMapFunction(Function):
    """One record in, any number of records out.

    >>> class Words(FlatMapFunction):
    ...     def flat_map(self, value):
    ...         yield from value.split()
    >>> list(Words().flat_map("to be"))
    ['to', 'be']
    """

    @abc.abstractmethod
    def flat_map(self, value: Any) -> Iterable[Any] | None:
        """The records that take the place of ``value``: yield or return them; None means none."""


class FilterFunction(Function):
    """Keeps the records it returns true for."""

    @abc.abstractmethod
    def filter(self, value: Any) -> bool:
        """Whether ``value`` stays."""


class ReduceFunction(Function):
    """Combines two records of a kind into one; must be associative."""

    @abc.abstractmethod
    def reduce(self, value1: Any, value2: Any) -> Any:
        """``value1``, which came first, and ``value2`` as one. Returns a new value: ``value1`` is state."""


class CallableReduceFunction(ReduceFunction):
    """A plain ``f(a, b)`` as a :class:`ReduceFunction`."""

    def __init__(self, function: Callable[[Any, Any], Any]) -> None:
        self.function = function

    def reduce(self, value1: Any, value2: Any) -> Any:
        """Call the function."""
        return self.function(value1, value2)


class AggregateFunction(Function):
    """Adds records to an accumulator and reads a result from it; the three may have different types.

    >>> class Mean(AggregateFunction):
    ...     def create_accumulator(self):
    ...         return (0, 0)
    ...     def add(self, value, accumulator):
    ...         return accumulator[0] + value, accumulator[1] + 1
    ...     def get_result(self, accumulator):
    ...         return accumulator[0] / accumulator[1]
    ...     def merge(self, acc_a, acc_b):
    ...         return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]
    >>> mean = Mean()
    >>> mean.get_result(mean.add(4, mean.add(2, mean.create_accumulator())))
    3.0
    """

    @abc.abstractmethod
    def create_accumulator(self) -> Any:
        """An accumulator that has seen nothing."""

    @abc.abstractmethod
    def add(self, value: Any, accumulator: Any) -> Any:
        """The accumulator after one more value."""

    @abc.abstractmethod
    def get_result(self, accumulator: Any) -> Any:
        """What the accumulator amounts to."""

    @abc.abstractmethod
    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        """Two accumulators as one; needed for merging windows only."""


class KeySelector(Function):
    """Computes the key of a record: it must depend on the record alone."""

    @abc.abstractmethod
    def get_key(self, value: Any) -> Any:
        """The key of ``value``: immutable, and with a hash that does not change from process to process."""


class NullByteKeySelector(KeySelector):
    """Gives every record the same key."""

    def get_key(self, value: Any) -> Any:
        """Always 0."""
        return 0


class Partitioner(Function):
    """Chooses the subtask a record goes to."""

    @abc.abstractmethod
    def partition(self, key: Any, num_partitions: int) -> int:
        """An index in ``range(num_partitions)``."""


class CoMapFunction(Function):
    """A map over two connected streams; a result of None emits nothing, as in PyFlink."""

    @abc.abstractmethod
    def map1(self, value: Any) -> Any:
        """A record of the first stream."""

    @abc.abstractmethod
    def map2(self, value: Any) -> Any:
        """A record of the second stream."""


class CoFlatMapFunction(Function):
    """A flat map over two connected streams."""

    @abc.abstractmethod
    def flat_map1(self, value: Any) -> Iterable[Any] | None:
        """A record of the first stream."""

    @abc.abstractmethod
    def flat_map2(self, value: Any) -> Iterable[Any] | None:
        """A record of the second stream."""


class SinkFunction(Function):
    """A sink written in Python, called for each record: at least once.

    After a failure the records of the epoch that was running come again: write idempotently, or use a
    :class:`tidemill.connectors.sinks.Sink` with a committer for exactly once.
    """

    class Context(abc.ABC):
        """What is known about the record at hand."""

        @abc.abstractmethod
        def timestamp(self) -> int | None:
            """The record's event timestamp in ms, None if it has none."""

        @abc.abstractmethod
        def current_processing_time(self) -> int:
            """The epoch's processing-time clock in ms."""

        @abc.abstractmethod
        def current_watermark(self) -> int:
            """The event-time clock in ms."""

    @abc.abstractmethod
    def invoke(self, value: Any, context: SinkFunction.Context) -> None:
        """Write one record."""


# Java and Scala programs distinguish functions with open() and close() as "rich"; here every function is.
RichMapFunction = MapFunction
RichFlatMapFunction = FlatMapFunction
RichFilterFunction = FilterFunction
RichReduceFunction = ReduceFunction
RichAggregateFunction = AggregateFunction
RichCoMapFunction = CoMapFunction
RichCoFlatMapFunction = CoFlatMapFunction
RichSinkFunction = SinkFunction
