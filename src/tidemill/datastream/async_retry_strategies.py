"""The strategies behind the factory methods of :class:`AsyncRetryStrategy`."""

from __future__ import annotations

from tidemill.datastream.async_functions import (
    AsyncRetryPredicate,
    AsyncRetryStrategy,
    ExceptionPredicate,
    ResultPredicate,
)

__all__ = [
    "NO_RETRY_STRATEGY",
    "ExponentialBackoffDelayRetryStrategy",
    "FixedDelayRetryStrategy",
    "NoRetryStrategy",
    "RetryPredicate",
]


class RetryPredicate(AsyncRetryPredicate):
    """Two predicates as they were given."""

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
    """Each call is made once."""

    def can_retry(self, current_attempts: int) -> bool:
        return False

    def get_backoff_time_millis(self, current_attempts: int) -> int:
        return -1

    def get_retry_predicate(self) -> AsyncRetryPredicate:
        return RetryPredicate(None, None)


class _LimitedRetryStrategy(AsyncRetryStrategy):
    """At most ``max_attempts`` calls after the first one."""

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
    """The same delay before each further call."""

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
    """A delay that grows from call to call, up to a longest one."""

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
        except OverflowError:  # of a float, after some hundred attempts
            delay = self._max_retry_delay
        return int(min(delay, self._max_retry_delay))


NO_RETRY_STRATEGY: AsyncRetryStrategy = NoRetryStrategy()


def _positive(name: str, number: float) -> float:
    if not number > 0:
        raise ValueError(f"{name} must be greater than 0, not {number}")
    return number
