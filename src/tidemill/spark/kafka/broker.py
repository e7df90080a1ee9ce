"""Requests to a Kafka broker, sent by Kafka's own client in the JVM: properties have the same meaning as in Spark."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from tidemill.connectors.kafka.offsets import KafkaOffsetsInitializer, KafkaTopicPartition, OffsetPlace
from tidemill.connectors.kafka.positions import Facts, Offsets, chosen
from tidemill.connectors.kafka.properties import hide_secrets
from tidemill.connectors.kafka.security import NOT_TAKEN, SET_PROTOCOL, UNTRUSTED, way_in
from tidemill.connectors.kafka.source import KafkaSource
from tidemill.errors import ConnectorError
from tidemill.python_versions import Self
from tidemill.spark.kafka.jars import provide_connector
from tidemill.spark.session.unlogged import unlogged

log = logging.getLogger(__name__)

#: The Java exceptions for an untrusted certificate, and for a failed authentication.
_NO_TRUST: Final = frozenset({"SunCertPathBuilderException", "CertPathValidatorException", "CertificateException"})
_NO_ENTRY: Final = frozenset({"SslAuthenticationException", "SaslAuthenticationException"})


class Broker:
    """A connection to the brokers of a source.

    Every call returns within ``default.api.timeout.ms``, or raises :class:`ConnectorError` with their address.
    """

    def __init__(self, session: SparkSession, source: KafkaSource) -> None:
        provide_connector(session)
        jvm: Any = session._jvm
        self._jvm = jvm
        self._source = source
        self._committing: Any = None
        given = jvm.java.util.Properties()
        with unlogged():
            for name, value in source.client_properties().items():
                given.setProperty(name, value)
        with self._asking():
            self._admin = jvm.org.apache.kafka.clients.admin.AdminClient.create(given)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._admin.close(self._jvm.java.time.Duration.ZERO)

    def partitions(self) -> list[KafkaTopicPartition]:
        """Return the partitions that the source reads."""
        wanted = self._source.subscription
        with self._asking():
            names = set(self._admin.listTopics().names().get())
            if wanted.pattern is not None:
                matches = self._jvm.java.util.regex.Pattern.matches
                asked = {name for name in names if matches(wanted.pattern, name)}
            else:
                asked = names & {*wanted.topics, *(partition.topic for partition in wanted.partitions)}
            known: dict[str, Sequence[int]] = {
                str(name): [each.partition() for each in description.partitions()]
                for name, description in self._admin.describeTopics(sorted(asked)).allTopicNames().get().items()
            }
        missing = {*wanted.topics, *(partition.topic for partition in wanted.partitions)} - names
        # The error message suggests existing topics.
        known |= dict.fromkeys(names, ()) if missing else {}
        return chosen(wanted, known, self._source.servers)

    def is_read(self, partition: KafkaTopicPartition) -> bool:
        """Whether the source reads a partition, if it exists."""
        wanted = self._source.subscription
        if wanted.pattern is not None:
            return bool(self._jvm.java.util.regex.Pattern.matches(wanted.pattern, partition.topic))
        return partition.topic in wanted.topics or partition in wanted.partitions

    def topic_ids(self, topics: Iterable[str]) -> dict[str, str]:
        """Return Kafka's own ids of these topics, without topics that do not exist."""
        with self._asking():
            there = set(self._admin.listTopics().names().get())
            found = self._admin.describeTopics(sorted(there.intersection(topics))).allTopicNames().get()
            return {str(name): str(description.topicId().toString()) for name, description in found.items()}

    def facts(
        self, partitions: Sequence[KafkaTopicPartition], initializer: KafkaOffsetsInitializer | None = None
    ) -> Facts:
        """Return the available offsets of these partitions, and the offsets that are needed to resolve an initializer.

        Partitions that no longer exist are omitted.
        """
        spec = self._jvm.org.apache.kafka.clients.admin.OffsetSpec
        earliest = self._offsets(partitions, spec.earliest)
        latest = self._offsets(partitions, spec.latest)
        at_time: Offsets = {}
        committed: Offsets = {}
        if initializer is not None and initializer.time is not None:
            time = initializer.time
            found = self._offsets(partitions, lambda: spec.forTimestamp(time))
            at_time = {partition: offset for partition, offset in found.items() if offset >= 0}
        if initializer is not None and initializer.place in (OffsetPlace.COMMITTED, OffsetPlace.OFFSETS):
            committed = self._committed(partitions)
        return Facts(earliest, latest, at_time, committed)

    def commit(self, positions: Mapping[KafkaTopicPartition, int], *, seconds: float = 0) -> None:
        """Commit positions to the consumer group and wait up to ``seconds`` for the response. Failures are logged."""
        if self._committing is not None and self._committing.isCompletedExceptionally():
            log.warning(
                "positions were not committed to consumer group %r at %s", self._source.group_id, self._source.servers
            )
        offsets = self._jvm.java.util.HashMap()
        for partition, offset in positions.items():
            offset_type = self._jvm.org.apache.kafka.clients.consumer.OffsetAndMetadata
            offsets.put(self._partition(partition), offset_type(offset))
        try:
            self._committing = self._admin.alterConsumerGroupOffsets(self._source.group_id, offsets).all()
            if seconds:
                self._committing.get(int(1000 * seconds), self._jvm.java.util.concurrent.TimeUnit.MILLISECONDS)
        except Py4JJavaError as error:
            log.warning("%s", self._error(error))

    def _offsets(self, partitions: Iterable[KafkaTopicPartition], spec: Callable[[], Any]) -> Offsets:
        asked = self._jvm.java.util.HashMap()
        by_java = {partition: self._partition(partition) for partition in partitions}
        for partition in by_java.values():
            asked.put(partition, spec())
        found: Offsets = {}
        with self._asking():
            answer = self._admin.listOffsets(asked, self._options())
            for partition, java in by_java.items():
                try:
                    found[partition] = int(answer.partitionResult(java).get().offset())
                except Py4JJavaError as error:
                    if "UnknownTopicOrPartition" not in str(error.java_exception):
                        raise
        return found

    def _options(self) -> Any:
        level = self._jvm.org.apache.kafka.common.IsolationLevel
        name = self._source.properties.get("isolation.level", "read_uncommitted").upper()
        return self._jvm.org.apache.kafka.clients.admin.ListOffsetsOptions(level.valueOf(name))

    def _committed(self, partitions: Iterable[KafkaTopicPartition]) -> Offsets:
        group = self._source.group_id
        if group is None:
            return {}
        with self._asking():
            found = self._admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get()
            known = {
                KafkaTopicPartition(java.topic(), java.partition()): int(offset.offset())
                for java, offset in found.items()
                if offset is not None
            }
        return {partition: known[partition] for partition in partitions if partition in known}

    def _partition(self, partition: KafkaTopicPartition) -> Any:
        return self._jvm.org.apache.kafka.common.TopicPartition(partition.topic, partition.partition)

    @contextmanager
    def _asking(self) -> Iterator[None]:
        try:
            yield
        except Py4JJavaError as error:
            raise ConnectorError(self._error(error)) from None  # the Java exception may contain secrets

    def _error(self, error: Py4JJavaError) -> str:
        causes = [error.java_exception]
        while causes[-1].getCause() is not None:
            causes.append(causes[-1].getCause())
        source, told = self._source, str(causes[-1].toString())
        secured = way_in(source.properties)
        where = f"{source.servers}, {secured}," if secured else source.servers
        names = {str(cause.getClass().getSimpleName()) for cause in causes}
        text = f"Kafka at {where} cannot be queried for {source.subscription}: {told}{_advice(names, secured)}"
        return hide_secrets(text, source.properties)


def _advice(exceptions: Collection[str], secured: str) -> str:
    """Return advice for the exceptions of Kafka's Java client."""
    if not _NO_TRUST.isdisjoint(exceptions):
        return f". So {UNTRUSTED}"
    if not _NO_ENTRY.isdisjoint(exceptions):
        return f". Perhaps {NOT_TAKEN}" if "SSLHandshakeException" in exceptions else ""
    return f"; {SET_PROTOCOL}" if "TimeoutException" in exceptions and not secured else ""
