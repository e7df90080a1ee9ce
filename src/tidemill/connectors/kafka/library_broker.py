"""Requests to the brokers of a source with librdkafka, for engines without a JVM."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from tidemill.connectors.kafka.client import KafkaClients
from tidemill.connectors.kafka.offsets import KafkaOffsetsInitializer, KafkaTopicPartition, OffsetPlace
from tidemill.connectors.kafka.positions import Facts, Offsets, chosen
from tidemill.connectors.kafka.security import SET_PROTOCOL, way_in
from tidemill.connectors.kafka.source import KafkaSource
from tidemill.errors import ConfigurationError, ConnectorError
from tidemill.python_versions import Self

__all__ = ["LibraryBroker", "clients_of", "isolation_of", "topic_pattern"]

log = logging.getLogger(__name__)

#: What Java's regular expressions have, and Python's do not, or with another meaning.
_ONLY_IN_JAVA: Final = re.compile(r"&&|\\[pPQEGRXhHvV]|\(\?<[A-Za-z]|\[\[|\[[^\]]*\[")
_READ_UNCOMMITTED: Final = "read_uncommitted"


def clients_of(source: KafkaSource) -> KafkaClients:
    """Return the clients for a source. Raises :class:`ConfigurationError` if the library is missing."""
    try:
        import confluent_kafka  # noqa: F401
    except ImportError as error:
        raise ConfigurationError(
            "with execution.target: local, reading from Kafka needs the package confluent-kafka: "
            "pip install 'tidemill[kafka]'"
        ) from error
    return KafkaClients(source.servers, source.client_properties())


def isolation_of(source: KafkaSource) -> str:
    """Return the isolation level; the default is that of the Java client."""
    return source.properties.get("isolation.level", _READ_UNCOMMITTED).lower()


def topic_pattern(pattern: str) -> re.Pattern[str]:
    """Compile a topic pattern. Raises :class:`ConfigurationError` for what has another meaning in Java or none here."""
    if _ONLY_IN_JAVA.search(pattern):
        raise ConfigurationError(
            f"the topic pattern {pattern!r} uses syntax of Java's regular expressions that execution.target: local "
            "does not have: write it without named groups, \\p, \\Q, && and nested [ ]"
        )
    try:
        return re.compile(pattern)
    except re.error as error:
        raise ConfigurationError(f"the topic pattern {pattern!r} is not valid: {error}") from None


class LibraryBroker:
    """A connection to the brokers of a source: see :class:`~tidemill.connectors.kafka.broker_queries.BrokerQueries`."""

    def __init__(self, source: KafkaSource) -> None:
        self._source = source
        self._clients = clients_of(source)
        self._seconds = int(source.client_properties()["default.api.timeout.ms"]) / 1000
        self._pattern = None if source.subscription.pattern is None else topic_pattern(source.subscription.pattern)
        self._admin: Any = self._clients.admin()
        self._committing: list[Any] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._admin = None  # the library closes them with its last reference

    def partitions(self) -> list[KafkaTopicPartition]:
        """Return the partitions that the source reads."""
        wanted = self._source.subscription
        topics = self._topics()
        known = {
            name: list(topic.partitions)
            for name, topic in topics.items()
            if self._pattern is None or self._pattern.fullmatch(name)
        }
        return chosen(wanted, known, self._source.servers)

    def is_read(self, partition: KafkaTopicPartition) -> bool:
        """Whether the source reads a partition, if it exists."""
        wanted = self._source.subscription
        if self._pattern is not None:
            return self._pattern.fullmatch(partition.topic) is not None
        return partition.topic in wanted.topics or partition in wanted.partitions

    def topic_ids(self, topics: Iterable[str]) -> dict[str, str]:
        """Return Kafka's own ids of these topics, as Kafka's Java client writes them."""
        from confluent_kafka import TopicCollection

        there = sorted(set(self._topics()).intersection(topics))
        if not there:
            return {}
        with self._asking():
            asked = self._admin.describe_topics(TopicCollection(there), request_timeout=self._seconds)
            found = {name: future.result() for name, future in asked.items()}
        return {name: _java_id(str(description.topic_id)) for name, description in found.items()}

    def facts(
        self, partitions: Sequence[KafkaTopicPartition], initializer: KafkaOffsetsInitializer | None = None
    ) -> Facts:
        """Return the available offsets of these partitions, and the offsets that are needed to resolve an initializer.

        Partitions that no longer exist are omitted.
        """
        from confluent_kafka.admin._listoffsets import OffsetSpec  # confluent_kafka.admin does not export it by type

        earliest = self._offsets(partitions, OffsetSpec.earliest)
        latest = self._offsets(partitions, OffsetSpec.latest)
        at_time: Offsets = {}
        committed: Offsets = {}
        if initializer is not None and initializer.time is not None:
            time_wanted = initializer.time
            found = self._offsets(partitions, lambda: OffsetSpec.for_timestamp(time_wanted))
            at_time = {partition: offset for partition, offset in found.items() if offset >= 0}
        if initializer is not None and initializer.place in (OffsetPlace.COMMITTED, OffsetPlace.OFFSETS):
            committed = self._committed(partitions)
        return Facts(earliest, latest, at_time, committed)

    def commit(self, positions: Mapping[KafkaTopicPartition, int], *, seconds: float = 0) -> None:
        """Commit positions to the consumer group and wait up to ``seconds`` for the response. Failures are logged."""
        from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, TopicPartition

        if self._source.group_id is None:
            return
        self._log_failures(self._committing)
        listed = [TopicPartition(each.topic, each.partition, offset) for each, offset in positions.items()]
        request = ConsumerGroupTopicPartitions(self._source.group_id, listed)
        try:
            self._committing = list(self._admin.alter_consumer_group_offsets([request]).values())
            if seconds:
                deadline = time.monotonic() + seconds
                for future in self._committing:
                    future.result(timeout=max(0.0, deadline - time.monotonic()))
        except (KafkaException, TimeoutError) as error:
            log.warning("%s", self._error(error))

    def _log_failures(self, futures: Iterable[Any]) -> None:
        for future in futures:
            if future.done() and (error := future.exception()) is not None:
                log.warning("%s", self._error(error))

    def _topics(self) -> dict[str, Any]:
        with self._asking():
            found: dict[str, Any] = self._admin.list_topics(timeout=self._seconds).topics
            return found

    def _offsets(self, partitions: Iterable[KafkaTopicPartition], spec: Callable[[], Any]) -> Offsets:
        from confluent_kafka import IsolationLevel, KafkaException, TopicPartition

        by_name = {(each.topic, each.partition): each for each in partitions}
        if not by_name:
            return {}
        level = IsolationLevel.READ_COMMITTED
        if isolation_of(self._source) == _READ_UNCOMMITTED:
            level = IsolationLevel.READ_UNCOMMITTED
        found: Offsets = {}
        with self._asking():
            asked = self._admin.list_offsets(
                {TopicPartition(topic, number): spec() for topic, number in by_name},
                isolation_level=level,
                request_timeout=self._seconds,
            )
            for partition, future in asked.items():
                try:
                    found[by_name[partition.topic, partition.partition]] = int(future.result().offset)
                except KafkaException as error:
                    if error.args[0].name() not in ("UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_PARTITION", "_UNKNOWN_TOPIC"):
                        raise
        return found

    def _committed(self, partitions: Sequence[KafkaTopicPartition]) -> Offsets:
        from confluent_kafka import ConsumerGroupTopicPartitions

        if self._source.group_id is None:
            return {}
        with self._asking():
            request = ConsumerGroupTopicPartitions(self._source.group_id)
            (future,) = self._admin.list_consumer_group_offsets([request], request_timeout=self._seconds).values()
            found = {
                KafkaTopicPartition(each.topic, each.partition): int(each.offset)
                for each in future.result().topic_partitions
                if each.offset >= 0
            }
        return {partition: found[partition] for partition in partitions if partition in found}

    @contextmanager
    def _asking(self) -> Iterator[None]:
        from confluent_kafka import KafkaException

        try:
            yield
        except KafkaException as error:
            raise ConnectorError(self._error(error)) from None  # the exception may contain secrets

    def _error(self, error: BaseException) -> str:
        source = self._source
        secured = way_in(source.properties)
        where = f"{source.servers}, {secured}," if secured else source.servers
        reason = error.args[0] if error.args else error
        text = reason.str() if hasattr(reason, "str") else str(reason)
        advice = "" if secured else f"; {SET_PROTOCOL}"
        return self._clients.hide(f"Kafka at {where} cannot be queried for {source.subscription}: {text}{advice}")


def _java_id(text: str) -> str:
    """Return an id in the alphabet of Java's client, which is that of URLs, without padding."""
    return text.replace("+", "-").replace("/", "_").rstrip("=")
