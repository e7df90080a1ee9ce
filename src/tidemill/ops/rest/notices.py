"""What a driver with a REST server always tells, however quiet its logs are: where it listens, and who operated jobs.

Logs are for warnings by default. These lines are at INFO, and still must not be lost: they go where the program has its
logs go, and to the standard error if it has set up none. A level that the program gives to one of the loggers counts.
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

#: Each request to operate, and to see users' data.
AUDIT: Final = "tidemill.audit"
#: Where the server listens, and what is wrong with it.
SERVER: Final = "tidemill.ops.rest.server"

_announced: ContextVar[bool] = ContextVar("announced", default=True)


class _Otherwise(StandardErrorHandler):
    """Writes the records that no other handler takes."""

    def handle(self, record: logging.LogRecord) -> bool:
        taken = any(other is not self and record.levelno >= other.level for other in _handlers(record.name))
        return False if taken else super().handle(record)


def tell_always(configuration: Configuration) -> None:
    """From now on, these lines are written, in the form that the configuration asks for."""
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
    """Where a server listens that is started here is not logged: whoever starts it says so."""
    before = _announced.set(False)
    try:
        yield
    finally:
        _announced.reset(before)


def is_announced() -> bool:
    """Whether it is to be logged where a server listens."""
    return _announced.get()


def _handlers(name: str) -> Iterator[logging.Handler]:
    """Those that a record of a logger goes to, apart from those that only stand there."""
    logger: logging.Logger | None = logging.getLogger(name)
    while logger is not None:
        yield from (handler for handler in logger.handlers if not isinstance(handler, logging.NullHandler))
        logger = logger.parent if logger.propagate else None
