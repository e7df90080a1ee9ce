"""Options of what is logged, by the driver and by the workers. They are Tidemill's own: Flink has files for it."""

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
        "Tidemill's own: how log records are written: lines of text, or one JSON object each.",
    )
    LEVEL = option(
        "logging.level", OneOf(*LEVELS), "WARNING", "Tidemill's own: the least severe log records that are written."
    )
