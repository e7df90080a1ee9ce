"""The options of restart strategies, with Flink's keys and defaults."""

from __future__ import annotations

from datetime import timedelta

from tidemill.config.option import option
from tidemill.config.values import DurationValue, Float, Int, OneOf

_MS = timedelta(milliseconds=1)
MAX_INT = (1 << 31) - 1


class RestartStrategyOptions:
    """Restarts after failures."""

    TYPE = option(
        "restart-strategy.type",
        OneOf(
            "none",
            "fixed-delay",
            "failure-rate",
            "exponential-delay",
            aliases={"off": "none", "disable": "none"},
        ),
        None,
        "Restart strategy; if not set, exponential-delay with checkpointing, none without.",
        deprecated=["restart-strategy"],
    )
    FIXED_DELAY_ATTEMPTS = option("restart-strategy.fixed-delay.attempts", Int(0), 1, "Maximum number of restarts.")
    FIXED_DELAY_DELAY = option(
        "restart-strategy.fixed-delay.delay", DurationValue(), timedelta(seconds=1), "Delay before a restart."
    )
    FAILURE_RATE_MAX_FAILURES = option(
        "restart-strategy.failure-rate.max-failures-per-interval", Int(1), 1, "Failures tolerated in the interval."
    )
    FAILURE_RATE_INTERVAL = option(
        "restart-strategy.failure-rate.failure-rate-interval", DurationValue(_MS), timedelta(minutes=1), "The interval."
    )
    FAILURE_RATE_DELAY = option(
        "restart-strategy.failure-rate.delay", DurationValue(), timedelta(seconds=1), "Delay before a restart."
    )
    EXPONENTIAL_INITIAL_BACKOFF = option(
        "restart-strategy.exponential-delay.initial-backoff", DurationValue(_MS), timedelta(seconds=1), "First delay."
    )
    EXPONENTIAL_MAX_BACKOFF = option(
        "restart-strategy.exponential-delay.max-backoff", DurationValue(_MS), timedelta(minutes=1), "Maximum delay."
    )
    EXPONENTIAL_MULTIPLIER = option(
        "restart-strategy.exponential-delay.backoff-multiplier", Float(1), 1.5, "Factor by which the delay grows."
    )
    EXPONENTIAL_RESET_THRESHOLD = option(
        "restart-strategy.exponential-delay.reset-backoff-threshold",
        DurationValue(_MS),
        timedelta(hours=1),
        "Time without a failure after which the delay is reset.",
    )
    EXPONENTIAL_JITTER = option(
        "restart-strategy.exponential-delay.jitter-factor", Float(0, 1), 0.1, "Random part of the delay."
    )
    EXPONENTIAL_ATTEMPTS = option(
        "restart-strategy.exponential-delay.attempts-before-reset-backoff",
        Int(1),
        MAX_INT,
        "Number of failures without a reset of the delay after which the job fails.",
    )
    EXCEPTION_HISTORY_SIZE = option(
        "web.exception-history-size", Int(1), 16, "Number of failures in a job's exception history."
    )
