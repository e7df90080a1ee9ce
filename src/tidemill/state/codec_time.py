"""Codecs of dates and times."""

from __future__ import annotations

import datetime as dt
from typing import Any, ClassVar

import pyarrow as pa

from tidemill.state.codec_base import NONE, ColumnCodec, kinds_of, refuse, to_list
from tidemill.state.codec_tagged import TaggedCodec

__all__ = ["DateCodec", "TimeCodec", "TimestampCodec"]


class _TimeCodec(ColumnCodec):
    """Dates and times of no time zone. A batch with others (time zones, fold, subclasses) becomes a tagged column."""

    _python_type: ClassVar[type]

    def _encode(self, values: list[Any], *, exact: bool) -> tuple[ColumnCodec, Any]:
        kind = self._python_type
        if not kinds_of(values) <= {kind, NONE} or not self._naive(values):
            fits = [value is None or (isinstance(value, kind) and self._naive([value])) for value in values]
            if exact or not all(value is None or isinstance(value, kind) for value in values):
                refuse(values, f"a {kind.__name__} of no time zone", lambda value: fits[values.index(value)])
            return TaggedCodec()._encode(values, exact=False)
        return self, pa.array(values, self.arrow_type)

    def _naive(self, values: list[Any]) -> bool:
        return not any(value.tzinfo is not None or value.fold for value in values if value is not None)

    def decode(self, array: Any) -> list[Any]:
        return to_list(array)  # datetime64.tolist() makes dates and datetimes in C, None for NaT


class DateCodec(_TimeCodec):
    """date32."""

    name = "date"
    arrow_type = pa.date32()
    _python_type = dt.date

    def _naive(self, values: list[Any]) -> bool:
        return not any(isinstance(value, dt.datetime) for value in values)


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
