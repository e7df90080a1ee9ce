"""PyFlink's builder of a Kafka source whose topics a metadata service determines, for the service that PyFlink has."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tidemill.common.serialization import DeserializationSchema
from tidemill.connectors.kafka.offsets import KafkaOffsetsInitializer
from tidemill.connectors.kafka.records import KafkaRecordDeserializationSchema
from tidemill.connectors.kafka.source import KafkaSource, KafkaSourceBuilder
from tidemill.connectors.sources import Source
from tidemill.errors import ConfigurationError

__all__ = [
    "DynamicKafkaSource",
    "DynamicKafkaSourceBuilder",
    "KafkaMetadataService",
    "KafkaStreamSetSubscriber",
    "KafkaStreamSubscriber",
    "SingleClusterTopicMetadataService",
    "StreamPatternSubscriber",
]


class KafkaMetadataService:
    """Determines the clusters and topics of a stream. Only :class:`SingleClusterTopicMetadataService` is supported."""


class SingleClusterTopicMetadataService(KafkaMetadataService):
    """A metadata service for one cluster, in which each stream is the topic with the same name."""

    def __init__(self, kafka_cluster_id: str, properties: Mapping[str, str]) -> None:
        if not properties.get("bootstrap.servers"):
            raise ValueError(f"the properties of cluster {kafka_cluster_id!r} need bootstrap.servers")
        self.kafka_cluster_id = kafka_cluster_id
        self.properties = dict(properties)


class KafkaStreamSubscriber:
    """Selects streams: a :class:`KafkaStreamSetSubscriber` or a :class:`StreamPatternSubscriber`."""


class KafkaStreamSetSubscriber(KafkaStreamSubscriber):
    """Selects streams by their names."""

    def __init__(self, stream_ids: Iterable[str]) -> None:
        if isinstance(stream_ids, str):
            raise TypeError(f"stream_ids must be a set of names, not a string: {{{stream_ids!r}}}")
        self.stream_ids = tuple(sorted(stream_ids))


class StreamPatternSubscriber(KafkaStreamSubscriber):
    """Selects streams whose full name matches a Java regular expression."""

    def __init__(self, stream_pattern: str) -> None:
        self.stream_pattern = stream_pattern


class DynamicKafkaSource(Source):
    """Reads the streams of a metadata service; created with :meth:`builder`.

    With the service for a single cluster, streams are topics. They are read as by a ``KafkaSource``. Topics that match
    a pattern are found when they are created.

    >>> from tidemill.common.serialization import SimpleStringSchema
    >>> service = SingleClusterTopicMetadataService("main", {"bootstrap.servers": "localhost:9092"})
    >>> source = (
    ...     DynamicKafkaSource.builder()
    ...     .set_stream_ids({"clicks", "orders"})
    ...     .set_kafka_metadata_service(service)
    ...     .set_value_only_deserializer(SimpleStringSchema())
    ...     .build()
    ... )
    >>> source.resolved()
    KafkaSource(topics clicks, orders at localhost:9092, from earliest(), {})
    """

    def __init__(self, source: KafkaSource) -> None:
        self._source = source
        self.bounded = source.bounded

    @staticmethod
    def builder() -> DynamicKafkaSourceBuilder:
        """Start building a source."""
        return DynamicKafkaSourceBuilder()

    def resolved(self) -> KafkaSource:
        """Return the source of the cluster's topics."""
        return self._source


class DynamicKafkaSourceBuilder:
    """Builds a :class:`DynamicKafkaSource`; streams, a metadata service and a deserializer are required."""

    def __init__(self) -> None:
        self._builder = KafkaSourceBuilder()
        self._subscriber: KafkaStreamSetSubscriber | StreamPatternSubscriber | None = None
        self._service: SingleClusterTopicMetadataService | None = None

    def set_stream_ids(self, stream_ids: Iterable[str]) -> DynamicKafkaSourceBuilder:
        """Read these streams."""
        return self.set_kafka_stream_subscriber(KafkaStreamSetSubscriber(stream_ids))

    def set_stream_pattern(self, stream_pattern: str) -> DynamicKafkaSourceBuilder:
        """Read all streams whose full name matches a Java regular expression."""
        return self.set_kafka_stream_subscriber(StreamPatternSubscriber(stream_pattern))

    def set_kafka_stream_subscriber(self, kafka_stream_subscriber: KafkaStreamSubscriber) -> DynamicKafkaSourceBuilder:
        """Set which streams are read."""
        if not isinstance(kafka_stream_subscriber, (KafkaStreamSetSubscriber, StreamPatternSubscriber)):
            raise ConfigurationError(
                f"a DynamicKafkaSource selects streams by name or by pattern, not with a "
                f"{type(kafka_stream_subscriber).__name__}: use set_stream_ids() or set_stream_pattern()"
            )
        self._subscriber = kafka_stream_subscriber
        return self

    def set_kafka_metadata_service(self, kafka_metadata_service: KafkaMetadataService) -> DynamicKafkaSourceBuilder:
        """Set the cluster. A metadata service other than :class:`SingleClusterTopicMetadataService` is rejected."""
        if not isinstance(kafka_metadata_service, SingleClusterTopicMetadataService):
            raise ConfigurationError(
                f"a DynamicKafkaSource reads a single cluster, not the clusters of a "
                f"{type(kafka_metadata_service).__name__}: use SingleClusterTopicMetadataService, or the union of one "
                "KafkaSource for each cluster"
            )
        self._service = kafka_metadata_service
        return self

    def set_deserializer(self, deserializer: KafkaRecordDeserializationSchema[Any]) -> DynamicKafkaSourceBuilder:
        """Deserialize whole Kafka records."""
        self._builder.set_deserializer(deserializer)
        return self

    def set_value_only_deserializer(
        self, deserialization_schema: DeserializationSchema[Any]
    ) -> DynamicKafkaSourceBuilder:
        """Deserialize only the values. Records without a value are skipped."""
        self._builder.set_value_only_deserializer(deserialization_schema)
        return self

    def set_starting_offsets(self, starting_offsets_initializer: KafkaOffsetsInitializer) -> DynamicKafkaSourceBuilder:
        """Set the starting offsets for the first start of the job; by default the earliest offsets."""
        self._builder.set_starting_offsets(starting_offsets_initializer)
        return self

    def set_bounded(self, stopping_offsets_initializer: KafkaOffsetsInitializer) -> DynamicKafkaSourceBuilder:
        """Stop before these offsets, which are looked up when the job first starts."""
        self._builder.set_bounded(stopping_offsets_initializer)
        return self

    def set_properties(self, props: Mapping[str, str]) -> DynamicKafkaSourceBuilder:
        """Set several consumer properties. Those of the metadata service take precedence."""
        self._builder.set_properties(props)
        return self

    def set_property(self, key: str, value: str) -> DynamicKafkaSourceBuilder:
        """Set a consumer property. Those of the metadata service take precedence."""
        self._builder.set_property(key, value)
        return self

    def set_group_id(self, group_id: str) -> DynamicKafkaSourceBuilder:
        """Set the consumer group."""
        self._builder.set_group_id(group_id)
        return self

    def set_client_id_prefix(self, prefix: str) -> DynamicKafkaSourceBuilder:
        """Set the prefix of the client ids of the source's Kafka clients."""
        self._builder.set_client_id_prefix(prefix)
        return self

    def build(self) -> DynamicKafkaSource:
        """Build the source. Raises ``ValueError`` if a required setting is missing."""
        if self._service is None:
            raise ValueError("a DynamicKafkaSource needs set_kafka_metadata_service()")
        builder = self._builder.set_properties(self._service.properties)
        if self._subscriber is None:
            raise ValueError("a DynamicKafkaSource needs set_stream_ids() or set_stream_pattern()")
        if isinstance(self._subscriber, KafkaStreamSetSubscriber):
            builder.set_topics(*self._subscriber.stream_ids)
        else:
            builder.set_topic_pattern(self._subscriber.stream_pattern)
        return DynamicKafkaSource(builder.build())
