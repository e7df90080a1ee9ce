"""Log output of the driver and the workers: as text, or as one JSON object per record.

Workers write warnings, with the place in the job that they come from, to the standard error of their executor. The
driver's program configures logging itself, as any Python program does. Tidemill configures it only if
``logging.format`` or ``logging.level`` is set and the program has set up no handlers. Log records of user functions
include the job, the operator, its subtask and the epoch.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any, Final

from tidemill.common.configuration import Configuration
from tidemill.config import LoggingOptions
from tidemill.config.redaction import redacted, redacted_value
from tidemill.python_versions import StreamHandler
from tidemill.runtime.observe.log_place import PLACE

__all__ = ["JsonFormatter", "LogSettings", "StandardErrorHandler", "TextFormatter"]

#: The attributes of every record; any other attribute was passed as ``extra``.
_USUAL: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
#: Loggers that are very verbose below the level WARNING.
_TALKATIVE: Final = ("py4j", "asyncio")


class JsonFormatter(logging.Formatter):
    """One line of JSON for each record, without secrets.

    >>> record = logging.makeLogRecord({"name": "shop", "levelname": "WARNING", "msg": "slow", "created": 0.0})
    >>> json.loads(JsonFormatter().format(record))["timestamp"]
    '1970-01-01T00:00:00.000Z'
    """

    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.fromtimestamp(record.created, timezone.utc)
        fields: dict[str, Any] = {
            "timestamp": moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname,
            "logger": record.name,
            "message": redacted(record.getMessage()),
        }
        place = PLACE.get()
        if place is not None:
            fields.update((name, value) for name, value in place._asdict().items() if value is not None)
        fields["process"] = os.getpid()
        for name, value in vars(record).items():
            if name not in _USUAL and name not in fields:
                fields[name] = redacted_value(name, value)
        if record.exc_info:
            fields["exception"] = redacted(self.formatException(record.exc_info))
        return json.dumps(fields, ensure_ascii=False)


class TextFormatter(logging.Formatter):
    """A line of text for each record, with the place in the job it comes from, without secrets."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s%(place)s: %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        place = PLACE.get()
        told = [] if place is None else [f"job {place.job}"]
        if place is not None and place.operator is not None:
            told = [f"operator {place.operator!r} (uid {place.uid}), subtask {place.subtask}", *told]
        if place is not None and place.epoch is not None:
            told.append(f"epoch {place.epoch}")
        record.__dict__["place"] = f" [{', '.join(told)}]" if told else ""
        try:
            return redacted(super().format(record))
        finally:
            del record.__dict__["place"]


class StandardErrorHandler(StreamHandler):
    """Writes to the current ``sys.stderr``. Its class distinguishes it from handlers of the program."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)

    @property
    def stream(self) -> Any:
        return sys.stderr


@dataclass(frozen=True)
class LogSettings:
    """The log settings of a job's configuration. ``asked_for`` indicates that the configuration sets any of them."""

    json: bool = False
    level: str = "WARNING"
    asked_for: bool = False

    @classmethod
    def of(cls, configuration: Configuration) -> LogSettings:
        """The log settings of a configuration."""
        options = (LoggingOptions.FORMAT, LoggingOptions.LEVEL)
        return cls(
            json=configuration.get(LoggingOptions.FORMAT) == "json",
            level=configuration.get(LoggingOptions.LEVEL),
            asked_for=any(map(configuration.contains, options)),
        )

    def set_up_driver(self) -> None:
        """Set up log output in this process if it is configured and the program has no handlers of its own."""
        if self.asked_for:
            self.set_up_worker()

    def set_up_worker(self) -> None:
        """Set up log output in this process, unless other handlers exist."""
        root = logging.getLogger()
        if any(not isinstance(handler, StandardErrorHandler) for handler in root.handlers):
            return
        handler = root.handlers[0] if root.handlers else StandardErrorHandler()
        handler.setFormatter(JsonFormatter() if self.json else TextFormatter())
        if not root.handlers:
            root.addHandler(handler)
        root.setLevel(self.level)
        for name in _TALKATIVE:
            logging.getLogger(name).setLevel(max(logging.WARNING, root.level))
