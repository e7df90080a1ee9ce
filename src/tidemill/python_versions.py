"""What differs between the supported versions of Python. No other module distinguishes versions.

Python 3.10 lacks some names and behaviours of 3.11, which have a replacement here. What can be written in one way for
all versions is written that way: ``datetime.timezone.utc`` instead of ``datetime.UTC``.
"""

from __future__ import annotations

import datetime as dt
import logging
import re
import sqlite3
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

if sys.version_info >= (3, 11):
    from enum import StrEnum
    from typing import NotRequired, Required, Self
else:
    from enum import Enum

    from typing_extensions import NotRequired, Required, Self

    class StrEnum(str, Enum):
        """An enum whose members are strings."""

        __str__ = str.__str__


if TYPE_CHECKING:
    import asyncio

    StreamHandler = logging.StreamHandler[Any]
else:
    StreamHandler = logging.StreamHandler  # not generic in Python 3.10

__all__ = [
    "SAFELY",
    "SAFE_PATH",
    "NotRequired",
    "Required",
    "Self",
    "StrEnum",
    "StreamHandler",
    "add_note",
    "date_from_iso",
    "datetime_from_iso",
    "forget_cancellation",
    "pickled_state",
    "sqlite_error_code",
    "time_from_iso",
]

#: Whether Python was started so that it does not import files of the working directory, which 3.10 cannot do.
SAFE_PATH: Final = bool(getattr(sys.flags, "safe_path", False))
#: The option that starts Python like this. In 3.10, ``tidemill.__main__`` removes the directory instead.
SAFELY: Final = ["-P"] if sys.version_info >= (3, 11) else []


def add_note(error: BaseException, note: str) -> None:
    """Add a line to what is printed of an exception. Python 3.10 prints no notes: there it is added to the message."""
    if sys.version_info >= (3, 11):
        error.add_note(note)
    else:
        message, *others = error.args or ("",)
        error.args = (f"{message}\n{note}", *others)


def pickled_state(value: object) -> Any:
    """Return what ``value.__getstate__()`` returns; classes without such a method have object's, as in Python 3.11."""
    getter: Callable[[], Any] | None = getattr(value, "__getstate__", None)
    return object.__reduce_ex__(value, 2)[2] if getter is None else getter()


def forget_cancellation(task: asyncio.Task[Any]) -> None:
    """Make ``asyncio.timeout()`` in a task that has survived its cancellation work again. Python 3.10 has none."""
    if sys.version_info >= (3, 11):
        while task.cancelling():
            task.uncancel()


def sqlite_error_code(error: Exception) -> int:
    """Return SQLite's primary error code of an exception, 0 if it has none.

    In Python 3.10 it is known for locks of other connections only: 5, SQLITE_BUSY.
    """
    if sys.version_info >= (3, 11):
        return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF
    return 5 if isinstance(error, sqlite3.OperationalError) and " is locked" in str(error) else 0


# ----------------------------------------------------------------------------------------------- times in ISO 8601

if sys.version_info >= (3, 11):
    date_from_iso: Callable[[str], dt.date] = dt.date.fromisoformat
    time_from_iso: Callable[[str], dt.time] = dt.time.fromisoformat
    datetime_from_iso: Callable[[str], dt.datetime] = dt.datetime.fromisoformat
else:
    # Python 3.10 parses only what isoformat() writes: no Z, no 20240229, no fraction of any other length than 3 or 6.
    _CLOCK: Final = r"(\d\d)(?:(:?)(\d\d)(?:\{0}(\d\d)(?:[.,](\d+))?)?)?"
    _DATE: Final = re.compile(r"(\d{4})(-?)(\d\d)\2(\d\d)", re.ASCII)
    _WEEK: Final = re.compile(r"(\d{4})(-?)W(\d\d)(?:\2(\d))?", re.ASCII)
    _TIME: Final = re.compile(rf"T?{_CLOCK.format(2)}(?: ?(?:(Z)|([+-]){_CLOCK.format(9)}))?", re.ASCII)
    _MOMENT: Final = re.compile(r"(\d{4}-?(?:\d\d-?\d\d|W\d\d(?:-?\d(?!\d*:))?))(?:.(?!T)(.+))?", re.ASCII | re.DOTALL)

    def date_from_iso(text: str) -> dt.date:
        """Parse a date, as ``date.fromisoformat`` of Python 3.11 does."""
        found = _DATE.fullmatch(text)
        if found is not None:
            return dt.date(int(found[1]), int(found[3]), int(found[4]))
        found = _WEEK.fullmatch(text)
        if found is not None:
            return dt.date.fromisocalendar(int(found[1]), int(found[3]), int(found[4] or 1))
        raise ValueError(f"Invalid isoformat string: {text!r}")

    def time_from_iso(text: str) -> dt.time:
        """Parse a time of day, as ``time.fromisoformat`` of Python 3.11 does."""
        found = _TIME.fullmatch(text)
        if found is None:
            raise ValueError(f"Invalid isoformat string: {text!r}")
        hour, _, minute, second, fraction, utc, sign, *offset = found.groups()
        zone = dt.timezone.utc if utc else None
        if sign is not None:
            hours, _, minutes, seconds, parts = offset
            east = dt.timedelta(0, _number(seconds), _micros(parts), 0, _number(minutes), int(hours))
            zone = dt.timezone(east if sign == "+" else -east)
        return dt.time(int(hour), _number(minute), _number(second), _micros(fraction), zone)

    def datetime_from_iso(text: str) -> dt.datetime:
        """Parse a timestamp, as ``datetime.fromisoformat`` of Python 3.11 does."""
        found = _MOMENT.fullmatch(text)
        if found is None:
            raise ValueError(f"Invalid isoformat string: {text!r}")
        return dt.datetime.combine(date_from_iso(found[1]), time_from_iso(found[2] or "00"))

    def _number(text: str | None) -> int:
        return int(text or 0)

    def _micros(text: str | None) -> int:
        """Return microseconds of a fraction of a second; further digits are cut off."""
        return int((text or "0")[:6].ljust(6, "0"))
