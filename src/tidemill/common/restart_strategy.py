"""Restart strategies: how a job reacts to failures."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from datetime import timedelta

from tidemill.common.configuration import Configuration
from tidemill.common.time import Length, as_millis
from tidemill.config import CheckpointingOptions
from tidemill.config import RestartStrategyOptions as Options
from tidemill.errors import ConfigurationError

__all__ = ["RestartStrategies", "RestartStrategyConfiguration"]


class RestartStrategyConfiguration(ABC):
    """A restart strategy with its parameters. Immutable, compared by value."""

    @abstractmethod
    def get_description(self) -> str:
        """A description of the strategy."""

    @abstractmethod
    def apply_to(self, configuration: Configuration) -> None:
        """Writes the strategy to ``configuration``; :meth:`RestartStrategies.from_configuration` reads it back."""


class RestartStrategies:
    """Creates restart strategies. Durations are milliseconds, ``timedelta`` or :class:`Duration`.

    >>> RestartStrategies.fixed_delay_restart(3, 1000).get_description()
    'Restart with fixed delay (1000 ms), at most 3 times.'
    """

    @dataclass(frozen=True)
    class NoRestartStrategyConfiguration(RestartStrategyConfiguration):
        """The job is not restarted: its first failure is final."""

        def get_description(self) -> str:
            return "Restart deactivated."

        def apply_to(self, configuration: Configuration) -> None:
            configuration.set(Options.TYPE, "none")

    @dataclass(frozen=True)
    class FallbackRestartStrategyConfiguration(RestartStrategyConfiguration):
        """The job uses the restart strategy of its configuration."""

        def get_description(self) -> str:
            return "Cluster level default restart strategy"

        def apply_to(self, configuration: Configuration) -> None:
            configuration.remove_config(Options.TYPE.key)

    @dataclass(frozen=True)
    class FixedDelayRestartStrategyConfiguration(RestartStrategyConfiguration):
        """The job restarts at most ``restart_attempts`` times, each time after the same delay."""

        restart_attempts: int
        delay_between_attempts_interval: timedelta

        def __post_init__(self) -> None:
            _at_least(0, "restart_attempts", self.restart_attempts)
            _as_delta(self, "delay_between_attempts_interval")

        def get_restart_attempts(self) -> int:
            return self.restart_attempts

        def get_delay_between_attempts_interval(self) -> timedelta:
            return self.delay_between_attempts_interval

        def get_description(self) -> str:
            delay = as_millis(self.delay_between_attempts_interval)
            return f"Restart with fixed delay ({delay} ms), at most {self.restart_attempts} times."

        def apply_to(self, configuration: Configuration) -> None:
            configuration.set(Options.TYPE, "fixed-delay")
            configuration.set(Options.FIXED_DELAY_ATTEMPTS, self.restart_attempts)
            configuration.set(Options.FIXED_DELAY_DELAY, self.delay_between_attempts_interval)

    @dataclass(frozen=True)
    class FailureRateRestartStrategyConfiguration(RestartStrategyConfiguration):
        """The job restarts unless it failed more than ``max_failure_rate`` times within ``failure_interval``."""

        max_failure_rate: int
        failure_interval: timedelta
        delay_between_attempts_interval: timedelta

        def __post_init__(self) -> None:
            _at_least(1, "max_failure_rate", self.max_failure_rate)
            _as_delta(self, "failure_interval", positive=True)
            _as_delta(self, "delay_between_attempts_interval")

        def get_max_failure_rate(self) -> int:
            return self.max_failure_rate

        def get_failure_interval(self) -> timedelta:
            return self.failure_interval

        def get_delay_between_attempts_interval(self) -> timedelta:
            return self.delay_between_attempts_interval

        def get_description(self) -> str:
            return (
                f"Restart after a delay of {as_millis(self.delay_between_attempts_interval)} ms, at most "
                f"{self.max_failure_rate} failures within {as_millis(self.failure_interval)} ms."
            )

        def apply_to(self, configuration: Configuration) -> None:
            configuration.set(Options.TYPE, "failure-rate")
            configuration.set(Options.FAILURE_RATE_MAX_FAILURES, self.max_failure_rate)
            configuration.set(Options.FAILURE_RATE_INTERVAL, self.failure_interval)
            configuration.set(Options.FAILURE_RATE_DELAY, self.delay_between_attempts_interval)

    @dataclass(frozen=True)
    class ExponentialDelayRestartStrategyConfiguration(RestartStrategyConfiguration):
        """The job restarts after a delay that grows with each failure.

        The delay is multiplied by ``backoff_multiplier`` with each failure, up to ``max_backoff``, and is reset after
        ``reset_backoff_threshold`` without a failure. ``jitter_factor`` is the random part of the delay. The job fails
        after more than ``attempts_before_reset_backoff`` failures without a reset.
        """

        initial_backoff: timedelta
        max_backoff: timedelta
        backoff_multiplier: float = 1.5
        reset_backoff_threshold: timedelta = timedelta(hours=1)
        jitter_factor: float = 0.1
        attempts_before_reset_backoff: int = (1 << 31) - 1

        def __post_init__(self) -> None:
            _as_delta(self, "initial_backoff", positive=True)
            _as_delta(self, "max_backoff", positive=True)
            _as_delta(self, "reset_backoff_threshold", positive=True)
            _at_least(1, "attempts_before_reset_backoff", self.attempts_before_reset_backoff)
            if not self.backoff_multiplier > 1:
                raise ConfigurationError(f"backoff_multiplier must be greater than 1, not {self.backoff_multiplier}")
            if self.max_backoff < self.initial_backoff:
                raise ConfigurationError(
                    f"max_backoff ({self.max_backoff}) must not be less than initial_backoff ({self.initial_backoff})"
                )
            if not 0 <= self.jitter_factor <= 1:
                raise ConfigurationError(f"jitter_factor must be between 0 and 1, not {self.jitter_factor}")

        def get_description(self) -> str:
            return (
                f"Restart with exponential delay from {as_millis(self.initial_backoff)} ms to "
                f"{as_millis(self.max_backoff)} ms, multiplied by {self.backoff_multiplier}, jitter "
                f"{self.jitter_factor}, reset after {as_millis(self.reset_backoff_threshold)} ms."
            )

        def apply_to(self, configuration: Configuration) -> None:
            configuration.set(Options.TYPE, "exponential-delay")
            configuration.set(Options.EXPONENTIAL_INITIAL_BACKOFF, self.initial_backoff)
            configuration.set(Options.EXPONENTIAL_MAX_BACKOFF, self.max_backoff)
            configuration.set(Options.EXPONENTIAL_MULTIPLIER, self.backoff_multiplier)
            configuration.set(Options.EXPONENTIAL_RESET_THRESHOLD, self.reset_backoff_threshold)
            configuration.set(Options.EXPONENTIAL_JITTER, self.jitter_factor)
            configuration.set(Options.EXPONENTIAL_ATTEMPTS, self.attempts_before_reset_backoff)

    @staticmethod
    def no_restart() -> NoRestartStrategyConfiguration:
        """The job is never restarted."""
        return RestartStrategies.NoRestartStrategyConfiguration()

    @staticmethod
    def fall_back_restart() -> FallbackRestartStrategyConfiguration:
        """The restart strategy of the configuration applies."""
        return RestartStrategies.FallbackRestartStrategyConfiguration()

    @staticmethod
    def fixed_delay_restart(
        restart_attempts: int, delay_between_attempts: Length
    ) -> FixedDelayRestartStrategyConfiguration:
        """At most ``restart_attempts`` restarts, each after ``delay_between_attempts``."""
        return RestartStrategies.FixedDelayRestartStrategyConfiguration(
            restart_attempts, _delta(delay_between_attempts)
        )

    @staticmethod
    def failure_rate_restart(
        failure_rate: int, failure_interval: Length, delay_interval: Length
    ) -> FailureRateRestartStrategyConfiguration:
        """Restarts after ``delay_interval``, up to ``failure_rate`` failures within ``failure_interval``."""
        return RestartStrategies.FailureRateRestartStrategyConfiguration(
            failure_rate, _delta(failure_interval), _delta(delay_interval)
        )

    @staticmethod
    def exponential_delay_restart(
        initial_backoff: Length,
        max_backoff: Length,
        backoff_multiplier: float = 1.5,
        reset_backoff_threshold: Length = timedelta(hours=1),
        jitter_factor: float = 0.1,
        attempts_before_reset_backoff: int = (1 << 31) - 1,
    ) -> ExponentialDelayRestartStrategyConfiguration:
        """Restarts after a delay that grows with each failure.

        >>> from tidemill.common import Duration
        >>> RestartStrategies.exponential_delay_restart(Duration.of_seconds(1), Duration.of_minutes(1)).max_backoff
        datetime.timedelta(seconds=60)
        """
        return RestartStrategies.ExponentialDelayRestartStrategyConfiguration(
            _delta(initial_backoff),
            _delta(max_backoff),
            backoff_multiplier,
            _delta(reset_backoff_threshold),
            jitter_factor,
            attempts_before_reset_backoff,
        )

    @staticmethod
    def from_configuration(configuration: Configuration) -> RestartStrategyConfiguration:
        """The strategy set in ``configuration``.

        If none is set, the default is as in Flink 2: exponential delay for jobs with checkpointing, and no restart for
        jobs without.
        """
        get = configuration.get
        kind = get(Options.TYPE)
        if kind is None:
            kind = "exponential-delay" if get(CheckpointingOptions.INTERVAL) is not None else "none"
        if kind == "fixed-delay":
            return RestartStrategies.FixedDelayRestartStrategyConfiguration(
                get(Options.FIXED_DELAY_ATTEMPTS), get(Options.FIXED_DELAY_DELAY)
            )
        if kind == "failure-rate":
            return RestartStrategies.FailureRateRestartStrategyConfiguration(
                get(Options.FAILURE_RATE_MAX_FAILURES),
                get(Options.FAILURE_RATE_INTERVAL),
                get(Options.FAILURE_RATE_DELAY),
            )
        if kind == "exponential-delay":
            return RestartStrategies.ExponentialDelayRestartStrategyConfiguration(
                get(Options.EXPONENTIAL_INITIAL_BACKOFF),
                get(Options.EXPONENTIAL_MAX_BACKOFF),
                get(Options.EXPONENTIAL_MULTIPLIER),
                get(Options.EXPONENTIAL_RESET_THRESHOLD),
                get(Options.EXPONENTIAL_JITTER),
                get(Options.EXPONENTIAL_ATTEMPTS),
            )
        return RestartStrategies.NoRestartStrategyConfiguration()


def _delta(length: Length) -> timedelta:
    return length if isinstance(length, timedelta) else timedelta(milliseconds=as_millis(length))


def _as_delta(strategy: object, field: str, positive: bool = False) -> None:
    """Replaces a duration in a frozen dataclass by a ``timedelta`` and validates it."""
    length = _delta(getattr(strategy, field))
    if length < timedelta(0) or (positive and not length):
        raise ConfigurationError(f"{field} must {'be positive' if positive else 'not be negative'}, not {length}")
    object.__setattr__(strategy, field, length)


def _at_least(least: int, field: str, value: float) -> None:
    if value < least:
        raise ConfigurationError(f"{field} must be at least {least}, not {value}")
