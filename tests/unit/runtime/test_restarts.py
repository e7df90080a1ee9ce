"""Restart strategies at work, with a clock of their own."""

from __future__ import annotations

import pytest

from tidemill.common import Duration, RestartStrategies
from tidemill.runtime.restarts import (
    ExponentialDelay,
    FailureRate,
    FixedDelay,
    NoRestarts,
    Restarts,
    restarts_for,
)


def delays(restarts: Restarts, *times: float) -> list[float | None]:
    return [restarts.after_failure(time) for time in times]


def test_none_gives_up_at_once() -> None:
    assert delays(NoRestarts(), 0.0) == [None]
    assert isinstance(restarts_for(RestartStrategies.no_restart()), NoRestarts)


def test_fixed_delay_counts() -> None:
    assert delays(FixedDelay(2, 1.5), 0, 100, 200, 300) == [1.5, 1.5, None, None]
    strategy = restarts_for(RestartStrategies.fixed_delay_restart(1, 2000))
    assert delays(strategy, 0, 0) == [2.0, None]


def test_failure_rate_forgets_old_failures() -> None:
    assert delays(FailureRate(2, 10.0, 1.0), 0, 1, 11.5, 12, 12.5) == [1.0, 1.0, 1.0, 1.0, None]
    strategy = restarts_for(RestartStrategies.failure_rate_restart(1, 60_000, 500))
    assert delays(strategy, 0, 30, 200) == [0.5, None, 0.5]


def exponential(jitter: float = 0.0, **more: int) -> ExponentialDelay:
    strategy = restarts_for(
        RestartStrategies.exponential_delay_restart(
            initial_backoff=Duration.of_seconds(1),
            max_backoff=Duration.of_seconds(10),
            backoff_multiplier=3.0,
            reset_backoff_threshold=Duration.of_seconds(100),
            jitter_factor=jitter,
            **more,
        )
    )
    assert isinstance(strategy, ExponentialDelay)
    return strategy


def test_exponential_delay_grows_and_starts_over() -> None:
    assert delays(exponential(), 0, 5, 10, 15) == [1.0, 3.0, 9.0, 10.0]
    assert delays(exponential(), 0, 5, 10, 500) == [1.0, 3.0, 9.0, 1.0]


def test_jitter_stays_around_the_delay() -> None:
    for _ in range(50):
        (delay,) = delays(exponential(jitter=0.5), 0)
        assert delay == pytest.approx(1.0, abs=0.5)
