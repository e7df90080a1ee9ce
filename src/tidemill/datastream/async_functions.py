"""Functions that wait for other services: many records are on their way at once, none blocks the others."""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterable
from typing import Any, Generic

from tidemill.datastream.function_base import Function
from tidemill.datastream.type_parameters import IN, OUT

#: Tells from the results of a call whether it is to be made again.
ResultPredicate = Callable[[Any], bool]
#: Tells from the exception of a call whether it is to be made again.
ExceptionPredicate = Callable[[Exception], bool]


class AsyncFunction(Function, Generic[IN, OUT]):
    """Asks something outside the job for each record; see :class:`AsyncDataStream`.

    ``async_invoke`` runs on an event loop of the subtask, together with that of other records. All of them share the
    function object and one thread: nothing interrupts the function between two ``await``. It must not block. Clients
    that do (``requests``, ``time.sleep``, most database drivers) belong into ``await asyncio.to_thread(...)``: a
    blocking call stops the calls of all other records too, and its timeout is noticed only when it returns.

    ``open`` and ``close`` run on the same loop, and may be ``async def`` themselves: a client session made in ``open``
    serves all records. There is no keyed state and no timer.

    >>> import asyncio
    >>> class Lookup(AsyncFunction):
    ...     async def async_invoke(self, value):
    ...         await asyncio.sleep(0.001)  # a request
    ...         return [(value, value * value)]
    >>> asyncio.run(Lookup().async_invoke(3))
    [(3, 9)]
    """

    @abc.abstractmethod
    async def async_invoke(self, value: Any) -> Iterable[Any]:
        """The results for one record, any number of them. An exception fails the job, unless it is to be retried."""

    def timeout(self, value: Any) -> Iterable[Any]:
        """The results for a record whose call took too long and was cancelled; raises ``TimeoutError`` by default."""
        raise TimeoutError(
            "async_invoke() took longer than its timeout: allow for more, or override timeout() to give results"
        )


class AsyncRetryPredicate(abc.ABC, Generic[OUT]):
    """Which calls are to be made again; a predicate that is None never says so."""

    @abc.abstractmethod
    def result_predicate(self) -> ResultPredicate | None:
        """Judges the results of a call that returned."""

    @abc.abstractmethod
    def exception_predicate(self) -> ExceptionPredicate | None:
        """Judges the exception of a call that failed."""


class AsyncRetryStrategy(abc.ABC, Generic[OUT]):
    """How often, and how long after each other, the call of a record is made again.

    Attempts count from 1. One strategy serves all records at once: it must keep nothing between calls.

    >>> strategy = AsyncRetryStrategy.exponential_backoff(
    ...     max_attempts=4,
    ...     initial_delay=100,
    ...     max_retry_delay=500,
    ...     multiplier=2.0,
    ...     result_predicate=None,
    ...     exception_predicate=lambda error: isinstance(error, ConnectionError),
    ... )
    >>> [strategy.get_backoff_time_millis(attempt) for attempt in (1, 2, 3, 4)]
    [100, 200, 400, 500]
    """

    @abc.abstractmethod
    def can_retry(self, current_attempts: int) -> bool:
        """Whether there may be another attempt after so many."""

    @abc.abstractmethod
    def get_backoff_time_millis(self, current_attempts: int) -> int:
        """How long to wait after so many attempts."""

    @abc.abstractmethod
    def get_retry_predicate(self) -> AsyncRetryPredicate:
        """Which calls are to be made again."""

    @staticmethod
    def no_restart() -> AsyncRetryStrategy:
        """Each call is made once."""
        from tidemill.datastream.async_retry_strategies import NO_RETRY_STRATEGY

        return NO_RETRY_STRATEGY

    @staticmethod
    def fixed_delay(
        max_attempts: int,
        backoff_time_millis: int,
        result_predicate: ResultPredicate | None,
        exception_predicate: ExceptionPredicate | None,
    ) -> AsyncRetryStrategy:
        """At most ``max_attempts`` more calls, each so long after the one before."""
        from tidemill.datastream.async_retry_strategies import FixedDelayRetryStrategy

        return FixedDelayRetryStrategy(max_attempts, backoff_time_millis, result_predicate, exception_predicate)

    @staticmethod
    def exponential_backoff(
        max_attempts: int,
        initial_delay: int,
        max_retry_delay: int,
        multiplier: float,
        result_predicate: ResultPredicate | None,
        exception_predicate: ExceptionPredicate | None,
    ) -> AsyncRetryStrategy:
        """At most ``max_attempts`` more calls; the delay grows by ``multiplier`` each time, up to a longest one."""
        from tidemill.datastream.async_retry_strategies import ExponentialBackoffDelayRetryStrategy

        return ExponentialBackoffDelayRetryStrategy(
            max_attempts, initial_delay, max_retry_delay, multiplier, result_predicate, exception_predicate
        )
