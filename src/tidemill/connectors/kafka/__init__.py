"""The public classes of the Kafka connector, under PyFlink's import path."""

from __future__ import annotations

from tidemill.connectors.kafka.offsets import (
    KafkaOffsetResetStrategy,
    KafkaOffsetsInitializer,
    KafkaTopicPartition,
)
from tidemill.connectors.kafka.producer_records import (
    KafkaProducerRecord,
    KafkaRecordSerializationSchema,
    KafkaRecordSerializationSchemaBuilder,
    KafkaSinkContext,
    KafkaTopicSelector,
)
from tidemill.connectors.kafka.records import KafkaRecord, KafkaRecordDeserializationSchema
from tidemill.connectors.kafka.sink import KafkaSink, KafkaSinkBuilder
from tidemill.connectors.kafka.source import KafkaSource, KafkaSourceBuilder
from tidemill.connectors.kafka.transactions import ExpiredMarker

__all__ = [
    "ExpiredMarker",
    "KafkaOffsetResetStrategy",
    "KafkaOffsetsInitializer",
    "KafkaProducerRecord",
    "KafkaRecord",
    "KafkaRecordDeserializationSchema",
    "KafkaRecordSerializationSchema",
    "KafkaRecordSerializationSchemaBuilder",
    "KafkaSink",
    "KafkaSinkBuilder",
    "KafkaSinkContext",
    "KafkaSource",
    "KafkaSourceBuilder",
    "KafkaTopicPartition",
    "KafkaTopicSelector",
]
