"""The Kafka source and sink, with PyFlink's class names.

Start with ``source.py`` or ``sink.py``. The source is only described here, and read in ``tidemill.spark.kafka`` or
``tidemill.local.kafka``; the latter uses ``library_broker.py`` and ``topic_reader.py``. The sink writes from the
workers, with transactions in ``transactions.py``. This is not PyFlink's import path: programs use
``tidemill.datastream.connectors.kafka``.
"""

from __future__ import annotations

from tidemill.connectors.kafka.dynamic_source import (
    DynamicKafkaSource,
    DynamicKafkaSourceBuilder,
    KafkaMetadataService,
    KafkaStreamSetSubscriber,
    KafkaStreamSubscriber,
    SingleClusterTopicMetadataService,
    StreamPatternSubscriber,
)
from tidemill.connectors.kafka.flink_kafka_consumer import FlinkKafkaConsumer, FlinkKafkaConsumerBase
from tidemill.connectors.kafka.flink_kafka_producer import FlinkKafkaProducer, FlinkKafkaProducerBase, Semantic
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
    "DynamicKafkaSource",
    "DynamicKafkaSourceBuilder",
    "ExpiredMarker",
    "FlinkKafkaConsumer",
    "FlinkKafkaConsumerBase",
    "FlinkKafkaProducer",
    "FlinkKafkaProducerBase",
    "KafkaMetadataService",
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
    "KafkaStreamSetSubscriber",
    "KafkaStreamSubscriber",
    "KafkaTopicPartition",
    "KafkaTopicSelector",
    "Semantic",
    "SingleClusterTopicMetadataService",
    "StreamPatternSubscriber",
]
