"""Converts text to values of Spark's types, with the rules of Spark's CSV reader."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Decimal, localcontext
from typing import Any, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from tidemill.connectors.spark.schema_types import Atom
from tidemill.errors import GraphError

__all__ = ["BITS", "Parse", "date_of", "decimal_of", "decimal_parser", "moment_of", "text_parser", "wall_clock_of"]

Parse = Callable[[str], Any]

#: The number of bits of each integer type.
BITS: Final = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}
_INTEGER: Final = re.compile(r"[+-]?\d+")
_DECIMAL: Final = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_FLOAT: Final = re.compile(rf"\s*({_DECIMAL.pattern})[fFdD]?\s*", re.ASCII)
_INFINITE: Final = re.compile(r"\s*([+-]?)(Infinity|NaN)\s*", re.ASCII)
_BOOLEANS: Final = {"true": True, "false": False}
_DATE: Final = re.compile(r"\s*(\d{4})(?:-(\d{1,2})(?:-(\d{1,2})(?:[ T].*)?)?)?\s*", re.ASCII | re.DOTALL)
_MOMENT: Final = re.compile(
    r"\s*(\d{4})(?:-(\d{1,2})(?:-(\d{1,2})"
    r"(?:[ T](\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.(\d{1,9}))?)?\s*(\S.*?)?)?)?)?\s*",
    re.ASCII,
)
_OFFSET: Final = re.compile(r"(?:UTC|GMT)?([+-])(\d{1,2}):(\d{2})(?::(\d{2}))?", re.ASCII)
_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)
_MICROSECOND: Final = dt.timedelta(microseconds=1)


def text_parser(kind: Atom, zone: dt.tzinfo | None) -> Parse:
    """Return the parser of a type: it raises ``ValueError`` or ``ArithmeticError`` for text that does not fit.

    ``zone`` is the time zone of timestamps without one; None is that of this machine.
    """
    if kind.name in BITS:
        return _integer_parser(BITS[kind.name])
    if kind.name == "DECIMAL":
        return decimal_parser(*kind.parameters)
    if kind.name == "TIMESTAMP":
        return lambda text: moment_of(text, zone)
    found: dict[str, Parse] = {
        "STRING": lambda text: text,
        "BINARY": str.encode,
        "BOOLEAN": _boolean,
        "FLOAT": _float,
        "DOUBLE": _float,
        "DATE": date_of,
        "TIMESTAMP_NTZ": wall_clock_of,
    }
    if kind.name not in found:
        raise GraphError(f"execution.target: local cannot read {kind} from text")
    return found[kind.name]


def _integer_parser(bits: int) -> Parse:
    low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1

    def parse(text: str) -> int:
        if _INTEGER.fullmatch(text) is None:
            raise ValueError(text)
        number = int(text)
        if not low <= number <= high:
            raise ValueError(text)
        return number

    return parse


def _boolean(text: str) -> bool:
    found = _BOOLEANS.get(text.lower())
    if found is None:
        raise ValueError(text)
    return found


def _float(text: str) -> float:
    found = _FLOAT.fullmatch(text)
    if found is not None:
        return float(found[1])
    if text in ("Inf", "-Inf"):
        return float(text)
    infinite = _INFINITE.fullmatch(text)
    if infinite is None:
        raise ValueError(text)
    return float(infinite[1] + infinite[2]) if infinite[2] != "NaN" else float("nan")


def decimal_parser(precision: int, scale: int) -> Parse:
    """Return a parser of decimals, in which commas are ignored."""
    return lambda text: decimal_of(text.replace(",", ""), precision, scale)


def decimal_of(text: str, precision: int, scale: int) -> Decimal:
    """Round a number to a scale, half up. Raises ``ValueError`` if it has too many digits."""
    if _DECIMAL.fullmatch(text) is None:
        raise ValueError(text)
    with localcontext() as context:
        context.prec = 1000
        rounded = Decimal(text).quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP)
    if rounded and rounded.adjusted() + 1 + scale > precision:
        raise ValueError(text)
    return rounded


def date_of(text: str) -> dt.date:
    """Parse a date: ``2024-01-02``, also without day or month, or with a time, which is ignored."""
    found = _DATE.fullmatch(text)
    if found is None:
        raise ValueError(text)
    return dt.date(int(found[1]), int(found[2] or 1), int(found[3] or 1))


def moment_of(text: str, zone: dt.tzinfo | None) -> int:
    """Parse a timestamp, as microseconds since 1970."""
    local, named = _moment_parts(text)
    if named is not None:
        local = local.replace(tzinfo=_zone(named))
    elif zone is not None:
        local = local.replace(tzinfo=zone)
    return (local.astimezone(dt.timezone.utc) - _EPOCH) // _MICROSECOND


def wall_clock_of(text: str) -> int:
    """Parse a timestamp that has no time zone, as microseconds since 1970 on its own clock."""
    local, named = _moment_parts(text)
    if named is not None:
        raise ValueError(text)
    return (local.replace(tzinfo=dt.timezone.utc) - _EPOCH) // _MICROSECOND


def _moment_parts(text: str) -> tuple[dt.datetime, str | None]:
    found = _MOMENT.fullmatch(text)
    if found is None:
        raise ValueError(text)
    year, month, day, hour, minute, second, fraction, zone = found.groups()
    micros = int((fraction or "0").ljust(6, "0")[:6])
    local = dt.datetime(  # noqa: DTZ001 - the zone follows in the text
        int(year), int(month or 1), int(day or 1), int(hour or 0), int(minute or 0), int(second or 0), micros
    )
    return local, zone


def _zone(name: str) -> dt.tzinfo:
    if name in ("Z", "UTC", "GMT"):
        return dt.timezone.utc
    offset = _OFFSET.fullmatch(name)
    if offset is not None:
        sign, hours, minutes, seconds = offset.groups()
        away = dt.timedelta(hours=int(hours), minutes=int(minutes), seconds=int(seconds or 0))
        return dt.timezone(away if sign == "+" else -away)
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, OSError) as error:
        raise ValueError(name) from error
