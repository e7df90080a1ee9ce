"""Secrets on their way to the JVM: py4j logs each command that it sends, with all of its arguments, at DEBUG."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

__all__ = ["unlogged"]

#: Who sends, by how Spark was started.
_SENDERS: Final = ("py4j.clientserver", "py4j.java_gateway")


class _Silence(logging.Filter):
    """Drops what threads log that have asked for it."""

    def __init__(self) -> None:
        super().__init__()
        self.here = threading.local()

    def filter(self, record: logging.LogRecord) -> bool:
        return not getattr(self.here, "silent", False)


_silence: Final = _Silence()


@contextmanager
def unlogged() -> Iterator[None]:
    """While the block runs, nothing is logged of what this thread sends to the JVM."""
    for sender in _SENDERS:
        logging.getLogger(sender).addFilter(_silence)  # once, however often it is added
    before = getattr(_silence.here, "silent", False)
    _silence.here.silent = True
    try:
        yield
    finally:
        _silence.here.silent = before
