"""Asynchronous I/O: functions that wait for external systems."""

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
    """Applies an :class:`AsyncFunction` to a keyed or non-keyed stream, for many records concurrently.

    **Capacity.** Each subtask has at most ``capacity`` records in flight. When the limit is reached, the subtask waits.

    **Order.** ``ordered_wait`` emits the results in the order of the records. ``unordered_wait`` emits them as they
    complete. In both cases records and watermarks do not overtake each other, so event time works the same downstream.
    Results have the timestamp of their record.

    **Timeout.** If the call for a record takes longer than ``timeout``, including all attempts, it is cancelled, and
    ``AsyncFunction.timeout`` returns its results or fails the job. 0 means no timeout. The time during which the other
    operators of the task are processing is not counted.

    **Exactly once.** All results of an epoch are complete before its barrier. So no call is in flight when the epoch is
    committed, and there is no state to store or restore. After a failure the records of the epoch are processed again
    and the calls are repeated. Side effects of the function outside the job are at least once.

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
        """Emit results as they complete."""
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
        """Like :meth:`unordered_wait`, with retries according to the strategy."""
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
        """Like :meth:`ordered_wait`, with retries according to the strategy.

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
        raise ValueError(
            "async I/O with retries needs a timeout greater than 0, which limits the total time of all attempts"
        )
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
        raise TypeError(f"async_invoke() of {name} must return its results as a list; it cannot yield them")
    if not inspect.iscoroutinefunction(function.async_invoke):
        raise TypeError(f"async_invoke() of {name} must be declared with 'async def'")
    if inspect.iscoroutinefunction(function.timeout):
        raise TypeError(f"timeout() of {name} must be declared with 'def': there is no time left to wait")


def _check_strategy(retry: Any) -> None:
    if not isinstance(retry, AsyncRetryStrategy):
        raise TypeError(f"async I/O with retries needs an AsyncRetryStrategy, not {type(retry).__name__}")
    if not isinstance(retry.get_retry_predicate(), AsyncRetryPredicate):
        raise TypeError(f"get_retry_predicate() of {type(retry).__name__} must return an AsyncRetryPredicate")
