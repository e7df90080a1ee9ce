"""The Pulsar source, with PyFlink's builder."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from tidemill.common.serialization import DeserializationSchema
from tidemill.connectors.messages import checked_schema
from tidemill.connectors.pulsar.client import PulsarClients, checked_config
from tidemill.connectors.pulsar.cursors import RangeGenerator, StartCursor, StopCursor, SubscriptionType
from tidemill.connectors.pulsar.partitions import PartitionEnumerator, ReadOptions
from tidemill.connectors.sources import ClockOf, Position, RecordBatch, Split, SplitEnumerator, SplitSource
from tidemill.errors import ConfigurationError

__all__ = ["PulsarSource", "PulsarSourceBuilder"]

_DISCOVERY: Final = "pulsar.source.partitionDiscoveryIntervalMs"
_RESET: Final = "pulsar.source.resetSubscriptionCursor"
#: Flink's default: five minutes.
_DISCOVERY_MS: Final = 300_000


class PulsarSource(SplitSource):
    """Reads topics, each message exactly once; created with :meth:`builder`.

    The position of every partition is part of the job's state. The driver reads the partitions, and subtasks
    deserialize the messages. A message's timestamp is its event time or, without one, its time of publication.

    >>> from tidemill.common.serialization import SimpleStringSchema
    >>> source = (
    ...     PulsarSource.builder()
    ...     .set_service_url("pulsar://localhost:6650")
    ...     .set_admin_url("http://localhost:8080")
    ...     .set_topics("orders")
    ...     .set_subscription_name("shop")
    ...     .set_start_cursor(StartCursor.earliest())
    ...     .set_bounded_stop_cursor(StopCursor.latest())
    ...     .set_deserialization_schema(SimpleStringSchema())
    ...     .build()
    ... )
    >>> source, source.bounded
    (PulsarSource(topics orders of Pulsar at pulsar://localhost:6650), True)
    """

    def __init__(
        self,
        clients: PulsarClients,
        topics: Sequence[str],
        pattern: str | None,
        options: ReadOptions,
        schema: DeserializationSchema[Any],
        *,
        bounded: bool,
    ) -> None:
        self.bounded = bounded
        self._clients = clients
        self._names = topics
        self._pattern = pattern
        self._options = options
        self._schema = schema
        self.type_info = schema.get_produced_type()

    @staticmethod
    def builder() -> PulsarSourceBuilder:
        """Start building a source."""
        return PulsarSourceBuilder()

    @property
    def clock_of(self) -> ClockOf:
        return ClockOf.PARTITION

    def create_enumerator(self, position: Position | None) -> SplitEnumerator:
        """Create an enumerator that reads the partitions from their positions."""
        return PartitionEnumerator(self._clients, self._topics, self._options, position)

    def read(self, split: Split) -> Iterator[RecordBatch]:
        """Deserialize the messages of a split."""
        yield split.payload.decode(self._schema)

    def _topics(self) -> Sequence[str]:
        if self._pattern is None:
            return self._names
        namespace, pattern = _namespace_of(self._pattern)
        return [topic for topic in self._clients.topics_of(namespace) if re.fullmatch(pattern, topic)]

    def __repr__(self) -> str:
        named = f"topics {', '.join(self._names)}" if self._pattern is None else f"topics like {self._pattern}"
        return f"PulsarSource({named} of {self._clients.shown})"


class PulsarSourceBuilder:
    """Builds a :class:`PulsarSource`: service URL, subscription name, topics and a schema are required."""

    def __init__(self) -> None:
        self._service_url = ""
        self._admin_url: str | None = None
        self._plugin: tuple[str, str] | None = None
        self._subscription = ""
        self._consumer_name: str | None = None
        self._topics: list[str] = []
        self._pattern: str | None = None
        self._start = StartCursor.earliest()
        self._stop = StopCursor.never()
        self._keys = RangeGenerator.full()
        self._bounded = False
        self._schema: DeserializationSchema[Any] | None = None
        self._config: dict[str, str] = {}

    def set_admin_url(self, admin_url: str) -> PulsarSourceBuilder:
        """Set the admin URL, ``http://host:8080``; only used with a topic pattern."""
        self._admin_url = admin_url
        return self

    def set_service_url(self, service_url: str) -> PulsarSourceBuilder:
        """Set the service URL: ``pulsar://host:6650`` or ``pulsar+ssl://host:6651``."""
        self._service_url = service_url
        return self

    def set_subscription_name(self, subscription_name: str) -> PulsarSourceBuilder:
        """Set the name of the subscription, of which the source is the only consumer."""
        self._subscription = subscription_name
        return self

    def set_subscription_type(self, subscription_type: SubscriptionType) -> PulsarSourceBuilder:
        """Set the type of the subscription. All of them are read exclusively, in order."""
        if not isinstance(subscription_type, SubscriptionType):
            raise TypeError(f"a SubscriptionType is needed, not {subscription_type!r}")
        return self

    def set_topics(self, topics: str | Sequence[str]) -> PulsarSourceBuilder:
        """Set the topics to read, one or a list. A partitioned topic is read as a whole; new partitions are found."""
        self._topics = [topics] if isinstance(topics, str) else list(topics)
        return self

    def set_topic_pattern(self, topic_pattern: str) -> PulsarSourceBuilder:
        """Read all persistent topics of a namespace whose names match: ``persistent://tenant/namespace/orders-.*``."""
        self._pattern = topic_pattern
        return self

    def set_topics_pattern(self, topics_pattern: str) -> PulsarSourceBuilder:
        """Older name of :meth:`set_topic_pattern`."""
        return self.set_topic_pattern(topics_pattern)

    def set_consumer_name(self, consumer_name: str) -> PulsarSourceBuilder:
        """Set the name of the consumer, as Pulsar's statistics show it. Java's placeholder ``%s`` is left out."""
        self._consumer_name = consumer_name.replace("%s", "").strip("- ")
        return self

    def set_range_generator(self, range_generator: RangeGenerator) -> PulsarSourceBuilder:
        """Set which keys are read: :meth:`RangeGenerator.full`, which is the default, or some of them."""
        if not isinstance(range_generator, RangeGenerator):
            raise TypeError(f"a RangeGenerator is needed, not {type(range_generator).__name__}")
        self._keys = range_generator
        return self

    def set_start_cursor(self, start_cursor: StartCursor) -> PulsarSourceBuilder:
        """Set where a new subscription begins; by default with the first available message."""
        if not isinstance(start_cursor, StartCursor):
            raise TypeError(f"a StartCursor is needed, not {type(start_cursor).__name__}")
        self._start = start_cursor
        return self

    def set_unbounded_stop_cursor(self, stop_cursor: StopCursor) -> PulsarSourceBuilder:
        """Set where reading stops. The source counts as unbounded nevertheless."""
        return self._stop_at(stop_cursor, bounded=False)

    def set_bounded_stop_cursor(self, stop_cursor: StopCursor) -> PulsarSourceBuilder:
        """Set where reading stops. The source counts as bounded."""
        return self._stop_at(stop_cursor, bounded=True)

    def set_deserialization_schema(self, deserialization_schema: DeserializationSchema[Any]) -> PulsarSourceBuilder:
        """Set the schema that converts the bytes of a message to a record."""
        self._schema = checked_schema(deserialization_schema)
        return self

    def set_authentication(
        self, auth_plugin_class_name: str, auth_params_string: str | Mapping[str, str]
    ) -> PulsarSourceBuilder:
        """Set how to log in, with the name and parameters of a plugin of Pulsar's Java client."""
        self._plugin = (auth_plugin_class_name, auth_parameters(auth_params_string))
        return self

    def set_config(self, key: Any, value: Any) -> PulsarSourceBuilder:
        """Set an option, with its name in Flink (``pulsar.source. ...``, ``pulsar.client. ...``)."""
        return self.set_properties({key if isinstance(key, str) else key.key(): value})

    def set_config_with_dict(self, config: Mapping[str, Any]) -> PulsarSourceBuilder:
        """Older name of :meth:`set_properties`."""
        return self.set_properties(config)

    def set_properties(self, config: Mapping[str, Any]) -> PulsarSourceBuilder:
        """Set several options."""
        self._config |= checked_config(config)
        return self

    def build(self) -> PulsarSource:
        """Build the source. Raises :class:`ConfigurationError` if a setting is missing."""
        plugin, parameters = self._plugin or (None, "")
        clients = PulsarClients(self._service_url, self._admin_url, plugin, parameters, self._config)
        clients.check()
        if bool(self._topics) == bool(self._pattern):
            raise ConfigurationError("a Pulsar source needs set_topics() or set_topic_pattern(), and not both")
        if self._pattern is not None:
            _namespace_of(self._pattern)
        if not self._subscription:
            raise ConfigurationError("a Pulsar source needs set_subscription_name()")
        if self._schema is None:
            raise ConfigurationError("a Pulsar source needs set_deserialization_schema()")
        if self._bounded and self._stop.kind == "never":
            raise ConfigurationError("a bounded Pulsar source needs a stop cursor, such as StopCursor.latest()")
        options = ReadOptions(
            subscription=self._subscription,
            consumer_name=self._consumer_name or None,
            start=self._start,
            stop=self._stop,
            keys=self._keys,
            reset=self._config.get(_RESET, "false") == "true",
            discovery=0 if self._bounded else max(0, int(self._config.get(_DISCOVERY, _DISCOVERY_MS))) / 1000,
        )
        return PulsarSource(clients, self._topics, self._pattern, options, self._schema, bounded=self._bounded)

    def _stop_at(self, cursor: StopCursor, *, bounded: bool) -> PulsarSourceBuilder:
        if not isinstance(cursor, StopCursor):
            raise TypeError(f"a StopCursor is needed, not {type(cursor).__name__}")
        self._stop, self._bounded = cursor, bounded
        return self


def auth_parameters(given: str | Mapping[str, str]) -> str:
    """Return the parameters of a plugin as text."""
    return given if isinstance(given, str) else ",".join(f"{name}:{value}" for name, value in given.items())


def _namespace_of(pattern: str) -> tuple[str, str]:
    """Return the namespace of a topic pattern, and the pattern with its complete name."""
    scheme, _, rest = pattern.rpartition("://")
    parts = rest.split("/", 2)
    if len(parts) == 1:
        parts = ["public", "default", rest]
    if len(parts) != 3 or scheme not in ("", "persistent"):
        raise ConfigurationError(
            f"the topic pattern {pattern!r} must look like 'persistent://tenant/namespace/orders-.*'"
        )
    tenant, namespace, name = parts
    return f"{tenant}/{namespace}", f"persistent://{re.escape(tenant)}/{re.escape(namespace)}/{name}"
