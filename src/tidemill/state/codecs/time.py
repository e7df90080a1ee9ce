"""Codecs of dates and times."""

from __future__ import annotations

import datetime as dt
from typing import Any, ClassVar

import pyarrow as pa

from tidemill.state.codecs.base import NONE, ColumnCodec, kinds_of, refuse, to_list
from tidemill.state.codecs.tagged import TaggedCodec

__all__ = ["DateCodec", "TimeCodec", "TimestampCodec"]


class _TimeCodec(ColumnCodec):
    """Dates and times without a time zone. A batch with others (zones, fold, subclasses) becomes a tagged column."""

    _python_type: ClassVar[type[Any]]

    def _encode(self, values: list[Any], *, exact: bool) -> tuple[ColumnCodec, Any]:
        if kinds_of(values) <= {self._python_type, NONE} and all(map(self._is_plain, values)):
            return self, pa.array(values, self.arrow_type)
        if exact:
            refuse(values, f"a {self.name} without time zone and fold", self._is_plain)
        if not all(value is None or self._accepts(value) for value in values):
            refuse(values, f"a {self._python_type.__name__}", self._accepts)
        return TaggedCodec()._encode(values, exact=False)

    def _accepts(self, value: Any) -> bool:
        return isinstance(value, self._python_type)

    def _is_plain(self, value: Any) -> bool:
        if value is None:
            return True
        exact = type(value) is self._python_type
        return exact and value.tzinfo is None and not value.fold

    def decode(self, array: Any) -> list[Any]:
        return to_list(array)  # datetime64.tolist() creates dates and datetimes in C, None for NaT


class DateCodec(_TimeCodec):
    """date32."""

    name = "date"
    arrow_type = pa.date32()
    _python_type = dt.date

    def _accepts(self, value: Any) -> bool:
        return isinstance(value, dt.date) and not isinstance(value, dt.datetime)

    def _is_plain(self, value: Any) -> bool:
        return value is None or type(value) is dt.date


class TimestampCodec(_TimeCodec):
    """timestamp of microseconds, no time zone."""

    name = "timestamp"
    arrow_type = pa.timestamp("us")
    _python_type = dt.datetime


class TimeCodec(_TimeCodec):
    """time64 of microseconds."""

    name = "time"
    arrow_type = pa.time64("us")
    _python_type = dt.time

    def decode(self, array: Any) -> list[Any]:
        values: list[Any] = array.to_pylist()
        return values
