"""Restart strategies at work, with a clock of their own.

The expected delays, in milliseconds, are those that the strategies of Flink 2.3 gave for failures at these times.
"""

from __future__ import annotations

import pytest

from tidemill.common import RestartStrategies
from tidemill.runtime.driver.restarts import (
    ExponentialDelay,
    FailureRate,
    FixedDelay,
    NoRestarts,
    Restarts,
    restarts_for,
)


def delays(restarts: Restarts, *times: int) -> list[int | None]:
    return [restarts.after_failure(time) for time in times]


def test_without_a_strategy_the_job_fails_at_once() -> None:
    assert delays(NoRestarts(), 0) == [None]
    assert isinstance(restarts_for(RestartStrategies.no_restart()), NoRestarts)


def test_fixed_delay_counts() -> None:
    assert delays(FixedDelay(2, 1500), 10, 20, 30, 40) == [1500, 1500, None, None]
    strategy = restarts_for(RestartStrategies.fixed_delay_restart(1, 2000))
    assert delays(strategy, 0, 0) == [2000, None]


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        ([10, 1000, 9000, 11500, 12000, 12500], [1000, 1000, None, 1000, None, None]),
        ([10, 1000, 10010, 11001, 21002, 21003], [1000, 1000, None, 1000, 1000, 1000]),  # just inside the interval
        ([10, 1000, 10011, 11001], [1000, 1000, 1000, 1000]),  # just outside
    ],
)
def test_failure_rate_forgets_old_failures(times: list[int], expected: list[int | None]) -> None:
    assert delays(FailureRate(2, 10_000, 1000), *times) == expected
    strategy = restarts_for(RestartStrategies.failure_rate_restart(1, 60_000, 500))
    assert delays(strategy, 10, 30_000, 200_000) == [500, None, 500]


def exponential(
    initial: int, longest: int, multiplier: float, quiet: int, jitter: float = 0.0, attempts: int = 1 << 30
) -> ExponentialDelay:
    strategy = restarts_for(
        RestartStrategies.exponential_delay_restart(initial, longest, multiplier, quiet, jitter, attempts)
    )
    assert isinstance(strategy, ExponentialDelay)
    return strategy


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        ([10, 5000, 10_000, 25_000, 40_000], [1000, 3000, 9000, 10_000, 10_000]),
        ([10, 5000, 10_000, 118_999, 219_999, 400_000], [1000, 3000, 9000, 10_000, 10_000, 1000]),
        ([10, 101_009, 202_008, 303_010], [1000, 3000, 9000, 10_000]),  # just not quiet enough
        ([10, 101_010, 202_010, 303_010], [1000, 1000, 1000, 1000]),  # just quiet enough, from the restart on
    ],
)
def test_exponential_delay_grows_and_starts_over(times: list[int], expected: list[int | None]) -> None:
    assert delays(exponential(1000, 10_000, 3.0, 100_000), *times) == expected


def test_the_default_grows_as_flinks_does() -> None:
    times = [10, *(n * 100_000 for n in range(1, 13))]
    expected = [1000, 1500, 2250, 3375, 5062, 7593, 11_390, 17_085, 25_628, 38_443, 57_665, 60_000, 60_000]
    assert delays(exponential(1000, 60_000, 1.5, 3_600_000), *times) == expected


def test_exponential_delay_gives_up_after_too_many_failures_without_a_quiet_time() -> None:
    strategy = exponential(1000, 10_000, 2.0, 100_000, attempts=2)
    times = [10, 5000, 15_000, 30_000, 500_000, 510_000, 520_000]
    assert delays(strategy, *times) == [1000, 2000, None, None, 1000, 2000, None]


def test_failures_before_the_restart_are_one() -> None:
    assert delays(exponential(1000, 10_000, 2.0, 100_000), 10, 500, 1010, 1011) == [1000, 510, 0, 2000]


def test_a_job_that_fails_for_years_does_not_overflow() -> None:
    strategy = exponential(1000, 10_000, 3.0, 10**12)
    assert [strategy.after_failure(n * 20_000) for n in range(5000)][-1] == 10_000


def test_jitter_stays_around_the_delay_and_within_its_bounds() -> None:
    seconds = {delays(exponential(1000, 10_000, 3.0, 100_000, jitter=0.5), 0, 5000)[1] for _ in range(200)}
    assert len(seconds) > 20
    assert all(second is not None and 1500 <= second <= 4500 for second in seconds)
    assert all(1000 <= (delays(exponential(1000, 1200, 3.0, 9, jitter=1.0), 0)[0] or 0) <= 1200 for _ in range(100))
