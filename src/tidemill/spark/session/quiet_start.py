"""Keeps the notices out of standard error that a JVM prints when it starts Spark, before any setting can prevent it."""

from __future__ import annotations

import atexit
import os
import select
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

__all__ = ["NoticeFilter", "without_notices"]

#: Lines that are not warnings of anything a user can change. Spark itself turns the module on, for every JVM.
_NOTICES: Final = (b"WARNING: Using incubator modules: jdk.incubator.vector\n",)
#: How long a process that ends waits for the last output of its JVM, in seconds.
_DRAIN_SECONDS: Final = 1.0


class NoticeFilter:
    """Removes notices from a stream of bytes, without delaying anything that cannot become one.

    >>> notices = NoticeFilter()
    >>> notices.passed(b"WARNING: Using incub"), notices.passed(b"ator modules: jdk.incubator.vector\\nhello")
    (b'', b'hello')
    """

    def __init__(self) -> None:
        self._held = b""
        self._at_start = True  # of a line

    def passed(self, data: bytes) -> bytes:
        """Return what is to be written now that ``data`` has arrived."""
        written = []
        for line in (self._held + data).splitlines(keepends=True):
            self._held = b""
            if self._at_start and line in _NOTICES:
                continue
            if self._at_start and any(notice.startswith(line) for notice in _NOTICES):
                self._held = line
                break
            written.append(line)
            self._at_start = line.endswith(b"\n")
        return b"".join(written)

    def rest(self) -> bytes:
        """Return what was held back when the stream has ended."""
        held, self._held = self._held, b""
        return held


@contextmanager
def without_notices() -> Iterator[None]:
    """Filter the standard error of a JVM that is started in the block, and of its children, as long as it runs.

    A process inherits its standard error when it starts. So that of this process is a pipe during the block, and a
    thread copies what arrives to the original one.
    """
    try:
        original = os.dup(2)
    except OSError:  # there is no standard error
        yield
        return
    reading, writing = os.pipe()
    os.dup2(writing, 2)
    os.close(writing)
    threading.Thread(target=_relay, args=(reading, original), name="tidemill-spark-stderr", daemon=True).start()
    owner = os.getpid()
    atexit.register(lambda: _drain(reading) if os.getpid() == owner else None)
    try:
        yield
    finally:
        os.dup2(original, 2)


def _relay(reading: int, original: int) -> None:
    """Copy until all processes that write have ended. The pipe is emptied in any case: a full one would stop them."""
    notices, broken = NoticeFilter(), False
    while data := os.read(reading, 1 << 16):
        try:
            _write(original, b"" if broken else notices.passed(data))
        except OSError:
            broken = True  # nobody reads it any more
    if not broken:
        _write(original, notices.rest())
    os.close(original)


def _write(target: int, data: bytes) -> None:
    while data:
        data = data[os.write(target, data) :]


def _drain(reading: int) -> None:
    """Let the relay copy what has been written before this process ends."""
    until = time.monotonic() + _DRAIN_SECONDS
    while time.monotonic() < until and select.select([reading], [], [], 0)[0]:
        time.sleep(0.01)
