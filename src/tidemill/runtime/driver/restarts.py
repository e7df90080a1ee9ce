"""Implements restart strategies: whether and when a failed job is restarted. The caller passes the current time.

Times and delays are whole milliseconds, and the arithmetic is the same as in Flink, including rounding.
"""

from __future__ import annotations

import random
from collections import deque
from datetime import timedelta
from typing import Protocol

from tidemill.common.restart_strategy import RestartStrategies, RestartStrategyConfiguration


class Restarts(Protocol):
    """Decides after a failure whether and when to restart."""

    def after_failure(self, now: int) -> int | None:
        """Milliseconds to wait before the restart, or None to fail the job. ``now`` is a monotonic time."""
        ...


class NoRestarts:
    """Never restarts."""

    def after_failure(self, now: int) -> int | None:
        return None


class FixedDelay:
    """A number of restarts, with the same delay before each."""

    def __init__(self, attempts: int, delay: int) -> None:
        self._left = attempts
        self._delay = delay

    def after_failure(self, now: int) -> int | None:
        self._left -= 1
        return self._delay if self._left >= 0 else None


class FailureRate:
    """Restarts while there are at most ``most`` failures in an interval. The interval includes both of its ends."""

    def __init__(self, most: int, interval: int, delay: int) -> None:
        self._most = most
        self._interval = interval
        self._delay = delay
        self._failures: deque[int] = deque()

    def after_failure(self, now: int) -> int | None:
        self._failures.append(now)
        while now - self._failures[0] > self._interval:
            self._failures.popleft()
        return self._delay if len(self._failures) <= self._most else None


class ExponentialDelay:
    """A delay that grows with each failure, and is reset if no failure occurs for some time after the last restart.

    The job fails after more than ``attempts_before_reset_backoff`` failures without a reset.
    """

    def __init__(self, strategy: RestartStrategies.ExponentialDelayRestartStrategyConfiguration) -> None:
        # configuration
        self._initial = _millis(strategy.initial_backoff)
        self._longest = _millis(strategy.max_backoff)
        self._multiplier = strategy.backoff_multiplier
        self._quiet = _millis(strategy.reset_backoff_threshold)
        self._jitter = strategy.jitter_factor
        self._most = strategy.attempts_before_reset_backoff
        # transient
        self._failures = 0
        self._restarted: int | None = None

    def after_failure(self, now: int) -> int | None:
        # A failure before the scheduled restart counts as part of the previous failure.
        if self._restarted is None or now > self._restarted:
            if self._restarted is not None and now - self._restarted >= self._quiet:
                self._failures = 0
            self._restarted = now + self._delay()
            self._failures += 1
        return self._restarted - now if self._failures <= self._most else None

    def _delay(self) -> int:
        try:
            delay = int(self._initial * self._multiplier**self._failures)
        except OverflowError:
            delay = self._longest
        spread = int(delay * self._jitter)
        return max(self._initial, min(delay + random.randint(-spread, spread), self._longest))


def restarts_for(strategy: RestartStrategyConfiguration) -> Restarts:
    """The implementation of a strategy, for one execution of a job."""
    if isinstance(strategy, RestartStrategies.FixedDelayRestartStrategyConfiguration):
        return FixedDelay(strategy.restart_attempts, _millis(strategy.delay_between_attempts_interval))
    if isinstance(strategy, RestartStrategies.FailureRateRestartStrategyConfiguration):
        return FailureRate(
            strategy.max_failure_rate,
            _millis(strategy.failure_interval),
            _millis(strategy.delay_between_attempts_interval),
        )
    if isinstance(strategy, RestartStrategies.ExponentialDelayRestartStrategyConfiguration):
        return ExponentialDelay(strategy)
    return NoRestarts()


def _millis(length: timedelta) -> int:
    return length // timedelta(milliseconds=1)
