"""Options of logging on the driver and the workers. They exist only in Tidemill: Flink uses logging files instead."""

from __future__ import annotations

from tidemill.config.option import option
from tidemill.config.values import OneOf

LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")


class LoggingOptions:
    """Logging."""

    FORMAT = option(
        "logging.format",
        OneOf("text", "json"),
        "text",
        "Tidemill only. Format of log records: lines of text, or one JSON object per line.",
    )
    LEVEL = option(
        "logging.level",
        OneOf(*LEVELS),
        "WARNING",
        "Tidemill only. Minimum severity of the log records that are written.",
    )
