"""Formats records as text the way Flink formats records of a declared type, which follows Java's ``toString``."""

from __future__ import annotations

import datetime as dt
import math
from array import array
from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import Any, Final

from tidemill.common.time import Instant
from tidemill.common.types import Row

__all__ = ["double_text", "record_text"]

_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)
_SECONDS_OF_400_YEARS: Final = 146_097 * 86_400


def record_text(value: Any) -> str:
    """Format a record as text.

    >>> record_text(("to", 2)), record_text(True), record_text(1e20), record_text(None)
    ('(to,2)', 'true', '1.0E20', 'null')
    >>> record_text(Row(id=1, tags=["a", "b"])), record_text({"a": 1})
    ('+I[1, [a, b]]', '{a=1}')
    """
    written = _TEXTS.get(type(value))
    return str(value) if written is None else written(value)


def _texts(values: Iterable[Any], between: str) -> str:
    return between.join([record_text(value) for value in values])


def _tuple(value: tuple[Any, ...]) -> str:
    return f"({_texts(value, ',')})"


def _list(value: Iterable[Any]) -> str:
    return f"[{_texts(value, ', ')}]"


def _dict(value: dict[Any, Any]) -> str:
    return "{" + ", ".join(f"{record_text(key)}={record_text(item)}" for key, item in value.items()) + "}"


def _row(value: Row) -> str:
    return f"{value.get_row_kind()}[{_texts(value, ', ')}]"


def double_text(value: float) -> str:
    """Format as Java does: always with a decimal point, and with an exponent below 0.001 and from 10,000,000."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    sign, digits, exponent = Decimal(repr(value)).as_tuple()
    figures = "".join(map(str, digits)).rstrip("0") or "0"
    # The number is 0.figures times ten to this power.
    power = len(digits) + int(exponent) if figures != "0" else 1
    minus = "-" if sign else ""
    if -3 < power <= 7:
        whole, fraction = (figures[:power].ljust(power, "0"), figures[power:]) if power > 0 else ("0", figures)
        return f"{minus}{whole}.{'0' * max(-power, 0)}{fraction or '0'}"
    return f"{minus}{figures[0]}.{figures[1:] or '0'}E{power - 1}"


def _timestamp(value: dt.datetime) -> str:
    fraction = f"{value.microsecond:06}".rstrip("0") or "0"
    return f"{value.replace(tzinfo=None).isoformat(' ', 'seconds')}.{fraction}"


def _instant(value: Instant) -> str:
    # The calendar repeats every 400 years. Python's covers the years 1 to 9999 only.
    cycles, seconds = divmod(value.seconds, _SECONDS_OF_400_YEARS)
    moment = _EPOCH + dt.timedelta(seconds=seconds)
    year = moment.year + 400 * cycles
    sign = "-" if year < 0 else "+" if year > 9999 else ""
    nanos = f"{value.nanos:09}"
    fraction = nanos[: next(length for length in (0, 3, 6, 9) if not int(nanos[length:] or 0))]
    return f"{sign}{abs(year):04}-{moment:%m-%dT%H:%M:%S}{'.' if fraction else ''}{fraction}Z"


_TEXTS: Final[dict[type, Callable[[Any], str]]] = {
    type(None): lambda value: "null",
    bool: lambda value: "true" if value else "false",
    float: double_text,
    tuple: _tuple,
    list: _list,
    array: _list,
    dict: _dict,
    Row: _row,
    dt.datetime: _timestamp,
    dt.time: lambda value: f"{value:%H:%M:%S}",
    Instant: _instant,
}
