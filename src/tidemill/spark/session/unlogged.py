"""Keeps secrets out of py4j's log: at DEBUG, py4j logs each command to the JVM with all of its arguments."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

__all__ = ["unlogged"]

#: The loggers of the senders, which depend on how Spark was started.
_SENDERS: Final = ("py4j.clientserver", "py4j.java_gateway")


class _Silence(logging.Filter):
    """Drops the log records of threads that have requested it."""

    def __init__(self) -> None:
        super().__init__()
        self.here = threading.local()

    def filter(self, record: logging.LogRecord) -> bool:
        return not getattr(self.here, "silent", False)


_silence: Final = _Silence()


@contextmanager
def unlogged() -> Iterator[None]:
    """Suppress the logging of commands that this thread sends to the JVM while the block runs."""
    for sender in _SENDERS:
        logging.getLogger(sender).addFilter(_silence)  # adding it again has no effect
    before = getattr(_silence.here, "silent", False)
    _silence.here.silent = True
    try:
        yield
    finally:
        _silence.here.silent = before
