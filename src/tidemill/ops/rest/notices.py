"""Messages that a driver with a REST server always logs: the address of the server, and requests to operate jobs.

By default only warnings are logged. These messages have level INFO, but must not be lost: they go to the log handlers
of the program, or to standard error if it has none. A level that the program sets for one of these loggers applies.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from tidemill.common.configuration import Configuration
from tidemill.runtime.observe.logs import JsonFormatter, LogSettings, StandardErrorHandler, TextFormatter

__all__ = ["AUDIT", "SERVER", "is_announced", "tell_always", "unannounced"]

#: Logger of requests to operate jobs or to read user data.
AUDIT: Final = "tidemill.audit"
#: Logger of the server's address and of problems with the server.
SERVER: Final = "tidemill.ops.rest.server"

_announced: ContextVar[bool] = ContextVar("announced", default=True)


class _Otherwise(StandardErrorHandler):
    """Writes the records that no other handler accepts."""

    def handle(self, record: logging.LogRecord) -> bool:
        taken = any(other is not self and record.levelno >= other.level for other in _handlers(record.name))
        return False if taken else super().handle(record)


def tell_always(configuration: Configuration) -> None:
    """Enable these messages, in the log format of the configuration."""
    formatter = JsonFormatter() if LogSettings.of(configuration).json else TextFormatter()
    for name in (AUDIT, SERVER):
        logger = logging.getLogger(name)
        if logger.level == logging.NOTSET:
            logger.setLevel(logging.INFO)
        found = next((handler for handler in logger.handlers if isinstance(handler, _Otherwise)), None)
        handler = found or _Otherwise()
        handler.setFormatter(formatter)
        if found is None:
            logger.addHandler(handler)


@contextmanager
def unannounced() -> Iterator[None]:
    """Do not log the address of a server that is started in this block, because the caller announces it."""
    before = _announced.set(False)
    try:
        yield
    finally:
        _announced.reset(before)


def is_announced() -> bool:
    """Whether the address of a server is logged."""
    return _announced.get()


def _handlers(name: str) -> Iterator[logging.Handler]:
    """Yield the handlers of a logger's records, except null handlers."""
    logger: logging.Logger | None = logging.getLogger(name)
    while logger is not None:
        yield from (handler for handler in logger.handlers if not isinstance(handler, logging.NullHandler))
        logger = logger.parent if logger.propagate else None
