"""Functions without access to timers or side outputs: map, filter, reduce, aggregate, keys, partitions, sinks."""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterable
from typing import Any

from tidemill.datastream.functions.base import Function
from tidemill.java_gateway import no_java


class MapFunction(Function):
    """Transforms each record into one record.

    >>> class Twice(MapFunction):
    ...     def map(self, value):
    ...         return 2 * value
    >>> Twice().map(21)
    42
    """

    @abc.abstractmethod
    def map(self, value: Any) -> Any:
        """Returns the result for ``value``."""


class FlatMapFunction(Function):
    """Transforms each record into zero or more records.

    >>> class Words(FlatMapFunction):
    ...     def flat_map(self, value):
    ...         yield from value.split()
    >>> list(Words().flat_map("to be"))
    ['to', 'be']
    """

    @abc.abstractmethod
    def flat_map(self, value: Any) -> Iterable[Any] | None:
        """Yields or returns the results for ``value``. None means no results."""


class FilterFunction(Function):
    """Keeps the records for which it returns true."""

    @abc.abstractmethod
    def filter(self, value: Any) -> bool:
        """Whether to keep ``value``."""


class ReduceFunction(Function):
    """Combines two records into one of the same type. Must be associative."""

    @abc.abstractmethod
    def reduce(self, value1: Any, value2: Any) -> Any:
        """Combines ``value1``, the earlier value, with ``value2``. Must return a new value: ``value1`` is state."""


class CallableReduceFunction(ReduceFunction):
    """Wraps a function ``f(a, b)`` as a :class:`ReduceFunction`."""

    def __init__(self, function: Callable[[Any, Any], Any]) -> None:
        self.function = function

    def reduce(self, value1: Any, value2: Any) -> Any:
        """Calls the function."""
        return self.function(value1, value2)


class AggregateFunction(Function):
    """Adds records to an accumulator and computes a result from it. All three may have different types.

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
        """Creates an empty accumulator."""

    @abc.abstractmethod
    def add(self, value: Any, accumulator: Any) -> Any:
        """Adds a value to the accumulator and returns the new accumulator."""

    @abc.abstractmethod
    def get_result(self, accumulator: Any) -> Any:
        """Computes the result from the accumulator."""

    @abc.abstractmethod
    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        """Merges two accumulators. Only needed for merging windows."""


class KeySelector(Function):
    """Computes the key of a record. The key must depend only on the record."""

    @abc.abstractmethod
    def get_key(self, value: Any) -> Any:
        """Returns the key of ``value``. It must be immutable, and its hash must be the same in every process."""


class NullByteKeySelector(KeySelector):
    """Assigns the same key to every record."""

    def get_key(self, value: Any) -> Any:
        """Returns 0."""
        return 0


class Partitioner(Function):
    """Selects the subtask that a record is sent to."""

    @abc.abstractmethod
    def partition(self, key: Any, num_partitions: int) -> int:
        """Returns an index in ``range(num_partitions)``."""


class CoMapFunction(Function):
    """A map over two connected streams. As in PyFlink, a result of None is not emitted."""

    @abc.abstractmethod
    def map1(self, value: Any) -> Any:
        """Called for each record of the first stream."""

    @abc.abstractmethod
    def map2(self, value: Any) -> Any:
        """Called for each record of the second stream."""


class CoFlatMapFunction(Function):
    """A flat map over two connected streams."""

    @abc.abstractmethod
    def flat_map1(self, value: Any) -> Iterable[Any] | None:
        """Called for each record of the first stream."""

    @abc.abstractmethod
    def flat_map2(self, value: Any) -> Iterable[Any] | None:
        """Called for each record of the second stream."""


class SourceFunction(Function):
    """Base class of Flink's older sources, for ``env.add_source``, such as ``FlinkKafkaConsumer``.

    It is not a way to write a source: in PyFlink, it wraps a class in Java. A source of your own is a
    ``tidemill.connectors.sources.SplitSource``.
    """

    def __init__(self, source_func: Any) -> None:
        """Raises ``NotImplementedError``: ``source_func`` is the name of a Java class, or a Java object."""
        no_java(f"SourceFunction({source_func!r})")


class SinkFunction(Function):
    """A sink in Python that is called for each record, with at-least-once semantics.

    After a failure, the records of the running epoch are processed again. Write idempotently, or use a
    :class:`tidemill.connectors.sinks.Sink` with a committer for exactly-once semantics.
    """

    class Context(abc.ABC):
        """Information about the current record."""

        @abc.abstractmethod
        def timestamp(self) -> int | None:
            """The event timestamp of the record in ms, or None if it has none."""

        @abc.abstractmethod
        def current_processing_time(self) -> int:
            """The processing time of the epoch in ms."""

        @abc.abstractmethod
        def current_watermark(self) -> int:
            """The current watermark in ms."""

    @abc.abstractmethod
    def invoke(self, value: Any, context: SinkFunction.Context) -> None:
        """Writes one record."""


# In Java and Scala, functions with open() and close() are called "rich". Here every function is.
RichMapFunction = MapFunction
RichFlatMapFunction = FlatMapFunction
RichFilterFunction = FilterFunction
RichReduceFunction = ReduceFunction
RichAggregateFunction = AggregateFunction
RichCoMapFunction = CoMapFunction
RichCoFlatMapFunction = CoFlatMapFunction
RichSinkFunction = SinkFunction
