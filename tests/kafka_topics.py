"""What tests do with the topics of a Kafka cluster: make them, write to them, and look at what readers see."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions, NewTopic

from tests.waiting import eventually

SECONDS = 60.0


@dataclass(frozen=True)
class Record:
    """A record as a consumer gets it."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: tuple[tuple[str, bytes | None], ...] = ()


class KafkaTopics:
    """The topics of the cluster that has this address, where nothing is secured."""

    def __init__(self, address: str, replicas: int = 1) -> None:
        self.address = address
        self._replicas = replicas
        # Clients that were made once, since each has to find its way to a broker first.
        self._administrator: AdminClient | None = None
        self._consumers: dict[bool, Consumer] = {}

    # ------------------------------------------------------------------------------------------------------- topics

    def create_topic(self, name: str, partitions: int = 1, config: Mapping[str, str] | None = None) -> str:
        """Create a topic; returns its name."""
        _done(self._admin().create_topics([NewTopic(name, partitions, self._replicas, config=dict(config or {}))]))
        self._await_partitions(name, partitions)
        return name

    def delete_topic(self, name: str) -> None:
        _done(self._admin().delete_topics([name]))

    def add_partitions(self, name: str, total: int) -> None:
        """Let a topic grow to so many partitions."""
        _done(self._admin().create_partitions([NewPartitions(name, total)]))
        self._await_partitions(name, total)

    def delete_records(self, topic: str, partition: int, before: int) -> None:
        """Delete what retention would delete: everything before an offset."""
        _done(self._admin().delete_records([TopicPartition(topic, partition, before)]))

    def offsets(self, topic: str, *, read_committed: bool = False) -> dict[int, tuple[int, int]]:
        """By partition: the first offset there is, and the one that the next record gets, or a reader waits at."""
        consumer = self._consumer(read_committed)
        return {
            partition: consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=SECONDS)
            for partition in self._partitions(topic)
        }

    def _await_partitions(self, topic: str, partitions: int) -> None:
        deadline = time.monotonic() + SECONDS
        while len(self._partitions(topic)) < partitions:
            assert time.monotonic() < deadline, f"topic {topic} has no {partitions} partitions"
            time.sleep(0.01)

    def _partitions(self, topic: str) -> list[int]:
        return sorted(self._admin().list_topics(topic, timeout=SECONDS).topics[topic].partitions)

    # ------------------------------------------------------------------------------------------------------ records

    def produce(
        self,
        topic: str,
        values: Iterable[str | bytes | tuple[str | bytes | None, str | bytes | None] | None],
        *,
        partition: int = -1,
        timestamp: int | None = None,
        headers: list[tuple[str, bytes]] | None = None,
    ) -> None:
        """Write values, or pairs of key and value; returns when the broker has them."""
        errors: list[str] = []
        producer = Producer(self._client() | {"linger.ms": 0})
        extra: dict[str, Any] = {"partition": partition, "headers": headers}
        if timestamp is not None:
            extra["timestamp"] = timestamp
        for item in values:
            key, value = item if isinstance(item, tuple) else (None, item)
            while True:
                try:
                    producer.produce(
                        topic,
                        value,
                        key,
                        on_delivery=lambda error, _: errors.append(error.str()) if error else None,
                        **extra,
                    )
                except BufferError:
                    producer.poll(0.05)
                else:
                    break
        left = producer.flush(SECONDS)
        assert not left, f"{left} records are not written to {topic}"
        assert not errors, errors[:3]

    def consume(self, topic: str, *, read_committed: bool = True, seconds: float = SECONDS) -> list[Record]:
        """Everything that is visible now, by partition, in order."""
        records: list[Record] = []
        partitions = self._partitions(topic)
        consumer = self._consumer(read_committed)
        consumer.assign([TopicPartition(topic, partition, 0) for partition in partitions])
        unread, deadline = set(partitions), time.monotonic() + seconds
        while unread:
            assert time.monotonic() < deadline, f"partitions {sorted(unread)} of {topic} have no end"
            for message in consumer.consume(1000, 0.01):
                error = message.error()
                if error is None:
                    records.append(_record(message))
                elif error.code() == KafkaError._PARTITION_EOF:
                    unread.discard(message.partition())
                elif not error.retriable() and error.code() != KafkaError._ALL_BROKERS_DOWN:
                    raise KafkaException(error)
        consumer.unassign()
        return sorted(records, key=lambda record: (record.partition, record.offset))

    def await_transactions(self, topic: str) -> None:
        """Wait until no transaction holds readers back: a commit is complete a moment after it is certain."""
        eventually(
            lambda: self.offsets(topic, read_committed=True) == self.offsets(topic),
            what=f"the end of all transactions of {topic}",
        )

    def values(self, topic: str, *, read_committed: bool = True) -> list[str]:
        """The values of everything that is visible now, as text."""
        return [(record.value or b"").decode() for record in self.consume(topic, read_committed=read_committed)]

    def _consumer(self, read_committed: bool) -> Consumer:
        if read_committed not in self._consumers:
            reading = {
                "group.id": "tests",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed" if read_committed else "read_uncommitted",
                "fetch.wait.max.ms": 20,
            }
            self._consumers[read_committed] = Consumer(self._client() | reading)
        return self._consumers[read_committed]

    def _admin(self) -> AdminClient:
        if self._administrator is None:
            self._administrator = AdminClient(self._client())
        return self._administrator

    def _client(self) -> dict[str, Any]:
        return {"bootstrap.servers": self.address, "log_level": 0, "reconnect.backoff.max.ms": 200}


def _record(message: Any) -> Record:
    return Record(
        message.partition(),
        message.offset(),
        message.key(),
        message.value(),
        message.timestamp()[1],
        tuple(message.headers() or ()),
    )


def _done(futures: Mapping[Any, Any]) -> None:
    for future in futures.values():
        future.result(SECONDS)
