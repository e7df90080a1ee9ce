"""Restart strategies at work: whether and when a failed job is started again. Pure: the clock is given."""

from __future__ import annotations

import random
from collections import deque
from typing import Protocol

from tidemill.common.restart_strategy import RestartStrategies, RestartStrategyConfiguration


class Restarts(Protocol):
    """Decides after a failure."""

    def after_failure(self, now: float) -> float | None:
        """Seconds to wait before the next start, or None to give up. ``now`` is a monotonic time in seconds."""
        ...


class NoRestarts:
    """Gives up at once."""

    def after_failure(self, now: float) -> float | None:
        return None


class FixedDelay:
    """A number of restarts, with the same delay before each."""

    def __init__(self, attempts: int, delay: float) -> None:
        self._left = attempts
        self._delay = delay

    def after_failure(self, now: float) -> float | None:
        self._left -= 1
        return self._delay if self._left >= 0 else None


class FailureRate:
    """Restarts as long as no more than so many failures fall into an interval."""

    def __init__(self, most: int, interval: float, delay: float) -> None:
        self._most = most
        self._interval = interval
        self._delay = delay
        self._failures: deque[float] = deque()

    def after_failure(self, now: float) -> float | None:
        self._failures.append(now)
        while self._failures and self._failures[0] <= now - self._interval:
            self._failures.popleft()
        return self._delay if len(self._failures) <= self._most else None


class ExponentialDelay:
    """A delay that grows with each failure and starts over after a quiet time."""

    def __init__(self, strategy: RestartStrategies.ExponentialDelayRestartStrategyConfiguration) -> None:
        self._strategy = strategy
        self._delay = strategy.initial_backoff.total_seconds()
        self._failures = 0
        self._last: float | None = None

    def after_failure(self, now: float) -> float | None:
        strategy = self._strategy
        quiet = None if self._last is None else now - self._last
        if quiet is not None and quiet >= strategy.reset_backoff_threshold.total_seconds() + self._delay:
            self._delay = strategy.initial_backoff.total_seconds()
            self._failures = 0
        elif self._last is not None:
            longest = strategy.max_backoff.total_seconds()
            self._delay = min(self._delay * strategy.backoff_multiplier, longest)
        self._last = now
        self._failures += 1
        if self._failures > strategy.attempts_before_reset_backoff:
            return None
        spread = self._delay * strategy.jitter_factor
        return max(0.0, self._delay + random.uniform(-spread, spread))


def restarts_for(strategy: RestartStrategyConfiguration) -> Restarts:
    """The strategy at work for one execution of a job."""
    if isinstance(strategy, RestartStrategies.FixedDelayRestartStrategyConfiguration):
        return FixedDelay(strategy.restart_attempts, strategy.delay_between_attempts_interval.total_seconds())
    if isinstance(strategy, RestartStrategies.FailureRateRestartStrategyConfiguration):
        return FailureRate(
            strategy.max_failure_rate,
            strategy.failure_interval.total_seconds(),
            strategy.delay_between_attempts_interval.total_seconds(),
        )
    if isinstance(strategy, RestartStrategies.ExponentialDelayRestartStrategyConfiguration):
        return ExponentialDelay(strategy)
    return NoRestarts()
