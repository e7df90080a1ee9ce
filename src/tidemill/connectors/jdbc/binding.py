"""Converts records to the parameters of a statement."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta, timezone
from typing import Any, Final

from tidemill.common.time import Instant
from tidemill.common.type_kinds.composite import RowTypeInfo, TupleTypeInfo
from tidemill.common.typeinfo import TypeInformation
from tidemill.common.types import Row
from tidemill.errors import ConfigurationError, TypeMismatchError

__all__ = ["Converter", "RecordBinder", "as_bytes", "fields_of_type", "instant_to_datetime", "refused"]

#: Converts a value to a parameter; None if no conversion is needed. Never called with None.
Converter = Callable[[Any], Any] | None

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=timezone.utc)


def fields_of_type(type_info: TypeInformation) -> tuple[list[str], list[TypeInformation]]:
    """Return the names and types of the fields of a type. Raises an error for a type without fields.

    >>> from tidemill.common import Types
    >>> fields_of_type(Types.TUPLE([Types.STRING(), Types.LONG()]))
    (['f0', 'f1'], [String, Long])
    """
    if isinstance(type_info, TupleTypeInfo):
        types = type_info.get_field_types()
        return [f"f{number}" for number in range(len(types))], types
    names = getattr(type_info, "get_field_names", None)
    types_of = getattr(type_info, "get_field_types", None)
    if names is None or types_of is None:
        raise ConfigurationError(
            f"a database sink requires records with fields, but {type_info} has none: declare "
            "Types.ROW_NAMED([...], [...]), Types.TUPLE([...]) or a dataclass, and map the stream to it"
        )
    return list(names()), list(types_of())


class RecordBinder:
    """Converts records of one type to rows of parameters."""

    def __init__(self, type_info: TypeInformation, converters: Sequence[Converter]) -> None:
        self._type = type_info
        self._names = tuple(fields_of_type(type_info)[0])
        self._is_row = isinstance(type_info, RowTypeInfo)
        self._is_tuple = isinstance(type_info, TupleTypeInfo)
        self._fast_check = type_info.fast_check()
        self._converters = [(index, convert) for index, convert in enumerate(converters) if convert is not None]

    def bind(self, records: Sequence[Any]) -> list[Sequence[Any]]:
        """Return one row for each record. Raises :class:`TypeMismatchError` with the first record of another type."""
        if not self._fast_check(records):
            for record in records:
                try:
                    self._type.validate(record)
                except TypeMismatchError as error:
                    raise TypeMismatchError(f"{error} The record is {record!r}.") from None
        rows = [self._fields(record) for record in records]
        if not self._converters:
            return rows
        columns = list(zip(*rows, strict=True))
        for index, convert in self._converters:
            columns[index] = tuple(None if value is None else convert(value) for value in columns[index])
        return list(zip(*columns, strict=True))

    def _fields(self, record: Any) -> Sequence[Any]:
        names = self._names
        if self._is_tuple:
            return record if isinstance(record, tuple) else list(record)
        if not self._is_row:
            return [getattr(record, name) for name in names]
        if isinstance(record, Row):
            own = record.get_field_names()
            return list(record) if own is None or own == names else record.get_fields_by_names(names)
        if isinstance(record, Mapping):
            return [record.get(name) for name in names]
        if isinstance(record, (tuple, list)):
            return record
        return [getattr(record, name, None) for name in names]


def instant_to_datetime(instant: Instant) -> datetime:
    """Convert an instant to a datetime in UTC, with microsecond precision.

    >>> instant_to_datetime(Instant(1, 500_000_000)).isoformat()
    '1970-01-01T00:00:01.500000+00:00'
    """
    return _EPOCH + timedelta(seconds=instant.seconds, microseconds=instant.nanos // 1000)


def as_bytes(value: Any) -> bytes:
    """Convert a value to bytes; lists contain Flink's signed bytes."""
    return bytes(value) if isinstance(value, (bytes, bytearray)) else bytes(byte & 0xFF for byte in value)


def refused(field_type: TypeInformation, place: str, database: str) -> TypeMismatchError:
    """Create the error for a type that has no counterpart in a database."""
    return TypeMismatchError(
        f"{place} has type {field_type}, which has no counterpart in {database}: map it to a string (for example, "
        "JSON) or to several fields first"
    )
