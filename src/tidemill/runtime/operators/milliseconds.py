"""Times of timers that user code sets: whole milliseconds, whatever kind of number they come in."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from tidemill.common.type_kinds.coercion import whole
from tidemill.runtime.batch.records import checked_time

__all__ = ["timer_time"]


def timer_time(time: Any) -> int:
    """The time of a timer as an int. As in Flink, the fraction of a number is cut off.

    >>> timer_time(10.7)
    10
    """
    if type(time) is not int:
        with suppress(TypeError, ValueError, ArithmeticError):  # what is not a number fails the check
            time = whole(time)
    return checked_time(time, "a timer")
