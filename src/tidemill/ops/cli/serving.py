"""Commands that serve until they are interrupted or terminated."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import SimpleQueue

__all__ = ["until_ended"]


@contextmanager
def until_ended() -> Iterator[Callable[[], None]]:
    """In this block, SIGINT and SIGTERM only end the wait of the function that is returned, however often they come."""
    # Not an Event: its lock is not reentrant, and a second signal may come while the first one is handled.
    ended: SimpleQueue[None] = SimpleQueue()
    before = {kind: signal.signal(kind, lambda *_: ended.put(None)) for kind in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield ended.get
    finally:
        for kind, handler in before.items():
            signal.signal(kind, handler)
