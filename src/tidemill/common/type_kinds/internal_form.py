"""The internal form of values: plain numbers and tuples, as PyFlink's ``to_internal_type`` returns them.

Tidemill does not use it: it is for programs and tests that call these methods. A date is its days since 1970-01-01, a
time of day and a point in time are microseconds, and a row or tuple is a tuple.
"""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Mapping
from typing import Any, Final

from tidemill.common.time import Instant
from tidemill.common.types import Row

__all__ = ["EPOCH_DAY", "from_internal", "is_converted", "to_internal"]

EPOCH_DAY: Final = dt.date(1970, 1, 1).toordinal()
_SECOND: Final = 1_000_000
_DAY: Final = 86_400 * _SECOND
_LISTS: Final = ("list", "object_array", "basic_array", "primitive_array")
_TIMES: Final = ("sql_date", "sql_time", "sql_timestamp")


def is_converted(type_info: Any) -> bool:
    """Whether values of a type have another internal form."""
    kind = type_info.kind
    if kind in _TIMES or kind in ("row", "tuple"):
        return True
    if kind in _LISTS:
        return is_converted(type_info.elem_type)
    if kind == "map":
        return is_converted(type_info.key_type) or is_converted(type_info.value_type)
    return repr(type_info) == "Instant"


def to_internal(type_info: Any, value: Any) -> Any:
    """The internal form of a value. None stays None."""
    if value is None or not is_converted(type_info):
        return value
    kind = type_info.kind
    if kind in ("row", "tuple"):
        fields = _fields_of(type_info, value)
        return tuple([to_internal(field, one) for field, one in zip(type_info.get_field_types(), fields, strict=True)])
    if kind in _LISTS:
        return [to_internal(type_info.elem_type, one) for one in value]
    if kind == "map":
        key, item = type_info.key_type, type_info.value_type
        return {to_internal(key, one): to_internal(item, of_it) for one, of_it in value.items()}
    if kind == "sql_date":
        return value.toordinal() - EPOCH_DAY
    if kind == "sql_time":
        offset = value.utcoffset() or dt.timedelta()
        seconds = value.hour * 3600 + value.minute * 60 + value.second
        return seconds * _SECOND + value.microsecond - offset // dt.timedelta(microseconds=1)
    if kind == "sql_timestamp":
        seconds = int(value.timestamp()) if value.tzinfo else int(time.mktime(value.timetuple()))
        return seconds * _SECOND + value.microsecond
    return value.to_epoch_milli() * 1000


def from_internal(type_info: Any, value: Any) -> Any:
    """The value with this internal form. None stays None."""
    if value is None or not is_converted(type_info):
        return value
    kind = type_info.kind
    if kind in ("row", "tuple"):
        found = [from_internal(field, one) for field, one in zip(type_info.get_field_types(), value, strict=True)]
        if kind == "tuple":
            return tuple(found)
        row = Row(*found)
        row.set_field_names(type_info.get_field_names())
        return row
    if kind in _LISTS:
        return [from_internal(type_info.elem_type, one) for one in value]
    if kind == "map":
        key, item = type_info.key_type, type_info.value_type
        return {from_internal(key, one): from_internal(item, of_it) for one, of_it in value.items()}
    if kind == "sql_date":
        return dt.date.fromordinal(value + EPOCH_DAY)
    if kind == "sql_time":
        return (dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc) + dt.timedelta(microseconds=value % _DAY)).time()
    if kind == "sql_timestamp":
        here = dt.datetime.fromtimestamp(value // _SECOND, dt.timezone.utc).astimezone()
        return here.replace(tzinfo=None, microsecond=value % _SECOND)
    return Instant.of_epoch_milli(value // 1000)


def _fields_of(type_info: Any, value: Any) -> list[Any]:
    if type_info.kind == "tuple" or isinstance(value, (tuple, list, Row)):
        return list(value)
    names = type_info.get_field_names()
    if isinstance(value, Mapping):
        return [value.get(name) for name in names]
    return [getattr(value, name, None) for name in names]
