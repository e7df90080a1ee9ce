"""A source that reads topics of Kafka, with PyFlink's builder. Spark's own Kafka source does the reading."""

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
from tidemill.connectors.kafka.properties import shown
from tidemill.connectors.kafka.records import KafkaDecoder, KafkaRecordDeserializationSchema
from tidemill.connectors.kafka.security import check_for_java
from tidemill.connectors.sources import SparkSource

__all__ = ["KafkaSource", "KafkaSourceBuilder"]

#: Properties that say how the source works, and are none of the Kafka client's.
COMMIT_ON_CHECKPOINT: Final = "commit.offsets.on.checkpoint"
RESET: Final = "auto.offset.reset"
CLIENT_ID_PREFIX: Final = "client.id.prefix"
_OF_THE_SOURCE: Final = frozenset(
    {COMMIT_ON_CHECKPOINT, RESET, CLIENT_ID_PREFIX, "partition.discovery.interval.ms", "register.consumer.metrics"}
)
#: Always what they must be, whatever the program says, as in Flink.
_OVERRIDDEN: Final = frozenset({"key.deserializer", "value.deserializer", "enable.auto.commit", "client.id"})
#: How long a broker may take to answer before the source gives up, unless the program sets it (ms).
_API_TIMEOUT: Final = ("default.api.timeout.ms", "30000")
#: How long it may take for one request: Kafka's own default (ms).
_REQUEST_TIMEOUT: Final = ("request.timeout.ms", "30000")


@dataclass(frozen=True)
class Subscription:
    """What a source reads: whole topics, those whose names match a pattern, or certain partitions."""

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
    """Reads topics of Kafka; made by :meth:`builder`.

    Positions are part of the job's checkpoints, so that each record counts once. Each partition has event time of its
    own, and the slowest counts; a record's timestamp in Kafka is its event timestamp, unless an assigner gives it
    another. New partitions of a topic are read from their beginning.

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
        """Whether the group is told of positions after checkpoints, for those who watch it."""
        wanted = self.properties.get(COMMIT_ON_CHECKPOINT, "true").strip().lower() == "true"
        return self.group_id is not None and wanted and not self.ends

    @property
    def reset(self) -> KafkaOffsetResetStrategy:
        """What becomes of a partition whose next record has been deleted before it was read."""
        return KafkaOffsetResetStrategy[self.properties.get(RESET, "none").upper()]

    def client_properties(self) -> dict[str, str]:
        """The properties of a Kafka client for this source, secrets included."""
        given = {name: value for name, value in self.properties.items() if name not in _OF_THE_SOURCE | _OVERRIDDEN}
        properties = {_API_TIMEOUT[0]: _API_TIMEOUT[1], **given, "bootstrap.servers": self.servers}
        whole, request = int(properties[_API_TIMEOUT[0]]), int(properties.get(*_REQUEST_TIMEOUT))
        if request > whole:  # the client refuses a single request that may take longer than the whole
            properties[_REQUEST_TIMEOUT[0]] = str(whole)
        return properties

    def __repr__(self) -> str:
        places = f"from {_place(self.starting)}" + (f" to {_place(self.stopping)}" if self.stopping else "")
        return f"KafkaSource({self.subscription} at {self.servers}, {places}, {shown(self.properties)})"

    def __reduce__(self) -> tuple[Any, ...]:
        # Workers need to know only how to make records: no address goes to them, and no secret.
        nowhere: dict[str, str] = {}
        known = (self.decoder, self.type_info, self.bounded, self.max_records_per_epoch, self.partition_by)
        return (KafkaSource, ("", self.subscription, self.starting, self.stopping, nowhere, *known))


class KafkaSourceBuilder:
    """Collects the settings of a :class:`KafkaSource`; servers, what to read, and a deserializer are needed."""

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
        """The brokers to ask first: ``"host:port,host:port"``."""
        self._servers = _text("bootstrap_servers", bootstrap_servers)
        return self

    def set_group_id(self, group_id: str) -> KafkaSourceBuilder:
        """The consumer group: whose committed offsets can be begun at, and which is told of positions."""
        return self.set_property("group.id", group_id)

    def set_topics(self, *topics: str) -> KafkaSourceBuilder:
        """Read these topics. They must exist."""
        if not topics:
            raise ValueError("set_topics() needs at least one topic")
        return self._subscribe(Subscription(topics=tuple(dict.fromkeys(_text("topic", topic) for topic in topics))))

    def set_topic_pattern(self, topic_pattern: str) -> KafkaSourceBuilder:
        """Read all topics whose whole name matches a regular expression (Java's), also those that come later."""
        return self._subscribe(Subscription(pattern=_text("topic_pattern", topic_pattern)))

    def set_partitions(self, partitions: Iterable[KafkaTopicPartition]) -> KafkaSourceBuilder:
        """Read these partitions. They must exist."""
        wanted = tuple(sorted({KafkaTopicPartition(*partition) for partition in partitions}))
        if not wanted:
            raise ValueError("set_partitions() needs at least one partition")
        return self._subscribe(Subscription(partitions=wanted))

    def set_starting_offsets(self, starting_offsets_initializer: KafkaOffsetsInitializer) -> KafkaSourceBuilder:
        """Where to begin when the job first starts; the earliest offsets if not set."""
        self._starting = _initializer(starting_offsets_initializer)
        return self

    def set_unbounded(self, stopping_offsets_initializer: KafkaOffsetsInitializer) -> KafkaSourceBuilder:
        """Stop before these offsets as with :meth:`set_bounded`, but run as a streaming job: BATCH mode is refused."""
        self._stopping, self._bounded = _stopping(stopping_offsets_initializer), False
        return self

    def set_bounded(self, stopping_offsets_initializer: KafkaOffsetsInitializer) -> KafkaSourceBuilder:
        """Stop before these offsets, which are looked up when the job first starts."""
        self._stopping, self._bounded = _stopping(stopping_offsets_initializer), True
        return self

    def set_value_only_deserializer(self, deserialization_schema: DeserializationSchema[Any]) -> KafkaSourceBuilder:
        """Make records of the values alone. Records without a value are skipped."""
        return self.set_deserializer(KafkaRecordDeserializationSchema.value_only(deserialization_schema))

    def set_deserializer(self, record_deserializer: KafkaRecordDeserializationSchema[Any]) -> KafkaSourceBuilder:
        """Make records of all that Kafka knows: key, value, headers, timestamp and place."""
        if not isinstance(record_deserializer, KafkaRecordDeserializationSchema):
            raise TypeError(
                f"set_deserializer() needs a KafkaRecordDeserializationSchema, not {type(record_deserializer).__name__}"
            )
        self._deserializer = record_deserializer
        return self

    def set_max_records_per_epoch(self, max_records: int) -> KafkaSourceBuilder:
        """Tidemill's own: read at most about so many records in one epoch.

        Not set, it is ``execution.epoch.max-records``.
        """
        if max_records < 1:
            raise ValueError(f"an epoch must have room for a record: {max_records}")
        self._max_records = max_records
        return self

    def set_client_id_prefix(self, prefix: str) -> KafkaSourceBuilder:
        """How the names begin that the source's clients have for the broker."""
        return self.set_property(CLIENT_ID_PREFIX, prefix)

    def set_property(self, key: str, value: str) -> KafkaSourceBuilder:
        """Any property of Kafka's consumer (Java's names), or of the source.

        Of the source are ``commit.offsets.on.checkpoint``, and ``auto.offset.reset``: what to do when records have been
        deleted that the job had not read yet. ``none``, the default, refuses to go on without them.
        """
        if not isinstance(value, str):
            raise TypeError(f"the value of {key} must be text, not {type(value).__name__}")
        self._properties[_text("key", key)] = value
        return self

    def set_properties(self, props: Mapping[str, str]) -> KafkaSourceBuilder:
        """Several of them."""
        for key, value in props.items():
            self.set_property(key, value)
        return self

    def build(self) -> KafkaSource:
        """The source. Raises ``ValueError`` for what is missing or does not fit together, and
        :class:`ConfigurationError` for properties of security by which Kafka's client would not get in."""
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
            raise ValueError("committed_offsets() needs to know whose: set_group_id()")
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
            raise ValueError(f"a Kafka source reads one kind of thing: it reads {self._subscription} already")
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
