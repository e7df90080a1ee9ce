"""Adds functions to a stream that wait for something outside the job."""

from __future__ import annotations

import inspect
from typing import Any

from tidemill.common.time import Length, as_millis
from tidemill.datastream.functions.asynchronous import AsyncFunction
from tidemill.datastream.functions.retry_strategies import (
    NO_RETRY_STRATEGY,
    AsyncRetryPredicate,
    AsyncRetryStrategy,
    NoRetryStrategy,
)
from tidemill.datastream.functions.state_descriptors import TypeSpec
from tidemill.datastream.program.specs import AsyncWaitSpec
from tidemill.datastream.program.type_hints import output_type as type_of_output
from tidemill.datastream.streams.data_stream import DataStream

__all__ = ["AsyncDataStream"]


class AsyncDataStream:
    """Applies an :class:`AsyncFunction` to a stream, keyed or not: requests to many records' services at once.

    **How many.** Each subtask has at most ``capacity`` records on their way. If there are more, the subtask waits.

    **Order.** ``ordered_wait`` emits the results in the order of the records. ``unordered_wait`` emits them as they
    come; but a record never overtakes a watermark nor is overtaken by one, so event time means the same behind both.
    Results have the timestamp of their record.

    **Time.** A record that takes longer than ``timeout``, all attempts together, is cancelled, and
    ``AsyncFunction.timeout`` gives its results or fails the job. 0 is no timeout. The time does not count while the
    other operators of the task are at work.

    **Exactly once.** All results of an epoch are there before its barrier. So nothing is on its way when the epoch is
    committed, and there is no state to keep or to restore: after a failure the epoch's records come again, and are
    asked for again. What the function changes outside the job happens at least once.

    >>> import asyncio
    >>> from tidemill.common import Configuration, Time
    >>> from tidemill.datastream import AsyncDataStream, AsyncFunction, StreamExecutionEnvironment
    >>> class Sleep(AsyncFunction):
    ...     async def async_invoke(self, value):
    ...         await asyncio.sleep(value / 1000)
    ...         return [value]
    >>> local = Configuration.from_dict({"execution.target": "local", "parallelism.default": 1})
    >>> env = StreamExecutionEnvironment.get_execution_environment(local)
    >>> for wait in (AsyncDataStream.ordered_wait, AsyncDataStream.unordered_wait):
    ...     slept = wait(env.from_collection([60, 30, 0]), Sleep(), Time.seconds(10))
    ...     print(list(slept.execute_and_collect()))
    [60, 30, 0]
    [0, 30, 60]
    """

    @staticmethod
    def unordered_wait(
        data_stream: DataStream,
        async_function: AsyncFunction,
        timeout: Length,
        capacity: int = 100,
        output_type: TypeSpec = None,
    ) -> DataStream:
        """Emit results as they come."""
        return AsyncDataStream.unordered_wait_with_retry(
            data_stream, async_function, timeout, NO_RETRY_STRATEGY, capacity, output_type
        )

    @staticmethod
    def unordered_wait_with_retry(
        data_stream: DataStream,
        async_function: AsyncFunction,
        timeout: Length,
        async_retry_strategy: AsyncRetryStrategy,
        capacity: int = 100,
        output_type: TypeSpec = None,
    ) -> DataStream:
        """As :meth:`unordered_wait`; calls that the strategy finds wanting are made again."""
        return _wait(data_stream, async_function, timeout, async_retry_strategy, capacity, output_type, in_order=False)

    @staticmethod
    def ordered_wait(
        data_stream: DataStream,
        async_function: AsyncFunction,
        timeout: Length,
        capacity: int = 100,
        output_type: TypeSpec = None,
    ) -> DataStream:
        """Emit results in the order of their records."""
        return AsyncDataStream.ordered_wait_with_retry(
            data_stream, async_function, timeout, NO_RETRY_STRATEGY, capacity, output_type
        )

    @staticmethod
    def ordered_wait_with_retry(
        data_stream: DataStream,
        async_function: AsyncFunction,
        timeout: Length,
        async_retry_strategy: AsyncRetryStrategy,
        capacity: int = 100,
        output_type: TypeSpec = None,
    ) -> DataStream:
        """As :meth:`ordered_wait`; calls that the strategy finds wanting are made again.

        >>> from tidemill.common import Configuration, Time
        >>> from tidemill.datastream import AsyncDataStream, AsyncFunction, AsyncRetryStrategy
        >>> from tidemill.datastream import StreamExecutionEnvironment
        >>> class SecondTry(AsyncFunction):
        ...     def open(self, runtime_context):
        ...         self.asked = set()
        ...     async def async_invoke(self, value):
        ...         if value not in self.asked:
        ...             self.asked.add(value)
        ...             raise ConnectionError("try again")
        ...         return [value]
        >>> strategy = AsyncRetryStrategy.fixed_delay(3, 1, None, lambda error: isinstance(error, ConnectionError))
        >>> local = Configuration.from_dict({"execution.target": "local", "parallelism.default": 1})
        >>> env = StreamExecutionEnvironment.get_execution_environment(local)
        >>> numbers = env.from_collection([1, 2])
        >>> tried = AsyncDataStream.ordered_wait_with_retry(numbers, SecondTry(), Time.seconds(10), strategy)
        >>> list(tried.execute_and_collect())
        [1, 2]
        """
        return _wait(data_stream, async_function, timeout, async_retry_strategy, capacity, output_type, in_order=True)


def _wait(
    stream: DataStream,
    function: AsyncFunction,
    timeout: Length,
    retry: AsyncRetryStrategy,
    capacity: int,
    output_type: TypeSpec,
    *,
    in_order: bool,
) -> DataStream:
    if not isinstance(stream, DataStream):
        raise TypeError(f"async I/O needs a DataStream, not {type(stream).__name__}")
    _check_function(function)
    timeout_ms = max(as_millis(timeout), 0)
    if capacity < 1:
        raise ValueError(f"the capacity of async I/O must be at least 1, not {capacity}")
    _check_strategy(retry)
    retries = not isinstance(retry, NoRetryStrategy)
    if retries and timeout_ms == 0:
        raise ValueError("async I/O with retries needs a timeout greater than 0: it bounds all attempts together")
    return stream._transform(
        "async wait operator",
        AsyncWaitSpec(function, timeout_ms, capacity, in_order, retry if retries else None),
        type_of_output(output_type, function, "async_invoke", many=True),
    )


def _check_function(function: Any) -> None:
    if not isinstance(function, AsyncFunction):
        kind = f"the class {function.__name__}" if isinstance(function, type) else type(function).__name__
        raise TypeError(f"async I/O needs an AsyncFunction object, not {kind}")
    name = type(function).__name__
    if inspect.isasyncgenfunction(function.async_invoke):
        raise TypeError(f"async_invoke() of {name} must return its results as a list, it cannot yield them")
    if not inspect.iscoroutinefunction(function.async_invoke):
        raise TypeError(f"async_invoke() of {name} must be declared with 'async def'")
    if inspect.iscoroutinefunction(function.timeout):
        raise TypeError(f"timeout() of {name} must be declared with 'def': there is no time left to wait")


def _check_strategy(retry: Any) -> None:
    if not isinstance(retry, AsyncRetryStrategy):
        raise TypeError(f"async I/O with retries needs an AsyncRetryStrategy, not {type(retry).__name__}")
    if not isinstance(retry.get_retry_predicate(), AsyncRetryPredicate):
        raise TypeError(f"get_retry_predicate() of {type(retry).__name__} must return an AsyncRetryPredicate")
