"""Records of Kinesis, as the driver sends them to the workers, and how they become records of the stream.

A record may contain several, which AWS's producer library has aggregated to save requests. They are separated here.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, NamedTuple, TypeVar

from tidemill.common.calls import call_each
from tidemill.common.serialization import DeserializationSchema
from tidemill.common.typeinfo import TypeInformation, Types
from tidemill.connectors.messages import Messages
from tidemill.connectors.sources import RecordBatch
from tidemill.errors import SerializationError

__all__ = ["KinesisDeserializationSchema", "ShardRecord", "ShardRecords"]

T = TypeVar("T")

#: What an aggregated record begins with; it ends with an MD5 digest of what is between.
_MAGIC: Final = b"\xf3\x89\x9a\xc2"
_DIGEST: Final = 16
#: Kinds of values in the encoding of aggregated records, Protocol Buffers.
_VARINT, _BYTES = 0, 2


class KinesisDeserializationSchema(ABC, Generic[T]):
    """Converts a record of Kinesis, with its key and position, to a record of the stream."""

    @abstractmethod
    def deserialize(
        self,
        record_value: bytes,
        partition_key: str,
        seq_num: str,
        approx_arrival_timestamp: int,
        stream: str,
        shard_id: str,
    ) -> T | None:
        """Return the record of the stream, or None to skip it."""

    def get_produced_type(self) -> TypeInformation:
        """Return the type of the stream's records."""
        return Types.PICKLED_BYTE_ARRAY()


class ShardRecord(NamedTuple):
    """One record of a shard; ``arrival`` is its approximate time of arrival, in ms."""

    sequence_number: str
    partition_key: str
    arrival: int
    data: bytes


@dataclass(frozen=True)
class ShardRecords:
    """The payload of a split: consecutive records of one shard."""

    stream: str
    shard: str
    records: Sequence[ShardRecord]

    def decode(self, schema: DeserializationSchema[Any] | KinesisDeserializationSchema[Any]) -> RecordBatch:
        """Return the records of the stream, with their times of arrival as timestamps."""
        records = [single for record in self.records for single in separated(record)]
        place = f"shard {self.shard} of stream {self.stream!r}"
        if records:
            place += f", sequence numbers {records[0].sequence_number} to {records[-1].sequence_number},"
        if isinstance(schema, DeserializationSchema):
            arrivals = [record.arrival for record in records]
            return Messages([record.data for record in records], arrivals, place).decode(schema)

        def failed(error: BaseException, position: int) -> SerializationError:
            return SerializationError(
                f"a record of {place} cannot be read: {type(error).__name__}: {error}\n"
                f"  its value: {records[position].data[:200]!r}"
            )

        deserialize = schema.deserialize
        values = call_each(
            lambda one: deserialize(
                one.data, one.partition_key, one.sequence_number, one.arrival, self.stream, self.shard
            ),
            records,
            failed,
        )
        kept = [(value, one.arrival) for value, one in zip(values, records, strict=True) if value is not None]
        return RecordBatch([value for value, _ in kept], [arrival for _, arrival in kept])


def separated(record: ShardRecord) -> Sequence[ShardRecord]:
    """Return the records that a record contains; itself, if it is not aggregated."""
    data = record.data
    if not data.startswith(_MAGIC) or len(data) <= len(_MAGIC) + _DIGEST:
        return (record,)
    content, digest = data[len(_MAGIC) : -_DIGEST], data[-_DIGEST:]
    if hashlib.md5(content, usedforsecurity=False).digest() != digest:
        return (record,)
    keys: list[str] = []
    found: list[ShardRecord] = []
    for number, value in _fields(content):
        if number == 1 and isinstance(value, bytes):
            keys.append(value.decode())
        elif number == 3 and isinstance(value, bytes):
            inner = dict(_fields(value))
            key, body = inner.get(1, 0), inner.get(3, b"")
            if isinstance(key, int) and isinstance(body, bytes):
                found.append(record._replace(partition_key=keys[key], data=body))
    return found


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        number, kind = tag >> 3, tag & 7
        value, at = _varint(data, at)
        if kind == _VARINT:
            yield number, value
        elif kind == _BYTES:
            yield number, data[at : at + value]
            at += value
        else:
            raise SerializationError(f"an aggregated record of Kinesis has a field of unknown kind {kind}")


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
