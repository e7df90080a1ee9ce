"""The options of restart strategies, with Flink's keys and defaults."""

from __future__ import annotations

from datetime import timedelta

from tidemill.config.option import option
from tidemill.config.values import DurationValue, Float, Int, OneOf

_MS = timedelta(milliseconds=1)
MAX_INT = (1 << 31) - 1


class RestartStrategyOptions:
    """What to do when the job fails."""

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
        "Restart strategy; not set: exponential-delay with checkpoints, none without.",
        deprecated=["restart-strategy"],
    )
    FIXED_DELAY_ATTEMPTS = option("restart-strategy.fixed-delay.attempts", Int(0), 1, "Restarts before giving up.")
    FIXED_DELAY_DELAY = option(
        "restart-strategy.fixed-delay.delay", DurationValue(), timedelta(seconds=1), "Wait before."
    )
    FAILURE_RATE_MAX_FAILURES = option(
        "restart-strategy.failure-rate.max-failures-per-interval", Int(1), 1, "Failures in the interval that are borne."
    )
    FAILURE_RATE_INTERVAL = option(
        "restart-strategy.failure-rate.failure-rate-interval", DurationValue(_MS), timedelta(minutes=1), "The interval."
    )
    FAILURE_RATE_DELAY = option(
        "restart-strategy.failure-rate.delay", DurationValue(), timedelta(seconds=1), "Wait before."
    )
    EXPONENTIAL_INITIAL_BACKOFF = option(
        "restart-strategy.exponential-delay.initial-backoff", DurationValue(_MS), timedelta(seconds=1), "First wait."
    )
    EXPONENTIAL_MAX_BACKOFF = option(
        "restart-strategy.exponential-delay.max-backoff", DurationValue(_MS), timedelta(minutes=1), "Longest wait."
    )
    EXPONENTIAL_MULTIPLIER = option(
        "restart-strategy.exponential-delay.backoff-multiplier", Float(1), 1.5, "Growth of the wait after a failure."
    )
    EXPONENTIAL_RESET_THRESHOLD = option(
        "restart-strategy.exponential-delay.reset-backoff-threshold",
        DurationValue(_MS),
        timedelta(hours=1),
        "Time without failure after which the wait starts over.",
    )
    EXPONENTIAL_JITTER = option(
        "restart-strategy.exponential-delay.jitter-factor", Float(0, 1), 0.1, "Random part of the wait."
    )
    EXPONENTIAL_ATTEMPTS = option(
        "restart-strategy.exponential-delay.attempts-before-reset-backoff",
        Int(1),
        MAX_INT,
        "Failures before the wait starts over after which the job fails.",
    )
    EXCEPTION_HISTORY_SIZE = option(
        "web.exception-history-size", Int(1), 16, "Failures that a job's exception history remembers."
    )
