"""Times that user code gives: whole milliseconds, whatever kind of number they come in."""

from __future__ import annotations

from typing import Any

from tidemill.common.type_kinds.coercion import whole
from tidemill.errors import StateError, TypeMismatchError
from tidemill.runtime.batch.records import MAX_TIME, MIN_TIME

__all__ = ["record_times", "timer_time"]

_INTS = frozenset((int,))


def timer_time(time: Any) -> int:
    """The time of a timer as an int. As in Flink, the fraction of a number is cut off.

    >>> timer_time(10.7)
    10
    """
    if type(time) is not int:
        try:
            time = whole(time)
        except (TypeError, ValueError, ArithmeticError):
            raise StateError(
                f"a timer needs a time in milliseconds as an int, not {time!r} ({type(time).__name__})"
            ) from None
    if not MIN_TIME <= time <= MAX_TIME:
        raise StateError(f"a timer needs a time in milliseconds that fits 64 bits, not {time}")
    return int(time)


def record_times(times: list[Any], where: str) -> list[int]:
    """The timestamps that an assigner returned, as ints. As in Flink, the fraction of a number is cut off.

    >>> record_times([1, 2.7], "operator 'times'")
    [1, 2]
    """
    if not _INTS.issuperset(map(type, times)):
        times = [_record_time(time, where) for time in times]
    if times and not (min(times) >= MIN_TIME and max(times) <= MAX_TIME):
        wrong = next(time for time in times if not MIN_TIME <= time <= MAX_TIME)
        raise TypeMismatchError(f"{where}: extract_timestamp() must return a time that fits 64 bits, not {wrong}")
    return times


def _record_time(time: Any, where: str) -> int:
    try:
        return whole(time)
    except (TypeError, ValueError, ArithmeticError):
        raise TypeMismatchError(
            f"{where}: extract_timestamp() must return a time in milliseconds as an int, not {time!r} "
            f"({type(time).__name__})"
        ) from None
