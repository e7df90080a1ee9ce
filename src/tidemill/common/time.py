"""Durations and points in time."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta, timezone

__all__ = ["Duration", "Instant", "Length", "Time", "as_millis"]

_NANOS_PER_MILLI = 1_000_000
_NANOS_PER_SECOND = 1_000_000_000


@dataclass(frozen=True, order=True, slots=True)
class Duration:
    """A duration with nanosecond precision.

    >>> Duration.of_seconds(20).to_millis()
    20000
    >>> Duration.of_minutes(1) == Duration.of_seconds(60)
    True
    """

    nanos: int

    @staticmethod
    def of_days(days: int) -> Duration:
        return Duration.of_hours(days * 24)

    @staticmethod
    def of_hours(hours: int) -> Duration:
        return Duration.of_minutes(hours * 60)

    @staticmethod
    def of_minutes(minutes: int) -> Duration:
        return Duration.of_seconds(minutes * 60)

    @staticmethod
    def of_seconds(seconds: int) -> Duration:
        return Duration.of_nanos(seconds * _NANOS_PER_SECOND)

    @staticmethod
    def of_millis(millis: int) -> Duration:
        return Duration.of_nanos(millis * _NANOS_PER_MILLI)

    @staticmethod
    def of_nanos(nanos: int) -> Duration:
        return Duration(_whole(nanos))

    @staticmethod
    def of_timedelta(delta: timedelta) -> Duration:
        return Duration(delta // timedelta(microseconds=1) * 1000)

    def to_millis(self) -> int:
        """Whole milliseconds, rounded down."""
        return self.nanos // _NANOS_PER_MILLI

    def to_nanos(self) -> int:
        return self.nanos

    def to_timedelta(self) -> timedelta:
        """As a ``timedelta``, rounded down to microseconds."""
        return timedelta(microseconds=self.nanos // 1000)

    def __str__(self) -> str:
        if self.nanos % _NANOS_PER_MILLI:
            return f"{self.nanos} ns"
        millis = self.to_millis()
        return f"{millis // 1000} s" if millis and millis % 1000 == 0 else f"{millis} ms"

    def __repr__(self) -> str:
        return f"Duration<{self}>"


@dataclass(frozen=True, order=True, slots=True)
class Instant:
    """A point in time: seconds since 1970-01-01T00:00Z plus nanoseconds (0 to 999 999 999).

    >>> Instant.of_epoch_milli(-1)
    Instant<-1, 999000000>
    >>> Instant.of_epoch_milli(-1).to_epoch_milli()
    -1
    """

    seconds: int
    nanos: int

    def __post_init__(self) -> None:
        if not 0 <= self.nanos < _NANOS_PER_SECOND:
            raise ValueError(f"nanos must be at least 0 and below 1 000 000 000, not {self.nanos}")

    def to_epoch_milli(self) -> int:
        """Milliseconds since the epoch, rounded down."""
        return self.seconds * 1000 + self.nanos // _NANOS_PER_MILLI

    @staticmethod
    def of_epoch_milli(epoch_milli: int) -> Instant:
        seconds, millis = divmod(epoch_milli, 1000)
        return Instant(seconds, millis * _NANOS_PER_MILLI)

    @staticmethod
    def of_datetime(moment: datetime) -> Instant:
        """Converts a ``datetime``. Without a time zone it is interpreted as UTC."""
        aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=timezone.utc)
        micros = (aware - datetime(1970, 1, 1, tzinfo=timezone.utc)) // timedelta(microseconds=1)
        seconds, micros = divmod(micros, 1_000_000)
        return Instant(seconds, micros * 1000)

    def __repr__(self) -> str:
        return f"Instant<{self.seconds}, {self.nanos}>"


@dataclass(frozen=True, order=True, slots=True, repr=False)
class Time:
    """A duration in milliseconds, as used by windows.

    >>> str(Time.seconds(5))
    '5000 ms'
    """

    _milliseconds: int

    def __init__(self, milliseconds: int) -> None:  # explicit, because a field of this name would hide the method
        object.__setattr__(self, "_milliseconds", milliseconds)

    def to_milliseconds(self) -> int:
        return self._milliseconds

    @staticmethod
    def milliseconds(milliseconds: int) -> Time:
        return Time(milliseconds)

    @staticmethod
    def seconds(seconds: int) -> Time:
        return Time.milliseconds(seconds * 1000)

    @staticmethod
    def minutes(minutes: int) -> Time:
        return Time.seconds(minutes * 60)

    @staticmethod
    def hours(hours: int) -> Time:
        return Time.minutes(hours * 60)

    @staticmethod
    def days(days: int) -> Time:
        return Time.hours(days * 24)

    def __str__(self) -> str:
        return f"{self._milliseconds} ms"

    def __repr__(self) -> str:
        return f"Time<{self}>"


#: A duration in any of the accepted forms; a plain number is in milliseconds.
Length = Duration | Time | timedelta | int


def as_millis(length: Length) -> int:
    """Convert a duration in any accepted form to milliseconds. A plain number is already in milliseconds.

    >>> as_millis(Duration.of_seconds(1)), as_millis(Time.seconds(1)), as_millis(timedelta(seconds=1)), as_millis(1000)
    (1000, 1000, 1000, 1000)
    """
    if isinstance(length, Duration):
        return length.to_millis()
    if isinstance(length, Time):
        return length.to_milliseconds()
    if isinstance(length, timedelta):
        return length // timedelta(milliseconds=1)
    return _whole(length)


def offset_millis(offset: Length | None) -> int:
    """Convert the offset of windows to milliseconds; None is no offset."""
    return 0 if offset is None else as_millis(offset)


def _whole(number: object) -> int:
    if isinstance(number, bool) or not isinstance(number, int):
        raise TypeError(f"expected a Duration, Time, timedelta or whole number, not {type(number).__name__}")
    return number
