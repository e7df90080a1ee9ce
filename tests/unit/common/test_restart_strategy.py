"""Restart strategies: made in code or read from the configuration, the same either way."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from tidemill.common import Configuration, Duration, RestartStrategies, RestartStrategyConfiguration
from tidemill.errors import ConfigurationError

STRATEGIES: list[RestartStrategyConfiguration] = [
    RestartStrategies.no_restart(),
    RestartStrategies.fixed_delay_restart(3, 500),
    RestartStrategies.failure_rate_restart(5, Duration.of_minutes(2), timedelta(seconds=3)),
    RestartStrategies.exponential_delay_restart(100, 2000, 2.0, 60_000, 0.5, 7),
]


@pytest.mark.parametrize("strategy", STRATEGIES, ids=lambda s: type(s).__name__)
def test_a_strategy_survives_the_configuration(strategy: RestartStrategyConfiguration) -> None:
    conf = Configuration()
    strategy.apply_to(conf)
    conf = Configuration.from_dict(conf.to_dict())
    assert RestartStrategies.from_configuration(conf) == strategy
    assert hash(RestartStrategies.from_configuration(conf)) == hash(strategy)
    assert strategy.get_description()
    RestartStrategies.fall_back_restart().apply_to(conf)
    assert RestartStrategies.from_configuration(conf) == RestartStrategies.no_restart()


def test_reading_the_parameters() -> None:
    fixed = RestartStrategies.fixed_delay_restart(3, timedelta(seconds=2))
    assert fixed.get_restart_attempts() == 3
    assert fixed.get_delay_between_attempts_interval() == timedelta(seconds=2)
    assert fixed == RestartStrategies.fixed_delay_restart(3, 2000)
    rate = RestartStrategies.failure_rate_restart(2, 1000, 10)
    assert rate.get_max_failure_rate() == 2
    assert rate.get_failure_interval() == timedelta(seconds=1)
    assert rate.get_delay_between_attempts_interval() == timedelta(milliseconds=10)


def test_without_a_strategy_checkpoints_decide() -> None:
    conf = Configuration()
    assert RestartStrategies.from_configuration(conf) == RestartStrategies.no_restart()
    conf.set_string("execution.checkpointing.interval", "1 s")
    assert RestartStrategies.from_configuration(conf) == RestartStrategies.exponential_delay_restart(1000, 60_000)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("off", RestartStrategies.NoRestartStrategyConfiguration),
        ("fixeddelay", RestartStrategies.FixedDelayRestartStrategyConfiguration),
        ("failure-rate", RestartStrategies.FailureRateRestartStrategyConfiguration),
    ],
)
def test_flinks_spellings(name: str, kind: type) -> None:
    conf = Configuration.from_dict({"restart-strategy": name})
    assert type(RestartStrategies.from_configuration(conf)) is kind


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: RestartStrategies.fixed_delay_restart(-1, 0), "restart_attempts must be at least 0"),
        (lambda: RestartStrategies.fixed_delay_restart(1, -5), "must not be negative"),
        (lambda: RestartStrategies.failure_rate_restart(0, 1, 1), "max_failure_rate must be at least 1"),
        (lambda: RestartStrategies.failure_rate_restart(1, 0, 1), "failure_interval must be positive"),
        (lambda: RestartStrategies.exponential_delay_restart(10, 5), "must not be less than initial_backoff"),
        (lambda: RestartStrategies.exponential_delay_restart(1, 5, 1.0), "backoff_multiplier must be greater than 1"),
        (
            lambda: RestartStrategies.exponential_delay_restart(1, 5, attempts_before_reset_backoff=0),
            "attempts_before_reset_backoff must be at least 1",
        ),
        (lambda: RestartStrategies.exponential_delay_restart(1, 5, jitter_factor=2), "between 0 and 1"),
    ],
)
def test_parameters_that_make_no_sense(make: Callable[[], object], words: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        make()
    assert words in str(caught.value)
