"""Sources and sinks under PyFlink's import paths.

The modules contain nothing but imports from :mod:`tidemill.connectors`, which has the implementation. A connector has a
module here if programs name its classes, such as those of files, Kafka and databases. Connectors that programs reach
through a method (collections, sockets, ``print``, ``execute_and_collect``) have none, and neither do the base classes
for custom sources and sinks, which are imported from :mod:`tidemill.connectors`. Start with ``base.py``.

As in PyFlink, the package also has the classes of its modules. They are loaded on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidemill.connectors import (
    DeliveryGuarantee,
    Sink,
    Source,
)
from tidemill.lazy_names import PYTHON_NAMES, names_elsewhere

if TYPE_CHECKING:
    from tidemill.datastream.connectors.dynamic_kafka import (
        DynamicKafkaSource,
        DynamicKafkaSourceBuilder,
        KafkaMetadataService,
        KafkaStreamSetSubscriber,
        KafkaStreamSubscriber,
        SingleClusterTopicMetadataService,
        StreamPatternSubscriber,
    )
    from tidemill.datastream.connectors.file_system import (
        BucketAssigner,
        BulkFormat,
        DefaultRollingPolicy,
        FileCompactor,
        FileCompactStrategy,
        FileEnumeratorProvider,
        FileSink,
        FileSource,
        FileSourceBuilder,
        FileSplitAssignerProvider,
        InputFormat,
        OnCheckpointRollingPolicy,
        OutputFileConfig,
        RollingPolicy,
        RowDataBulkWriterFactory,
        StreamFormat,
        StreamingFileSink,
    )
    from tidemill.datastream.connectors.hybrid_source import (
        HybridSource,
        HybridSourceBuilder,
    )
    from tidemill.datastream.connectors.jdbc import (
        JdbcConnectionOptions,
        JdbcExactlyOnceOptions,
        JdbcExactlyOnceSink,
        JdbcExecutionOptions,
        JdbcSink,
        JdbcSource,
        JdbcSourceBuilder,
    )
    from tidemill.datastream.connectors.kafka import (
        FlinkKafkaConsumer,
        FlinkKafkaConsumerBase,
        FlinkKafkaProducer,
        FlinkKafkaProducerBase,
        KafkaOffsetResetStrategy,
        KafkaOffsetsInitializer,
        KafkaRecordDeserializationSchema,
        KafkaRecordSerializationSchema,
        KafkaRecordSerializationSchemaBuilder,
        KafkaSink,
        KafkaSinkBuilder,
        KafkaSource,
        KafkaSourceBuilder,
        KafkaTopicPartition,
        KafkaTopicSelector,
        Semantic,
    )
    from tidemill.datastream.connectors.number_seq import (
        NumberSequenceSource,
    )

__all__ = [
    "BucketAssigner",
    "BulkFormat",
    "DefaultRollingPolicy",
    "DeliveryGuarantee",
    "DynamicKafkaSource",
    "DynamicKafkaSourceBuilder",
    "FileCompactStrategy",
    "FileCompactor",
    "FileEnumeratorProvider",
    "FileSink",
    "FileSource",
    "FileSourceBuilder",
    "FileSplitAssignerProvider",
    "FlinkKafkaConsumer",
    "FlinkKafkaConsumerBase",
    "FlinkKafkaProducer",
    "FlinkKafkaProducerBase",
    "HybridSource",
    "HybridSourceBuilder",
    "InputFormat",
    "JdbcConnectionOptions",
    "JdbcExactlyOnceOptions",
    "JdbcExactlyOnceSink",
    "JdbcExecutionOptions",
    "JdbcSink",
    "JdbcSource",
    "JdbcSourceBuilder",
    "KafkaMetadataService",
    "KafkaOffsetResetStrategy",
    "KafkaOffsetsInitializer",
    "KafkaRecordDeserializationSchema",
    "KafkaRecordSerializationSchema",
    "KafkaRecordSerializationSchemaBuilder",
    "KafkaSink",
    "KafkaSinkBuilder",
    "KafkaSource",
    "KafkaSourceBuilder",
    "KafkaStreamSetSubscriber",
    "KafkaStreamSubscriber",
    "KafkaTopicPartition",
    "KafkaTopicSelector",
    "NumberSequenceSource",
    "OnCheckpointRollingPolicy",
    "OutputFileConfig",
    "RollingPolicy",
    "RowDataBulkWriterFactory",
    "Semantic",
    "SingleClusterTopicMetadataService",
    "Sink",
    "Source",
    "StreamFormat",
    "StreamPatternSubscriber",
    "StreamingFileSink",
]

_HERE: Final = "tidemill.datastream.connectors"
#: The names of this package that are in its modules, by module.
_MODULES: Final = {
    "base": "StreamTransformer SupportsPreprocessing",
    "cassandra": (
        "CassandraCommitter CassandraFailureHandler CassandraSink ClusterBuilder ConsistencyLevel MapperOptions"
    ),
    "dynamic_kafka": (
        "DynamicKafkaSource DynamicKafkaSourceBuilder KafkaMetadataService KafkaStreamSetSubscriber "
        "KafkaStreamSubscriber SingleClusterTopicMetadataService StreamPatternSubscriber"
    ),
    "elasticsearch": (
        "Elasticsearch6SinkBuilder Elasticsearch7SinkBuilder ElasticsearchEmitter ElasticsearchSink FlushBackoffType"
    ),
    "file_system": (
        "BucketAssigner BulkFormat DefaultRollingPolicy FileCompactStrategy FileCompactor FileEnumeratorProvider "
        "FileSink FileSource FileSourceBuilder FileSplitAssignerProvider InputFormat OnCheckpointRollingPolicy "
        "OutputFileConfig RollingPolicy RowDataBulkWriterFactory StreamFormat StreamingFileSink"
    ),
    "hybrid_source": "HybridSource HybridSourceBuilder",
    "jdbc": (
        "JdbcConnectionOptions JdbcExactlyOnceOptions JdbcExactlyOnceSink JdbcExecutionOptions JdbcSink JdbcSource "
        "JdbcSourceBuilder"
    ),
    "kafka": (
        "FlinkKafkaConsumer FlinkKafkaConsumerBase FlinkKafkaProducer FlinkKafkaProducerBase "
        "KafkaOffsetResetStrategy KafkaOffsetsInitializer KafkaRecordDeserializationSchema "
        "KafkaRecordSerializationSchema KafkaRecordSerializationSchemaBuilder KafkaSink KafkaSinkBuilder "
        "KafkaSource KafkaSourceBuilder KafkaTopicPartition KafkaTopicSelector Semantic"
    ),
    "kinesis": (
        "FlinkKinesisConsumer KinesisDeserializationSchema KinesisFirehoseSink KinesisFirehoseSinkBuilder "
        "KinesisShardAssigner KinesisStreamsSink KinesisStreamsSinkBuilder PartitionKeyGenerator WatermarkTracker"
    ),
    "number_seq": "NumberSequenceSource",
    "pulsar": (
        "MessageDelayer PulsarDeserializationSchema PulsarSerializationSchema PulsarSink PulsarSinkBuilder "
        "PulsarSource PulsarSourceBuilder RangeGenerator StartCursor StopCursor SubscriptionType TopicRoutingMode"
    ),
    "rabbitmq": "RMQConnectionConfig RMQSink RMQSource",
}
#: What PyFlink's single module of connectors imported, before it became a package.
_IMPORTED: Final = {
    **dict.fromkeys(
        ("BulkWriterFactory", "DeserializationSchema", "Encoder", "SerializationSchema", "SimpleStringSchema"),
        "tidemill.common.serialization",
    ),
    **dict.fromkeys(("RowTypeInfo", "TypeInformation", "Types", "typeinfo"), "tidemill.common.typeinfo"),
    **dict.fromkeys(("SinkFunction", "SourceFunction"), "tidemill.datastream.functions"),
    "ConfigOption": "tidemill.common.config_options",
    "Duration": "tidemill.common.time",
    "ExecutionConfig": "tidemill.common.execution_config",
}

__getattr__ = names_elsewhere(
    __name__,
    {
        **PYTHON_NAMES,
        **_IMPORTED,
        **{name: f"{_HERE}.{module}" for module, names in _MODULES.items() for name in names.split()},
        **{module: f"{_HERE}.{module}" for module in _MODULES},
    },
)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
