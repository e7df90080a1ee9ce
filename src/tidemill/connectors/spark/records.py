"""Converts records to Arrow columns of a schema, for Parquet files and Spark's DataFrames."""

from __future__ import annotations

import dataclasses
import datetime as dt
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from tidemill.common.time import Instant
from tidemill.common.types import Row
from tidemill.connectors.spark.schema_types import ArrayOf, MapOf, SparkType, StructOf
from tidemill.connectors.spark.type_mapping import arrow_schema_of
from tidemill.errors import TypeMismatchError

__all__ = ["RecordColumns"]

Convert = Callable[[Any], Any]

_INTEGERS = frozenset({"TINYINT", "SMALLINT", "INT", "BIGINT"})
_PLAIN = frozenset({int, type(None)})
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)


class RecordColumns:
    """Converts batches of records to Arrow batches of one schema.

    A record is a row, a tuple, a dict, a dataclass or, if the schema has only one column, that column's value. Rows
    with field names, dicts and dataclasses are read by name, everything else by position.

    >>> from tidemill.connectors.spark.schema_types import parse_schema
    >>> columns = RecordColumns(parse_schema("id LONG, name STRING"))
    >>> columns.batch([Row(id=1, name="a"), (2, None)]).to_pylist()
    [{'id': 1, 'name': 'a'}, {'id': 2, 'name': None}]
    """

    def __init__(self, schema: StructOf) -> None:
        self.arrow_schema = arrow_schema_of(schema)
        self._schema = schema
        self._names = schema.names
        # The default names of rows without field names, unless the schema has a column with such a name.
        given = tuple(f"f{index}" for index in range(len(schema.names)))
        self._unnamed = None if set(given) & set(schema.names) else given
        self._converters = [_converter(field.type) for field in schema.fields]

    def batch(self, records: Sequence[Any]) -> pa.RecordBatch:
        """Convert records to columns. Raises :class:`TypeMismatchError`, which contains the column and the record."""
        rows = [self._fields_of(record) for record in records]
        lists = list(zip(*rows, strict=True)) if rows else [()] * len(self._names)
        arrays = [self._column(index, column, records) for index, column in enumerate(lists)]
        return pa.RecordBatch.from_arrays(arrays, schema=self.arrow_schema)

    def _column(self, index: int, values: Sequence[Any], records: Sequence[Any]) -> pa.Array:
        field, kind = self._schema.fields[index], self.arrow_schema.field(index).type
        convert = self._converters[index]
        if convert is operator.index and _PLAIN.issuperset(map(type, values)):
            convert = None
        try:
            array = pa.array(values if convert is None else [_optional(convert, value) for value in values], kind)
        except (pa.ArrowException, TypeMismatchError, TypeError, ValueError, OverflowError, AttributeError):
            raise self._mismatch(index, kind, values, records) from None
        if array.null_count and not field.nullable:
            record = records[next(place for place, value in enumerate(values) if value is None)]
            raise TypeMismatchError(f"column {field.name!r} is NOT NULL, but it is None in record {record!r}")
        return array

    def _mismatch(self, index: int, kind: pa.DataType, values: Sequence[Any], records: Sequence[Any]) -> Exception:
        """Create the error for the first value that does not fit."""
        field, convert = self._schema.fields[index], self._converters[index]
        for value, record in zip(values, records, strict=True):
            try:
                pa.array([value if convert is None else _optional(convert, value)], kind)
            except Exception as error:
                return TypeMismatchError(
                    f"column {field.name!r} is {field.type}, which {value!r} does not fit: {error}. Record: {record!r}"
                )
        return TypeMismatchError(f"column {field.name!r} is {field.type}, which its values, as a batch, do not fit")

    def _fields_of(self, record: Any) -> Sequence[Any]:
        names = self._names
        if isinstance(record, Row):
            if record._fields is None or record._fields == names or record._fields == self._unnamed:
                values: Sequence[Any] = record._values
            else:
                values = _by_name(record.as_dict(), names, record)
        elif isinstance(record, tuple):
            values = record
        elif isinstance(record, Mapping) and not self._single(record):
            values = _by_name(record, names, record)
        elif dataclasses.is_dataclass(record) and not isinstance(record, (type, Instant)):
            values = _by_name({name: getattr(record, name) for name in record.__dataclass_fields__}, names, record)
        elif len(names) == 1:
            values = (record,)
        else:
            raise TypeMismatchError(
                f"a record with the columns {', '.join(names)} must be a row, a tuple, a dict or a dataclass, not "
                f"{type(record).__name__} {record!r}"
            )
        if len(values) != len(names):
            raise TypeMismatchError(
                f"a record has {len(values)} fields, but the schema has {len(names)} columns ({', '.join(names)}): "
                f"{record!r}"
            )
        return values

    def _single(self, record: Mapping[Any, Any]) -> bool:
        """Whether a dict is the value of the only column, which is a map, and not a record."""
        only = len(self._names) == 1 and isinstance(self._schema.fields[0].type, MapOf)
        return only and set(record) != set(self._names)


def _by_name(found: Mapping[str, Any], names: Sequence[str], record: Any) -> list[Any]:
    if set(found) - set(names):
        unknown = ", ".join(sorted(map(str, set(found) - set(names))))
        raise TypeMismatchError(f"the schema has no column for {unknown} of record {record!r}")
    return [found.get(name) for name in names]


def _optional(convert: Convert, value: Any) -> Any:
    return None if value is None else convert(value)


def _converter(kind: SparkType) -> Convert | None:
    """Return a function that converts values for Arrow; None if Arrow converts them correctly itself."""
    if isinstance(kind, StructOf):
        inner = RecordColumns(kind)
        converters = [_converter(field.type) for field in kind.fields]

        def struct(value: Any) -> dict[str, Any]:
            fields = inner._fields_of(value)
            return {
                name: field if convert is None else _optional(convert, field)
                for name, field, convert in zip(kind.names, fields, converters, strict=True)
            }

        return struct
    if isinstance(kind, ArrayOf):
        element = _converter(kind.element)
        return None if element is None else lambda value: [_optional(element, one) for one in value]
    if isinstance(kind, MapOf):
        key, item = _converter(kind.key), _converter(kind.value)
        return lambda value: [
            (k if key is None else _optional(key, k), v if item is None else _optional(item, v))
            for k, v in value.items()
        ]
    if kind.name in _INTEGERS:
        return operator.index  # Arrow would truncate fractions
    if kind.name == "TIMESTAMP":
        return _moment
    if kind.name == "TIMESTAMP_NTZ":
        return _local_time
    if kind.name == "DATE":
        return _date
    return None


def _moment(value: Any) -> dt.datetime:
    if isinstance(value, Instant):
        nanos = value.nanos
        if nanos % 1000:
            raise ValueError("Spark's timestamps have microseconds, but this one has nanoseconds")
        return _EPOCH + dt.timedelta(seconds=value.seconds, microseconds=nanos // 1000)
    if not isinstance(value, dt.datetime) or value.utcoffset() is None:
        raise TypeError("a TIMESTAMP needs a time zone: add one, or use a TIMESTAMP_NTZ column")
    return value.astimezone(dt.timezone.utc)


def _local_time(value: Any) -> dt.datetime:
    if not isinstance(value, dt.datetime) or value.tzinfo is not None:
        raise TypeError("a TIMESTAMP_NTZ must be a datetime without time zone: remove it, or use a TIMESTAMP column")
    return value


def _date(value: Any) -> dt.date:
    if isinstance(value, dt.datetime) or not isinstance(value, dt.date):
        raise TypeError("not a date")
    return value
