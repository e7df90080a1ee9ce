"""Converts the records of a topic to records of a stream, a whole Arrow batch at a time."""

from __future__ import annotations

import codecs
from abc import ABC, abstractmethod
from collections.abc import Callable
from itertools import compress
from typing import Any, Final, Generic, NamedTuple, TypeVar

import pyarrow as pa

from tidemill.common.calls import call_each
from tidemill.common.serialization import ByteArraySchema, DeserializationSchema, SimpleStringSchema
from tidemill.common.typeinfo import TypeInformation, Types
from tidemill.connectors.sources import RecordBatch, RowDecoder
from tidemill.errors import SerializationError

__all__ = ["KafkaRecord", "KafkaRecordDeserializationSchema"]

T = TypeVar("T")

#: The number of bytes of a record that an error message shows.
_SHOWN_BYTES: Final = 200


class KafkaRecord(NamedTuple):
    """A record of a topic. ``timestamp`` is in ms; headers are pairs of name and value, in the record's order."""

    key: bytes | None
    value: bytes | None
    topic: str
    partition: int
    offset: int
    timestamp: int
    headers: tuple[tuple[str, bytes | None], ...] = ()

    def header(self, name: str) -> bytes | None:
        """Return the value of the last header with this name, or None if there is none.

        >>> KafkaRecord(None, b"1", "clicks", 0, 17, 1000, (("trace", b"a"), ("trace", b"b"))).header("trace")
        b'b'
        """
        return next((value for key, value in reversed(self.headers) if key == name), None)


class KafkaRecordDeserializationSchema(ABC, Generic[T]):
    """Converts a record of a topic, with its key, headers, timestamp, partition and offset, to a record of the stream.

    >>> class WithKey(KafkaRecordDeserializationSchema[tuple[str, str]]):
    ...     def deserialize(self, record: KafkaRecord) -> tuple[str, str]:
    ...         return (record.key or b"").decode(), (record.value or b"").decode()
    >>> WithKey().deserialize(KafkaRecord(b"k", b"v", "clicks", 0, 17, 1000))
    ('k', 'v')
    """

    @abstractmethod
    def deserialize(self, record: KafkaRecord) -> T | None:
        """Return the record of the stream, or None to skip it."""

    def get_produced_type(self) -> TypeInformation:
        """Return the type of the stream's records."""
        return Types.PICKLED_BYTE_ARRAY()

    @staticmethod
    def value_only(value_deserialization_schema: DeserializationSchema[Any]) -> KafkaRecordDeserializationSchema[Any]:
        """Deserialize only the value. Records without a value, which mark the deletion of a key, are skipped."""
        return ValueOnly(value_deserialization_schema)


class ValueOnly(KafkaRecordDeserializationSchema[Any]):
    """Adapts a schema for values to a schema for records."""

    def __init__(self, schema: DeserializationSchema[Any]) -> None:
        if not isinstance(schema, DeserializationSchema):
            raise TypeError(f"a DeserializationSchema is needed, not {type(schema).__name__}")
        self.schema = schema

    def deserialize(self, record: KafkaRecord) -> Any:
        return None if record.value is None else self.schema.deserialize(record.value)

    def get_produced_type(self) -> TypeInformation:
        return self.schema.get_produced_type()


class KafkaDecoder(RowDecoder):
    """Decodes Arrow batches with the columns of a topic; the timestamp of a record is its event timestamp."""

    def __init__(self, schema: KafkaRecordDeserializationSchema[Any]) -> None:
        self._schema = schema

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns to read from the topic: only those that the schema can access."""
        place = ("topic", "partition", "offset", "timestamp")
        return ("value", *place) if isinstance(self._schema, ValueOnly) else ("key", "value", *place, "headers")

    def decode(self, rows: pa.RecordBatch) -> RecordBatch:
        """Return the records of a batch, without skipped ones.

        Raises :class:`SerializationError` with the topic, partition and offset of a record that cannot be read.
        """
        if isinstance(self._schema, ValueOnly):
            values = self._values(rows, self._schema.schema)
        else:
            values = _mapped(self._schema.deserialize, _records(rows), rows)
        timestamps: list[int] = rows.column("timestamp").to_pylist()
        kept = [value is not None for value in values]
        if all(kept):
            return RecordBatch(values, timestamps)
        return RecordBatch(list(compress(values, kept)), list(compress(timestamps, kept)))

    def _values(self, rows: pa.RecordBatch, schema: DeserializationSchema[Any]) -> list[Any]:
        column = rows.column("value")
        if type(schema) is ByteArraySchema:
            return list(column.to_pylist())
        if type(schema) is SimpleStringSchema and codecs.lookup(schema.charset).name == "utf-8":
            try:
                return list(column.cast(pa.string()).to_pylist())
            except (pa.ArrowInvalid, UnicodeDecodeError):
                pass  # the slower path below reports which record is invalid
        deserialize = schema.deserialize
        if column.null_count:
            return _mapped(lambda value: None if value is None else deserialize(value), column.to_pylist(), rows)
        return _mapped(deserialize, column.to_pylist(), rows)


def _records(rows: pa.RecordBatch) -> list[KafkaRecord]:
    keys, values, topics, partitions, offsets, timestamps = (
        rows.column(name).to_pylist() for name in ("key", "value", "topic", "partition", "offset", "timestamp")
    )
    column = rows.column("headers")
    if column.null_count == len(column):
        return list(map(KafkaRecord, keys, values, topics, partitions, offsets, timestamps))
    headers = [
        () if found is None else tuple((header["key"], header["value"]) for header in found)
        for found in column.to_pylist()
    ]
    return list(map(KafkaRecord, keys, values, topics, partitions, offsets, timestamps, headers))


def _mapped(function: Callable[[Any], Any], items: list[Any], rows: pa.RecordBatch) -> list[Any]:
    def failed(error: BaseException, position: int) -> SerializationError:
        topic, partition, offset, value = (
            rows.column(name)[position].as_py() for name in ("topic", "partition", "offset", "value")
        )
        return SerializationError(
            f"the record at offset {offset} of topic {topic!r}, partition {partition}, cannot be read: "
            f"{type(error).__name__}: {error}\n  its value: {_shown(value)}"
        )

    return call_each(function, items, failed)


def _shown(value: bytes | None) -> str:
    if value is None:
        return "none"
    more = f" ... ({len(value):,} bytes)" if len(value) > _SHOWN_BYTES else ""
    return f"{value[:_SHOWN_BYTES]!r}{more}"
