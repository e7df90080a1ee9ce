"""Requests to the brokers of a source, and the offsets that follow from their responses.

Each engine sends the requests with its own client: Spark with the client in the JVM, the local engine with librdkafka.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from tidemill.connectors.kafka.offsets import KafkaOffsetsInitializer, KafkaTopicPartition
from tidemill.connectors.kafka.positions import Facts, Offsets, readable, resolve
from tidemill.connectors.kafka.source import KafkaSource
from tidemill.errors import ConfigurationError

__all__ = ["BrokerQueries", "bounds", "starting_offsets"]


class BrokerQueries(Protocol):
    """A connection to the brokers of a source.

    Every call returns in time, or raises :class:`~tidemill.errors.ConnectorError` with their address.
    """

    def partitions(self) -> list[KafkaTopicPartition]:
        """Return the partitions that the source reads."""
        ...

    def is_read(self, partition: KafkaTopicPartition) -> bool:
        """Whether the source reads a partition, if it exists."""
        ...

    def topic_ids(self, topics: Iterable[str]) -> dict[str, str]:
        """Return Kafka's own ids of these topics, without topics that do not exist."""
        ...

    def facts(
        self, partitions: Sequence[KafkaTopicPartition], initializer: KafkaOffsetsInitializer | None = None
    ) -> Facts:
        """Return the available offsets of these partitions, and the offsets that are needed to resolve an initializer.

        Partitions that no longer exist are omitted.
        """
        ...

    def commit(self, positions: Mapping[KafkaTopicPartition, int], *, seconds: float = 0) -> None:
        """Commit positions to the consumer group and wait up to ``seconds`` for the response. Failures are logged."""

    def close(self) -> None:
        """Close the connections."""


def starting_offsets(broker: BrokerQueries, source: KafkaSource) -> Offsets:
    """Return the offsets at which a source starts if the job has no position for it."""
    partitions = broker.partitions()
    facts = broker.facts(partitions, source.starting)
    return readable(resolve(source.starting, partitions, facts, source.group_id), facts, source.starting.reset)


def bounds(broker: BrokerQueries, source: KafkaSource) -> tuple[Offsets, Offsets]:
    """Return the starting and stopping offsets of a bounded source."""
    stopping: KafkaOffsetsInitializer = source.stopping or KafkaOffsetsInitializer.latest()
    starting = starting_offsets(broker, source)
    facts = broker.facts(list(starting), stopping)
    ends = resolve(stopping, list(starting), facts, source.group_id)
    for partition, end in ends.items():
        if end > facts.latest[partition]:
            raise ConfigurationError(
                f"the source is set to stop at offset {end} of {partition}, which ends at {facts.latest[partition]}: "
                "it can only stop at an offset that exists when the job starts"
            )
    return starting, {partition: max(end, starting[partition]) for partition, end in ends.items()}
