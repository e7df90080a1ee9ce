"""Flink's older Kafka sink, as an interface to :class:`~tidemill.connectors.kafka.sink.KafkaSink`."""

from __future__ import annotations

import enum
import logging
from collections.abc import Mapping
from typing import Any, Final

from tidemill.common.configuration import Configuration
from tidemill.common.serialization import SerializationSchema
from tidemill.connectors.base import DeliveryGuarantee
from tidemill.connectors.kafka.client import KafkaClients
from tidemill.connectors.kafka.producer_records import (
    KafkaProducerRecord,
    KafkaRecordSerializationSchema,
    KafkaSinkContext,
    ProducerColumns,
)
from tidemill.connectors.kafka.sink import ExactlyOnceKafkaSink, KafkaSink
from tidemill.connectors.kafka.transactions import ExpiredMarker
from tidemill.connectors.sinks import Committer, Sink, SinkWriter
from tidemill.python_versions import Self

__all__ = ["FlinkKafkaProducer", "FlinkKafkaProducerBase", "Semantic"]

log = logging.getLogger(__name__)

#: Properties of consumers, which programs set although a producer ignores them, and what Flink sets itself.
_IGNORED: Final = frozenset(
    {
        "auto.offset.reset",
        "enable.auto.commit",
        "group.id",
        "key.deserializer",
        "max.poll.records",
        "session.timeout.ms",
        "transactional.id",
        "value.deserializer",
    }
)


class Semantic(enum.Enum):
    """The delivery guarantee of a :class:`FlinkKafkaProducer` after a failure.

    ``NONE`` is treated as ``AT_LEAST_ONCE``: an epoch is committed only after Kafka has acknowledged its results.
    """

    EXACTLY_ONCE = 0
    AT_LEAST_ONCE = 1
    NONE = 2


class FlinkKafkaProducerBase(Sink):
    """The settings that all older Kafka sinks of Flink have."""

    def __init__(
        self,
        topic: str,
        serialization_schema: SerializationSchema[Any],
        producer_config: Mapping[str, str],
        semantic: Semantic,
    ) -> None:
        if not isinstance(semantic, Semantic):
            raise TypeError(f"a Semantic is needed, not {semantic!r}")
        properties = {name: value for name, value in producer_config.items() if name not in _IGNORED}
        self._clients = KafkaClients(properties.pop("bootstrap.servers", ""), properties)
        self._clients.check()
        builder = KafkaRecordSerializationSchema.builder().set_topic(topic)
        self._serializer = builder.set_value_serialization_schema(serialization_schema).build()
        self._semantic = semantic
        self._only_logs_failures = False
        self._writes_timestamps = False
        self._expired = ExpiredMarker.FAIL
        self.guarantee = self._sink().guarantee

    def set_log_failures_only(self, log_failures_only: bool) -> Self:
        """Set whether records that Kafka rejects are logged and lost, instead of an error; by default they are not.

        Has no effect with ``Semantic.EXACTLY_ONCE``.
        """
        self._only_logs_failures = log_failures_only
        self.guarantee = self._sink().guarantee
        return self

    def set_flush_on_checkpoint(self, flush_on_checkpoint: bool) -> Self:
        """Accepted without effect: an epoch is always committed after Kafka has acknowledged its results."""
        return self

    def set_write_timestamp_to_kafka(self, write_timestamp_to_kafka: bool) -> Self:
        """Set whether a record's timestamp in Kafka is its event time; by default it is the time of writing."""
        self._writes_timestamps = write_timestamp_to_kafka
        return self

    def configured(self, configuration: Configuration) -> Sink:
        """Return the sink with the current settings, which the job uses."""
        if self._only_logs_failures and self._semantic is Semantic.EXACTLY_ONCE:
            log.warning(
                "set_log_failures_only(True) has no effect on a FlinkKafkaProducer with Semantic.EXACTLY_ONCE: a "
                "record that Kafka rejects fails the job"
            )
        return self._sink().configured(configuration)

    def create_writer(self, subtask: int, parallelism: int) -> SinkWriter:
        """Create a writer of the sink with the current settings."""
        return self._sink().create_writer(subtask, parallelism)

    def create_committer(self) -> Committer | None:
        """Create a committer of the sink with the current settings."""
        return self._sink().create_committer()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._sink()!r})"

    def _sink(self) -> KafkaSink:
        serializer = self._serializer if self._writes_timestamps else _WithoutTimestamps(self._serializer)
        if self._semantic is Semantic.EXACTLY_ONCE:
            return ExactlyOnceKafkaSink(self._clients, serializer, None, self._expired)
        delivery = DeliveryGuarantee.NONE if self._only_logs_failures else DeliveryGuarantee.AT_LEAST_ONCE
        return KafkaSink(self._clients, serializer, delivery)


class FlinkKafkaProducer(FlinkKafkaProducerBase):
    """Writes records to a Kafka topic; use it with ``stream.add_sink``. New programs use ``KafkaSink``.

    With ``Semantic.EXACTLY_ONCE``, transactional ids are derived from the job's id and the sink's uid.

    >>> from tidemill.common.serialization import SimpleStringSchema
    >>> FlinkKafkaProducer("orders", SimpleStringSchema(), {"bootstrap.servers": "localhost:9092"})
    FlinkKafkaProducer(KafkaSink(at-least-once, topic orders at localhost:9092, {}))
    """

    def __init__(
        self,
        topic: str,
        serialization_schema: SerializationSchema[Any],
        producer_config: Mapping[str, str],
        kafka_producer_pool_size: int = 5,
        semantic: Semantic = Semantic.AT_LEAST_ONCE,
    ) -> None:
        """Create a sink. ``kafka_producer_pool_size`` is ignored: each subtask has one producer."""
        super().__init__(topic, serialization_schema, producer_config, semantic)

    def ignore_failures_after_transaction_timeout(self) -> FlinkKafkaProducer:
        """Restart a job even after so long that Kafka may not know whether the last results were delivered.

        They are then delivered, possibly a second time. No results are lost: unlike Flink's, they do not depend on a
        transaction that may time out. See ``KafkaSinkBuilder.set_expired_marker``.
        """
        self._expired = ExpiredMarker.DELIVER
        return self


class _WithoutTimestamps(KafkaRecordSerializationSchema[Any]):
    """Serializes records without their event time."""

    def __init__(self, schema: KafkaRecordSerializationSchema[Any]) -> None:
        self._schema = schema

    def open(self, context: KafkaSinkContext) -> None:
        self._schema.open(context)

    def serialize(self, element: Any, timestamp: int | None) -> KafkaProducerRecord | None:
        return self._schema.serialize(element, None)

    def fixed_topic(self) -> str | None:
        return self._schema.fixed_topic()

    def columns(self, values: list[Any], timestamps: list[int] | None) -> ProducerColumns:
        return self._schema.columns(values, None)
