"""Converts the rows of a query to records."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, Final

from tidemill.common.time import Instant
from tidemill.common.type_kinds.basic import BasicType, BasicTypeInfo, SqlTimeTypeInfo
from tidemill.common.type_kinds.composite import OptionalTypeInfo, RowTypeInfo, TupleTypeInfo
from tidemill.common.typeinfo import TypeInformation
from tidemill.common.types import Row
from tidemill.errors import ConfigurationError, TypeMismatchError
from tidemill.python_versions import date_from_iso, datetime_from_iso, time_from_iso

__all__ = ["RecordMaker"]


class RecordMaker:
    """Converts the rows of a query to rows with its column names, or to records of a declared type.

    >>> from tidemill.common import Types
    >>> RecordMaker(None).make(["id", "name"], [(1, "a")])
    [Row(id=1, name='a')]
    >>> RecordMaker(Types.TUPLE([Types.LONG(), Types.DOUBLE()])).make(["id", "price"], [(1, Decimal("2.50"))])
    [(1, 2.5)]
    """

    def __init__(self, type_info: TypeInformation | None) -> None:
        self._type = type_info
        self._fields: Sequence[TypeInformation] | None = None
        self._names: Sequence[str] | None = None
        if isinstance(type_info, (RowTypeInfo, TupleTypeInfo)):
            self._fields = type_info.get_field_types()
        elif type_info is not None:
            self._fields = [type_info]
            if not isinstance(type_info, (BasicTypeInfo, *_TIME_TYPES)):
                raise ConfigurationError(
                    f"a query returns rows, tuples or, for a single column, basic values; not {type_info}"
                )
        if isinstance(type_info, RowTypeInfo):
            self._names = type_info.get_field_names()

    def make(self, names: Sequence[str], rows: Sequence[Sequence[Any]]) -> list[Any]:
        """Return the records. Raises :class:`TypeMismatchError` with the first row that does not fit the type."""
        columns: list[Sequence[Any]] = list(zip(*rows, strict=True))
        if self._type is None or self._fields is None:
            return list(Row.of_columns(names, columns))
        if len(names) != len(self._fields):
            raise TypeMismatchError(
                f"the query has {len(names)} columns ({', '.join(names)}), but {self._type} has a different number of "
                "fields"
            )
        for index, field in enumerate(self._fields):
            convert = _reader(field)
            if convert is not None:
                columns[index] = [None if value is None else convert(value) for value in columns[index]]
        if self._names is not None:
            records: list[Any] = list(Row.of_columns(self._names, columns))
        elif isinstance(self._type, TupleTypeInfo):
            records = list(zip(*columns, strict=True))
        else:
            records = list(columns[0])
        self._check(records)
        return records

    def _check(self, records: list[Any]) -> None:
        if self._type is None or self._type.fast_check()(records):
            return
        for record in records:
            try:
                self._type.validate(record)
            except TypeMismatchError as error:
                raise TypeMismatchError(f"{error} The row is {record!r}.") from None


def _reader(field: TypeInformation) -> Callable[[Any], Any] | None:
    """Return a function that converts database values to the type; None if no conversion is needed."""
    if isinstance(field, OptionalTypeInfo):
        return _reader(field.elem_type)
    if isinstance(field, BasicTypeInfo):
        return _BASIC.get(field.basic_type)
    return _TIMES.get(field)


def _float(value: Any) -> Any:
    return float(value) if isinstance(value, Decimal) else value


def _boolean(value: Any) -> Any:
    return bool(value) if value in (0, 1) else value


def _decimal(value: Any) -> Any:
    return Decimal(value) if isinstance(value, (int, str)) else value


def _instant(value: Any) -> Any:
    if isinstance(value, str):
        value = datetime_from_iso(value)
    return Instant.of_datetime(value) if isinstance(value, dt.datetime) else value


def _from_text(parse: Callable[[str], Any]) -> Callable[[Any], Any]:
    return lambda value: parse(value) if isinstance(value, str) else value


_BASIC: Final[dict[BasicType, Callable[[Any], Any]]] = {
    BasicType.FLOAT: _float,
    BasicType.DOUBLE: _float,
    BasicType.BOOLEAN: _boolean,
    BasicType.BIG_DEC: _decimal,
    BasicType.BIG_INT: _from_text(int),
    BasicType.INSTANT: _instant,
}
_TIMES: Final[dict[TypeInformation, Callable[[Any], Any]]] = {
    SqlTimeTypeInfo.DATE(): _from_text(date_from_iso),
    SqlTimeTypeInfo.TIME(): _from_text(time_from_iso),
    SqlTimeTypeInfo.TIMESTAMP(): _from_text(datetime_from_iso),
}
_TIME_TYPES: Final = tuple(map(type, _TIMES))
