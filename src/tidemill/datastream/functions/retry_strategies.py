"""Retry strategies of asynchronous calls: the interface and the built-in strategies."""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import Any, Generic

from tidemill.datastream.functions.type_parameters import OUT

__all__ = [
    "NO_RETRY_STRATEGY",
    "AsyncRetryPredicate",
    "AsyncRetryStrategy",
    "ExceptionPredicate",
    "ExponentialBackoffDelayRetryStrategy",
    "FixedDelayRetryStrategy",
    "NoRetryStrategy",
    "ResultPredicate",
    "RetryPredicate",
]


#: Returns whether to retry a call, given its results.
ResultPredicate = Callable[[Any], bool]
#: Returns whether to retry a call, given its exception.
ExceptionPredicate = Callable[[Exception], bool]


class AsyncRetryPredicate(abc.ABC, Generic[OUT]):
    """Determines which calls are retried. If a predicate is None, it causes no retries."""

    @abc.abstractmethod
    def result_predicate(self) -> ResultPredicate | None:
        """The predicate on the results of a successful call."""

    @abc.abstractmethod
    def exception_predicate(self) -> ExceptionPredicate | None:
        """The predicate on the exception of a failed call."""


class AsyncRetryStrategy(abc.ABC, Generic[OUT]):
    """Determines how often and after what delays the call for a record is retried.

    Attempts are counted from 1. One strategy object is used for all records concurrently: it must be stateless.

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
        """Whether another attempt is allowed after this number of attempts."""

    @abc.abstractmethod
    def get_backoff_time_millis(self, current_attempts: int) -> int:
        """The delay after this number of attempts, in milliseconds."""

    @abc.abstractmethod
    def get_retry_predicate(self) -> AsyncRetryPredicate:
        """The predicate that determines which calls are retried."""

    @staticmethod
    def no_restart() -> AsyncRetryStrategy:
        """No retries."""
        return NO_RETRY_STRATEGY

    @staticmethod
    def fixed_delay(
        max_attempts: int,
        backoff_time_millis: int,
        result_predicate: ResultPredicate | None,
        exception_predicate: ExceptionPredicate | None,
    ) -> AsyncRetryStrategy:
        """At most ``max_attempts`` retries, each after a delay of ``backoff_time_millis``."""
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
        """At most ``max_attempts`` retries. The delay is multiplied by ``multiplier`` each time, up to a maximum."""
        return ExponentialBackoffDelayRetryStrategy(
            max_attempts, initial_delay, max_retry_delay, multiplier, result_predicate, exception_predicate
        )


class RetryPredicate(AsyncRetryPredicate):
    """A pair of predicates."""

    def __init__(
        self, result_predicate: ResultPredicate | None, exception_predicate: ExceptionPredicate | None
    ) -> None:
        self._result_predicate = result_predicate
        self._exception_predicate = exception_predicate

    def result_predicate(self) -> ResultPredicate | None:
        return self._result_predicate

    def exception_predicate(self) -> ExceptionPredicate | None:
        return self._exception_predicate


class NoRetryStrategy(AsyncRetryStrategy):
    """No retries."""

    def can_retry(self, current_attempts: int) -> bool:
        return False

    def get_backoff_time_millis(self, current_attempts: int) -> int:
        return -1

    def get_retry_predicate(self) -> AsyncRetryPredicate:
        return RetryPredicate(None, None)


class _LimitedRetryStrategy(AsyncRetryStrategy):
    """At most ``max_attempts`` retries."""

    def __init__(
        self,
        max_attempts: int,
        result_predicate: ResultPredicate | None,
        exception_predicate: ExceptionPredicate | None,
    ) -> None:
        self._max_attempts = _positive("max_attempts", max_attempts)
        self._predicate = RetryPredicate(result_predicate, exception_predicate)

    def can_retry(self, current_attempts: int) -> bool:
        return current_attempts <= self._max_attempts

    def get_retry_predicate(self) -> AsyncRetryPredicate:
        return self._predicate


class FixedDelayRetryStrategy(_LimitedRetryStrategy):
    """Retries with a constant delay."""

    def __init__(
        self,
        max_attempts: int,
        backoff_time_millis: int,
        result_predicate: ResultPredicate | None,
        exception_predicate: ExceptionPredicate | None,
    ) -> None:
        super().__init__(max_attempts, result_predicate, exception_predicate)
        self._backoff_time_millis = int(_positive("backoff_time_millis", backoff_time_millis))

    def get_backoff_time_millis(self, current_attempts: int) -> int:
        return self._backoff_time_millis


class ExponentialBackoffDelayRetryStrategy(_LimitedRetryStrategy):
    """Retries with a delay that grows from call to call, up to a maximum."""

    def __init__(
        self,
        max_attempts: int,
        initial_delay: int,
        max_retry_delay: int,
        multiplier: float,
        result_predicate: ResultPredicate | None,
        exception_predicate: ExceptionPredicate | None,
    ) -> None:
        super().__init__(max_attempts, result_predicate, exception_predicate)
        self._initial_delay = _positive("initial_delay", initial_delay)
        self._max_retry_delay = _positive("max_retry_delay", max_retry_delay)
        self._multiplier = _positive("multiplier", multiplier)

    def get_backoff_time_millis(self, current_attempts: int) -> int:
        try:
            delay = self._initial_delay * self._multiplier ** max(current_attempts - 1, 0)
        except OverflowError:  # a float overflows after some hundred attempts
            delay = self._max_retry_delay
        return int(min(delay, self._max_retry_delay))


NO_RETRY_STRATEGY: AsyncRetryStrategy = NoRetryStrategy()


def _positive(name: str, number: float) -> float:
    if not number > 0:
        raise ValueError(f"{name} must be greater than 0, not {number}")
    return number
