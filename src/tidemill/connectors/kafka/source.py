"""A source that reads Kafka topics through Spark's own Kafka source, with PyFlink's builder."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tidemill.common.serialization import DeserializationSchema
from tidemill.common.typeinfo import TypeInformation
from tidemill.connectors.kafka.offsets import (
    KafkaOffsetResetStrategy,
    KafkaOffsetsInitializer,
    KafkaTopicPartition,
    OffsetPlace,
)
from tidemill.connectors.kafka.properties import masked
from tidemill.connectors.kafka.records import KafkaDecoder, KafkaRecordDeserializationSchema
from tidemill.connectors.kafka.security import check_for_java
from tidemill.connectors.sources import SparkSource

__all__ = ["KafkaSource", "KafkaSourceBuilder"]

#: Properties of the source, which are not passed to the Kafka client.
COMMIT_ON_CHECKPOINT: Final = "commit.offsets.on.checkpoint"
RESET: Final = "auto.offset.reset"
CLIENT_ID_PREFIX: Final = "client.id.prefix"
_OF_THE_SOURCE: Final = frozenset(
    {COMMIT_ON_CHECKPOINT, RESET, CLIENT_ID_PREFIX, "partition.discovery.interval.ms", "register.consumer.metrics"}
)
#: Properties with fixed values; values set by the program are ignored, as in Flink.
_OVERRIDDEN: Final = frozenset({"key.deserializer", "value.deserializer", "enable.auto.commit", "client.id"})
#: How long a broker may take to respond before the source fails, unless the program sets it (ms).
_API_TIMEOUT: Final = ("default.api.timeout.ms", "30000")
#: How long a single request may take: Kafka's own default (ms).
_REQUEST_TIMEOUT: Final = ("request.timeout.ms", "30000")


@dataclass(frozen=True)
class Subscription:
    """What a source reads: topics, all topics whose names match a pattern, or specific partitions."""

    topics: tuple[str, ...] = ()
    pattern: str | None = None
    partitions: tuple[KafkaTopicPartition, ...] = ()

    def __str__(self) -> str:
        if self.pattern is not None:
            return f"topics like {self.pattern}"
        names = ", ".join(self.topics or map(str, self.partitions))
        return f"topics {names}" if self.topics else f"partitions {names}"


@dataclass(frozen=True)
class KafkaSource(SparkSource):
    """Reads Kafka topics; created with :meth:`builder`.

    Positions are part of the job's checkpoints, so that each record counts once. Each partition has its own event time,
    and the slowest one determines the watermark. A record's timestamp in Kafka is its event timestamp, unless a
    timestamp assigner replaces it. New partitions of a topic are read from the beginning.

    >>> from tidemill.common.serialization import SimpleStringSchema
    >>> source = (
    ...     KafkaSource.builder()
    ...     .set_bootstrap_servers("localhost:9092")
    ...     .set_topics("clicks")
    ...     .set_starting_offsets(KafkaOffsetsInitializer.earliest())
    ...     .set_value_only_deserializer(SimpleStringSchema())
    ...     .build()
    ... )
    >>> source
    KafkaSource(topics clicks at localhost:9092, from earliest(), {})
    """

    servers: str
    subscription: Subscription
    starting: KafkaOffsetsInitializer
    stopping: KafkaOffsetsInitializer | None
    properties: Mapping[str, str] = field(repr=False)
    decoder: KafkaDecoder
    type_info: TypeInformation | None
    bounded: bool
    max_records_per_epoch: int | None = None
    partition_by: tuple[str, ...] = ("topic", "partition")

    @staticmethod
    def builder() -> KafkaSourceBuilder:
        """Start building a source."""
        return KafkaSourceBuilder()

    @property
    def ends(self) -> bool:
        return self.stopping is not None

    @property
    def group_id(self) -> str | None:
        """The consumer group."""
        return self.properties.get("group.id")

    @property
    def commits_offsets(self) -> bool:
        """Whether positions are committed to the consumer group after checkpoints, for monitoring."""
        wanted = self.properties.get(COMMIT_ON_CHECKPOINT, "true").strip().lower() == "true"
        return self.group_id is not None and wanted and not self.ends

    @property
    def reset(self) -> KafkaOffsetResetStrategy:
        """The strategy for a partition whose next record was deleted before it was read."""
        return KafkaOffsetResetStrategy[self.properties.get(RESET, "none").upper()]

    def client_properties(self) -> dict[str, str]:
        """Return the properties of a Kafka client for this source, including secrets."""
        given = {name: value for name, value in self.properties.items() if name not in _OF_THE_SOURCE | _OVERRIDDEN}
        properties = {_API_TIMEOUT[0]: _API_TIMEOUT[1], **given, "bootstrap.servers": self.servers}
        whole, request = int(properties[_API_TIMEOUT[0]]), int(properties.get(*_REQUEST_TIMEOUT))
        if request > whole:  # the client rejects a request timeout that exceeds the API timeout
            properties[_REQUEST_TIMEOUT[0]] = str(whole)
        return properties

    def __repr__(self) -> str:
        places = f"from {_place(self.starting)}" + (f" to {_place(self.stopping)}" if self.stopping else "")
        return f"KafkaSource({self.subscription} at {self.servers}, {places}, {masked(self.properties)})"

    def __reduce__(self) -> tuple[Any, ...]:
        # Workers only decode records: they receive neither addresses nor secrets.
        nowhere: dict[str, str] = {}
        known = (self.decoder, self.type_info, self.bounded, self.max_records_per_epoch, self.partition_by)
        return (KafkaSource, ("", self.subscription, self.starting, self.stopping, nowhere, *known))


class KafkaSourceBuilder:
    """Builds a :class:`KafkaSource`; bootstrap servers, a subscription and a deserializer are required."""

    def __init__(self) -> None:
        self._servers: str | None = None
        self._subscription: Subscription | None = None
        self._starting = KafkaOffsetsInitializer.earliest()
        self._stopping: KafkaOffsetsInitializer | None = None
        self._bounded = False
        self._deserializer: KafkaRecordDeserializationSchema[Any] | None = None
        self._properties: dict[str, str] = {}
        self._max_records: int | None = None

    def set_bootstrap_servers(self, bootstrap_servers: str) -> KafkaSourceBuilder:
        """Set the bootstrap servers: ``"host:port,host:port"``."""
        self._servers = _text("bootstrap_servers", bootstrap_servers)
        return self

    def set_group_id(self, group_id: str) -> KafkaSourceBuilder:
        """Set the consumer group, for committed starting offsets and for committing offsets after checkpoints."""
        return self.set_property("group.id", group_id)

    def set_topics(self, *topics: str) -> KafkaSourceBuilder:
        """Read these topics. They must exist."""
        if not topics:
            raise ValueError("set_topics() needs at least one topic")
        return self._subscribe(Subscription(topics=tuple(dict.fromkeys(_text("topic", topic) for topic in topics))))

    def set_topic_pattern(self, topic_pattern: str) -> KafkaSourceBuilder:
        """Read all topics whose full name matches a Java regular expression, including topics created later."""
        return self._subscribe(Subscription(pattern=_text("topic_pattern", topic_pattern)))

    def set_partitions(self, partitions: Iterable[KafkaTopicPartition]) -> KafkaSourceBuilder:
        """Read these partitions. They must exist."""
        wanted = tuple(sorted({KafkaTopicPartition(*partition) for partition in partitions}))
        if not wanted:
            raise ValueError("set_partitions() needs at least one partition")
        return self._subscribe(Subscription(partitions=wanted))

    def set_starting_offsets(self, starting_offsets_initializer: KafkaOffsetsInitializer) -> KafkaSourceBuilder:
        """Set the starting offsets for the first start of the job; by default the earliest offsets."""
        self._starting = _initializer(starting_offsets_initializer)
        return self

    def set_unbounded(self, stopping_offsets_initializer: KafkaOffsetsInitializer) -> KafkaSourceBuilder:
        """Stop before these offsets as with :meth:`set_bounded`, but as a streaming job: BATCH mode is rejected."""
        self._stopping, self._bounded = _stopping(stopping_offsets_initializer), False
        return self

    def set_bounded(self, stopping_offsets_initializer: KafkaOffsetsInitializer) -> KafkaSourceBuilder:
        """Stop before these offsets, which are looked up when the job first starts."""
        self._stopping, self._bounded = _stopping(stopping_offsets_initializer), True
        return self

    def set_value_only_deserializer(self, deserialization_schema: DeserializationSchema[Any]) -> KafkaSourceBuilder:
        """Deserialize only the values. Records without a value are skipped."""
        return self.set_deserializer(KafkaRecordDeserializationSchema.value_only(deserialization_schema))

    def set_deserializer(self, record_deserializer: KafkaRecordDeserializationSchema[Any]) -> KafkaSourceBuilder:
        """Deserialize whole Kafka records: key, value, headers, timestamp, topic, partition and offset."""
        if not isinstance(record_deserializer, KafkaRecordDeserializationSchema):
            raise TypeError(
                f"set_deserializer() needs a KafkaRecordDeserializationSchema, not {type(record_deserializer).__name__}"
            )
        self._deserializer = record_deserializer
        return self

    def set_max_records_per_epoch(self, max_records: int) -> KafkaSourceBuilder:
        """Set the approximate maximum number of records per epoch. Specific to Tidemill.

        The default is ``execution.epoch.max-records``.
        """
        if max_records < 1:
            raise ValueError(f"max_records must be at least 1, not {max_records}")
        self._max_records = max_records
        return self

    def set_client_id_prefix(self, prefix: str) -> KafkaSourceBuilder:
        """Set the prefix of the client ids of the source's Kafka clients."""
        return self.set_property(CLIENT_ID_PREFIX, prefix)

    def set_property(self, key: str, value: str) -> KafkaSourceBuilder:
        """Set a property of Kafka's Java consumer, or of the source.

        Properties of the source are ``commit.offsets.on.checkpoint`` and ``auto.offset.reset``, which determines what
        to do if records were deleted before the job has read them. With ``none``, the default, the job fails.
        """
        if not isinstance(value, str):
            raise TypeError(f"the value of {key} must be text, not {type(value).__name__}")
        self._properties[_text("key", key)] = value
        return self

    def set_properties(self, props: Mapping[str, str]) -> KafkaSourceBuilder:
        """Set several properties."""
        for key, value in props.items():
            self.set_property(key, value)
        return self

    def build(self) -> KafkaSource:
        """Build the source.

        Raises ``ValueError`` for missing or contradictory settings, and :class:`ConfigurationError` for security
        properties with which the Kafka client could not connect.
        """
        properties = dict(self._properties)
        servers = self._servers or properties.pop("bootstrap.servers", None)
        if not servers:
            raise ValueError("a Kafka source needs servers: set_bootstrap_servers('host:port')")
        if self._subscription is None:
            raise ValueError("a Kafka source needs set_topics(), set_topic_pattern() or set_partitions()")
        if self._deserializer is None:
            raise ValueError("a Kafka source needs set_value_only_deserializer() or set_deserializer()")
        places = [place for place in (self._starting, self._stopping) if place is not None]
        if "group.id" not in properties and any(place.place is OffsetPlace.COMMITTED for place in places):
            raise ValueError("committed_offsets() needs a consumer group: set_group_id()")
        reset = properties.get(RESET, "none").lower()
        if reset not in ("none", "earliest", "latest"):
            raise ValueError(f"{RESET} must be none, earliest or latest, not {reset!r}")
        for name in (_API_TIMEOUT[0], _REQUEST_TIMEOUT[0]):
            if not properties.get(name, "1").isdecimal():
                raise ValueError(f"{name} must be a number of milliseconds, not {properties[name]!r}")
        check_for_java(properties)
        return KafkaSource(
            servers,
            self._subscription,
            self._starting,
            self._stopping,
            properties,
            KafkaDecoder(self._deserializer),
            self._deserializer.get_produced_type(),
            self._bounded,
            self._max_records,
        )

    def _subscribe(self, subscription: Subscription) -> KafkaSourceBuilder:
        if self._subscription is not None:
            raise ValueError(f"a Kafka source has a single subscription: it already reads {self._subscription}")
        self._subscription = subscription
        return self


def _place(initializer: KafkaOffsetsInitializer) -> str:
    return repr(initializer).partition(".")[2]


def _initializer(initializer: KafkaOffsetsInitializer) -> KafkaOffsetsInitializer:
    if not isinstance(initializer, KafkaOffsetsInitializer):
        raise TypeError(f"a KafkaOffsetsInitializer is needed, not {type(initializer).__name__}")
    return initializer


def _stopping(initializer: KafkaOffsetsInitializer) -> KafkaOffsetsInitializer:
    if _initializer(initializer).place is OffsetPlace.EARLIEST:
        raise ValueError("a Kafka source that stops at the earliest offsets reads nothing")
    return initializer


def _text(what: str, value: str) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{what} must be text, not {type(value).__name__}")
    if not value:
        raise ValueError(f"{what} must not be empty")
    return value
