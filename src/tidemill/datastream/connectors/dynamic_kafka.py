"""PyFlink's Kafka source with a metadata service, under PyFlink's path."""

from __future__ import annotations

from tidemill.connectors.kafka import (
    DynamicKafkaSource,
    DynamicKafkaSourceBuilder,
    KafkaMetadataService,
    KafkaRecordDeserializationSchema,
    KafkaStreamSetSubscriber,
    KafkaStreamSubscriber,
    SingleClusterTopicMetadataService,
    StreamPatternSubscriber,
)
from tidemill.lazy_names import PYTHON_NAMES, names_elsewhere

__all__ = [
    "DynamicKafkaSource",
    "DynamicKafkaSourceBuilder",
    "KafkaMetadataService",
    "KafkaRecordDeserializationSchema",
    "KafkaStreamSetSubscriber",
    "KafkaStreamSubscriber",
    "SingleClusterTopicMetadataService",
    "StreamPatternSubscriber",
]

__getattr__ = names_elsewhere(
    __name__,
    {
        **PYTHON_NAMES,
        "DeserializationSchema": "tidemill.common.serialization",
        "KafkaOffsetsInitializer": "tidemill.connectors.kafka",
        "Source": "tidemill.connectors.base",
    },
)
