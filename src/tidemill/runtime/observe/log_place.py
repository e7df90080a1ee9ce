"""The place in a job from which code logs: the operator, its subtask, the epoch."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final, NamedTuple

from tidemill.checkpoint.model import Epoch
from tidemill.state.keys.key_groups import Subtask

__all__ = ["PLACE", "LogPlace", "PlaceFilter", "at"]


class LogPlace(NamedTuple):
    """A place in a job. ``operator`` is None on the driver, and ``epoch`` is None before the first epoch."""

    job: str
    epoch: Epoch | None = None
    operator: str | None = None
    uid: str | None = None
    subtask: Subtask | None = None


#: The place of the code that is running. Asynchronous calls of a function inherit it.
PLACE: Final[ContextVar[LogPlace | None]] = ContextVar("tidemill_place", default=None)


@contextmanager
def at(place: LogPlace | None) -> Iterator[None]:
    """Log everything in the block with the given place."""
    before = PLACE.get()
    PLACE.set(place)
    try:
        yield
    finally:
        PLACE.set(before)


class PlaceFilter(logging.Filter):
    """Adds ``job``, ``epoch``, ``operator``, ``uid`` and ``subtask`` to log records, for user-defined handlers.

    >>> import sys
    >>> handler = logging.StreamHandler(sys.stdout)
    >>> handler.addFilter(PlaceFilter())
    >>> handler.setFormatter(logging.Formatter("%(operator)s[%(subtask)s] %(message)s"))
    >>> log = logging.getLogger("docs.place")
    >>> log.addHandler(handler)
    >>> with at(LogPlace("my job", 7, "count", "count", 3)):
    ...     log.warning("slow")
    count[3] slow
    """

    def filter(self, record: logging.LogRecord) -> bool:
        for name, value in (PLACE.get() or LogPlace(""))._asdict().items():
            record.__dict__.setdefault(name, value)
        return True
