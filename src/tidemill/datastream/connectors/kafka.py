"""Kafka source and sink, under PyFlink's path."""

from __future__ import annotations

from tidemill.connectors.kafka import (
    ExpiredMarker,
    FlinkKafkaConsumer,
    FlinkKafkaConsumerBase,
    FlinkKafkaProducer,
    FlinkKafkaProducerBase,
    KafkaOffsetResetStrategy,
    KafkaOffsetsInitializer,
    KafkaProducerRecord,
    KafkaRecord,
    KafkaRecordDeserializationSchema,
    KafkaRecordSerializationSchema,
    KafkaRecordSerializationSchemaBuilder,
    KafkaSink,
    KafkaSinkBuilder,
    KafkaSinkContext,
    KafkaSource,
    KafkaSourceBuilder,
    KafkaTopicPartition,
    KafkaTopicSelector,
    Semantic,
)
from tidemill.lazy_names import PYTHON_NAMES, names_elsewhere

__all__ = [
    "ExpiredMarker",
    "FlinkKafkaConsumer",
    "FlinkKafkaConsumerBase",
    "FlinkKafkaProducer",
    "FlinkKafkaProducerBase",
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
    "Semantic",
]

__getattr__ = names_elsewhere(
    __name__,
    {
        **PYTHON_NAMES,
        **dict.fromkeys(
            ("DeserializationSchema", "SerializationSchema", "SimpleStringSchema"), "tidemill.common.serialization"
        ),
        **dict.fromkeys(
            ("DeliveryGuarantee", "Sink", "Source", "StreamTransformer", "SupportsPreprocessing"),
            "tidemill.connectors.base",
        ),
        **dict.fromkeys(("Duration", "Time"), "tidemill.common.time"),
        **dict.fromkeys(("Row", "RowKind"), "tidemill.common.types"),
        **dict.fromkeys(("SinkFunction", "SourceFunction"), "tidemill.datastream.functions"),
        **dict.fromkeys(("TypeInformation", "Types", "typeinfo"), "tidemill.common.typeinfo"),
        "WatermarkStrategy": "tidemill.common.watermark_strategy",
    },
)
