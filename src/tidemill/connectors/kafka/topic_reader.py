"""Reads partitions of topics with librdkafka, as Arrow batches with the columns that Spark's Kafka source has."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from tidemill.connectors.kafka.client import Complaints
from tidemill.connectors.kafka.library_broker import clients_of, isolation_of
from tidemill.connectors.kafka.offsets import KafkaTopicPartition
from tidemill.connectors.kafka.positions import Offsets
from tidemill.connectors.kafka.source import CLIENT_ID_PREFIX, KafkaSource
from tidemill.errors import ConnectorError

__all__ = ["COLUMN_TYPES", "TopicReader", "columns_schema"]

log = logging.getLogger(__name__)

_HEADER: Final = pa.struct([("key", pa.string()), ("value", pa.binary())])
#: The columns of a topic, and their types.
COLUMN_TYPES: Final = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.int64(),
    "headers": pa.list_(_HEADER),
}
#: The maximum number of records of a batch.
_BATCH: Final = 8192
#: Properties of Java's consumer that librdkafka has, and its names for them. Others only affect performance, or the
#: membership of a group, which a source does not use.
_FETCHING: Final = {
    "check.crcs": "check.crcs",
    "fetch.max.bytes": "fetch.max.bytes",
    "fetch.max.wait.ms": "fetch.wait.max.ms",
    "fetch.min.bytes": "fetch.min.bytes",
    "max.partition.fetch.bytes": "max.partition.fetch.bytes",
}


def columns_schema(columns: Sequence[str]) -> pa.Schema:
    """Return the schema of batches with these columns."""
    return pa.schema([(name, COLUMN_TYPES[name]) for name in columns])


class TopicReader:
    """Reads partitions from given offsets. Not thread-safe.

    :attr:`positions` contains the offset after the last record that was returned, by partition.
    """

    def __init__(self, source: KafkaSource, positions: Mapping[KafkaTopicPartition, int]) -> None:
        from confluent_kafka import Consumer

        self.positions: Offsets = {}
        self._schema = columns_schema(source.decoder.columns)
        self._columns = source.decoder.columns
        self._complaints = Complaints()
        clients = clients_of(source)
        self._clients = clients
        given = source.properties
        settings = {_FETCHING[name]: value for name, value in given.items() if name in _FETCHING}
        settings |= {
            "group.id": source.group_id or "tidemill",  # librdkafka requires one; nothing is committed with it
            "isolation.level": isolation_of(source),
            "enable.auto.commit": "false",
            "enable.auto.offset.store": "false",
            "enable.partition.eof": "true",
            # Whether records may be skipped is the source's decision, after it has compared the offsets.
            "auto.offset.reset": "error",
        }
        if CLIENT_ID_PREFIX in given:
            settings["client.id"] = given[CLIENT_ID_PREFIX]
        self._consumer: Any = clients.consumer(Consumer, settings, error_cb=self._complaints)
        #: The partitions that have been read to the end that they had then, and that end.
        self.ends: Offsets = {}
        self.add(positions)

    def add(self, positions: Mapping[KafkaTopicPartition, int]) -> None:
        """Read more partitions, from these offsets."""
        from confluent_kafka import TopicPartition

        new = {each: offset for each, offset in positions.items() if each not in self.positions}
        if new:
            self._consumer.incremental_assign([TopicPartition(*each, offset) for each, offset in new.items()])
            self.positions |= new

    def remove(self, partition: KafkaTopicPartition) -> None:
        """Stop reading a partition."""
        from confluent_kafka import TopicPartition

        self._consumer.incremental_unassign([TopicPartition(*partition)])
        del self.positions[partition]

    def take(self, most: int, seconds: float = 0.0) -> pa.RecordBatch | None:
        """Return the next records, at most ``most``; waits for the first one up to ``seconds``. None if there are none.

        Raises :class:`ConnectorError` if a partition cannot be read from its position.
        """
        messages = self._consumer.consume(min(most, _BATCH), seconds)
        records = [message for message in messages if message.error() is None]
        if len(records) < len(messages):
            self._note([message for message in messages if message.error() is not None])
        if not records:
            return None
        batch = self._batch(records)
        for message in records:
            self.positions[KafkaTopicPartition(message.topic(), message.partition())] = message.offset() + 1
        return batch

    def lag(self) -> int:
        """Return the approximate number of records that are not read yet, as of the last response of the brokers."""
        from confluent_kafka import TopicPartition

        total = 0
        for each, offset in self.positions.items():
            _, high = self._consumer.get_watermark_offsets(TopicPartition(*each), cached=True)
            total += max(0, high - offset)
        return total

    def close(self) -> None:
        """Close the connections."""
        self._consumer.close()

    def read_range(
        self, partition: KafkaTopicPartition, start: int, end: int, patience: float
    ) -> Iterator[pa.RecordBatch]:
        """Yield the records of a partition from ``start`` to before ``end``. No other partition may be read meanwhile.

        Raises :class:`ConnectorError` if no broker responds for ``patience`` seconds.
        """
        if start >= end:
            return
        self.add({partition: start})
        last = time.monotonic()
        # Offsets without a record (of transactions, or after compaction) are passed at the end of the partition.
        while max(self.positions[partition], self.ends.get(partition, 0)) < end:
            batch = self.take(_BATCH, 0.1)
            if batch is not None:
                last = time.monotonic()
                yield batch.filter(pc.less(batch.column("offset"), end))
            elif time.monotonic() - last > patience:
                reason = self._complaints.last
                raise self._clients.refused(
                    f"{partition} cannot be read up to offset {end}",
                    "no broker responds" if reason is None else reason,
                )
        self.remove(partition)

    def _note(self, messages: Sequence[Any]) -> None:
        for message in messages:
            error = message.error()
            partition = KafkaTopicPartition(message.topic() or "", message.partition())
            if error.name() == "_PARTITION_EOF":
                self.ends[partition] = message.offset()
            elif error.retriable() or error.name() in ("_ALL_BROKERS_DOWN", "_TRANSPORT"):
                log.warning("Kafka reports an error for %s, and is asked again: %s", partition, error.str())
            else:
                raise ConnectorError(self._clients.hide(f"{partition} cannot be read: {error.str()} [{error.name()}]"))

    def _batch(self, records: Sequence[Any]) -> pa.RecordBatch:
        values: dict[str, list[Any]] = {}
        for name in self._columns:
            if name == "timestamp":
                values[name] = [record.timestamp()[1] for record in records]
            elif name == "headers":
                values[name] = [_headers(record.headers()) for record in records]
            else:
                values[name] = [getattr(record, name)() for record in records]
        arrays = [pa.array(values[field.name], field.type) for field in self._schema]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)


def _headers(found: Sequence[tuple[str, bytes | None]] | None) -> list[dict[str, Any]] | None:
    return [{"key": key, "value": value} for key, value in found] if found else None
