"""What Flink's serializers make of a value that is not exactly of its declared type.

Each function converts one value, or raises ``TypeError``, ``ValueError`` or ``ArithmeticError`` if Flink refuses it.
The types call them only for batches that do not fit.
"""

from __future__ import annotations

import datetime as dt
from array import array
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

from tidemill.common.time import Instant

__all__ = [
    "Coercion",
    "big_decimal",
    "date",
    "instant",
    "moment",
    "real",
    "single",
    "singles",
    "text",
    "time_of_day",
    "truth",
    "whole",
]

Coercion = Callable[[Any], Any]

_TEXTS = (str, bytes, bytearray)


def whole(value: Any) -> int:
    """An int. The fraction of any kind of number is cut off; text is not a number.

    >>> whole(1.5), whole(Decimal("-3.7")), whole(True)
    (1, -3, 1)
    """
    if isinstance(value, _TEXTS) or not hasattr(type(value), "__int__"):
        raise TypeError(value)
    return int(value)


def real(value: Any) -> float:
    """A float.

    >>> real(1), real(Decimal("0.1"))
    (1.0, 0.1)
    """
    if isinstance(value, _TEXTS):
        raise TypeError(value)
    return float(value)


def single(value: Any) -> float:
    """The float of single precision that is nearest to a number; numbers that are too large become infinite.

    >>> single(0.1), single(1e39)
    (0.10000000149011612, inf)
    """
    return singles((real(value),))[0]


def singles(values: Sequence[float]) -> list[float]:
    """Many floats in single precision, at C speed."""
    return array("f", values).tolist()


def truth(value: Any) -> bool:
    """A boolean from a number: its integer part must be one unsigned byte, and is true if it is not 0.

    >>> truth(2), truth(0.5)
    (True, False)
    """
    number = whole(value)
    if not 0 <= number <= 255:
        raise ValueError(value)
    return number != 0


def text(value: Any) -> str:
    """A ``str``; an instance of a subclass becomes a plain one."""
    if not isinstance(value, str):
        raise TypeError(value)
    return str.__str__(value)  # str() would call the __str__ of the subclass


def big_decimal(value: Any) -> Decimal:
    """A decimal, from the text of a number.

    >>> big_decimal(1), big_decimal(0.1), big_decimal("1.50")
    (Decimal('1'), Decimal('0.1'), Decimal('1.50'))
    """
    return value if type(value) is Decimal else Decimal(str(value))


def date(value: Any) -> dt.date:
    """A date, also that of a ``datetime``."""
    if not isinstance(value, dt.date):
        raise TypeError(value)
    return value if type(value) is dt.date else dt.date(value.year, value.month, value.day)


def time_of_day(value: Any) -> dt.time:
    """A time in milliseconds, without a time zone; also that of a ``datetime``."""
    if not isinstance(value, (dt.time, dt.datetime)):
        raise TypeError(value)
    return dt.time(value.hour, value.minute, value.second, _milliseconds(value))


def moment(value: Any) -> dt.datetime:
    """A date and time in milliseconds, as it is written, without its time zone."""
    if not isinstance(value, dt.datetime):
        raise TypeError(value)
    return dt.datetime(  # noqa: DTZ001 - Flink's timestamps have no zone
        value.year, value.month, value.day, value.hour, value.minute, value.second, _milliseconds(value)
    )


def instant(value: Any) -> Instant:
    """An instant. No other type is converted to one."""
    if not isinstance(value, Instant):
        raise TypeError(value)
    return value


def _milliseconds(value: dt.time | dt.datetime) -> int:
    return value.microsecond // 1000 * 1000
