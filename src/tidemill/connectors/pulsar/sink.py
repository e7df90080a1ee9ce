"""The Pulsar sink, with PyFlink's builder."""

from __future__ import annotations

import contextlib
import datetime as dt
import enum
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from tidemill.common.calls import call_each
from tidemill.common.serialization import SerializationSchema
from tidemill.common.time import Duration
from tidemill.connectors.base import DeliveryGuarantee
from tidemill.connectors.pulsar.client import PulsarClients, checked_config, pulsar_library
from tidemill.connectors.pulsar.source import auth_parameters
from tidemill.connectors.sinks import Sink, SinkWriter, WriterContext
from tidemill.datastream.functions.base import RuntimeContext
from tidemill.errors import ConfigurationError, ConnectorError

__all__ = ["MessageDelayer", "PulsarSink", "PulsarSinkBuilder", "TopicRoutingMode"]

#: The time within which a message must be acknowledged, in ms; the default of the Java client.
_SEND_TIMEOUT_MS: Final = 30_000

#: Chooses one of several topics for a record.
Router = Callable[[Any, Sequence[str]], str]


class TopicRoutingMode(enum.Enum):
    """How one of several topics is chosen for a record."""

    #: One after the other.
    ROUND_ROBIN = 0
    #: By the key of the message; without a key, each subtask writes to one topic.
    MESSAGE_KEY_HASH = 1
    #: By the function that is passed to :meth:`PulsarSinkBuilder.set_topic_router`.
    CUSTOM = 2


class MessageDelayer:
    """After which time consumers with a shared subscription receive a message."""

    def __init__(self, delay_ms: int = 0) -> None:
        self.delay_ms = delay_ms

    @staticmethod
    def never() -> MessageDelayer:
        """Immediately."""
        return MessageDelayer()

    @staticmethod
    def fixed(duration: Duration) -> MessageDelayer:
        """After a fixed time."""
        return MessageDelayer(duration.to_millis())


class PulsarSink(Sink):
    """Writes records to topics, at least once; created with :meth:`builder`.

    The epoch is committed only after Pulsar has acknowledged all of its messages. When an epoch is repeated, its
    messages are written again. The event time of a record, if it has one, is that of the message.

    >>> from tidemill.common.serialization import SimpleStringSchema
    >>> sink = (
    ...     PulsarSink.builder()
    ...     .set_service_url("pulsar://localhost:6650")
    ...     .set_topics("results")
    ...     .set_delivery_guarantee(DeliveryGuarantee.AT_LEAST_ONCE)
    ...     .set_serialization_schema(SimpleStringSchema())
    ...     .build()
    ... )
    >>> sink
    PulsarSink(topics results of Pulsar at pulsar://localhost:6650)
    """

    guarantee = "at-least-once"

    def __init__(
        self,
        clients: PulsarClients,
        topics: Sequence[str],
        schema: SerializationSchema[Any],
        mode: TopicRoutingMode,
        router: Router | None,
        delay_ms: int,
        producer_name: str | None,
    ) -> None:
        self.clients = clients
        self.topics = topics
        self.schema = schema
        self.mode = mode
        self.router = router
        self.delay_ms = delay_ms
        self.producer_name = producer_name

    @staticmethod
    def builder() -> PulsarSinkBuilder:
        """Start building a sink."""
        return PulsarSinkBuilder()

    def create_writer(self, subtask: int, parallelism: int) -> SinkWriter:
        """Create a writer with its own producers."""
        return _ProducingWriter(self, subtask)

    def __repr__(self) -> str:
        named = f"topics {', '.join(self.topics)}" if self.topics else "topics of a router"
        return f"PulsarSink({named} of {self.clients.shown})"


class _ProducingWriter(SinkWriter):
    def __init__(self, sink: PulsarSink, subtask: int) -> None:
        # configuration
        self._sink = sink
        self._subtask = subtask
        self._options: dict[str, Any] = {}
        if sink.delay_ms:
            self._options["deliver_after"] = dt.timedelta(milliseconds=sink.delay_ms)
        # transient
        self._client: Any = None
        self._producers: dict[str, Any] = {}
        self._next = subtask
        self._acknowledgements = _Acknowledgements(0)

    def open(self, runtime_context: RuntimeContext) -> None:
        self._client = self._sink.clients.client()
        for topic in self._sink.topics:
            self._producer(topic)

    def begin_epoch(self, context: WriterContext) -> None:
        self._acknowledgements = _Acknowledgements(context.epoch)

    def write(self, values: list[Any], timestamps: list[int] | None) -> None:
        self._acknowledgements.check(self._sink.clients)
        bodies = call_each(self._sink.schema.serialize, values, lambda error, position: error)
        for place, (value, body) in enumerate(zip(values, bodies, strict=True)):
            topic = self._topic(value)
            options = self._options
            if timestamps is not None and timestamps[place] > 0:
                options = {**options, "event_timestamp": timestamps[place]}
            answered = self._acknowledgements.expect(topic)
            send = partial(self._producer(topic).send_async, body, answered, **options)
            self._sink.clients.call(send, f"writing to {topic}")

    def prepare_commit(self) -> Sequence[bytes]:
        for topic, producer in self._producers.items():
            self._sink.clients.call(producer.flush, f"writing to {topic}")
        self._acknowledgements.wait(self._sink.clients, _SEND_TIMEOUT_MS / 1000)
        return ()

    def close(self) -> None:
        client, self._client, self._producers = self._client, None, {}
        if client is not None:
            with contextlib.suppress(pulsar_library().exceptions.PulsarException):
                client.close()

    def _topic(self, record: Any) -> str:
        sink = self._sink
        if sink.router is not None:
            return sink.router(record, sink.topics)
        if sink.mode is TopicRoutingMode.ROUND_ROBIN:
            self._next += 1
        return sink.topics[self._next % len(sink.topics)]

    def _producer(self, topic: str) -> Any:
        producer = self._producers.get(topic)
        if producer is None:
            name = self._sink.producer_name
            producer = self._sink.clients.call(
                lambda: self._client.create_producer(
                    topic,
                    # A name belongs to one producer at a time: without a number, subtasks would exclude each other.
                    producer_name=None if name is None else f"{name}-{self._subtask}",
                    block_if_queue_full=True,
                    batching_enabled=True,
                    send_timeout_millis=_SEND_TIMEOUT_MS,
                ),
                f"creating a producer for {topic}",
            )
            self._producers[topic] = producer
        return producer


class _Acknowledgements:
    """Counts the messages of an epoch that Pulsar has not acknowledged, and keeps the first failure."""

    def __init__(self, epoch: int) -> None:
        self._epoch = epoch
        self._changed = threading.Condition()
        self._left = 0
        self._failure = ""

    def expect(self, topic: str) -> Callable[[Any, Any], None]:
        """Return what the client calls with the result of a message."""
        with self._changed:
            self._left += 1

        def answered(result: Any, message_id: Any) -> None:
            with self._changed:
                self._left -= 1
                if str(result).rpartition(".")[2] != "Ok" and not self._failure:
                    self._failure = f"a message for {topic} was not accepted: {result}"
                if not self._left or self._failure:
                    self._changed.notify_all()

        return answered

    def check(self, clients: PulsarClients) -> None:
        """Raise :class:`ConnectorError` if a message has failed."""
        if self._failure:
            raise ConnectorError(f"{clients.shown}: {self._failure}")

    def wait(self, clients: PulsarClients, seconds: float) -> None:
        """Wait until all messages are acknowledged. Raises :class:`ConnectorError` if one is not."""
        with self._changed:
            done = self._changed.wait_for(lambda: not self._left or self._failure, seconds)
        self.check(clients)
        if not done:
            raise ConnectorError(f"{clients.shown}: {self._left:,} messages were not acknowledged within {seconds:g} s")


class PulsarSinkBuilder:
    """Builds a :class:`PulsarSink`: service URL, topics or a router, and a schema are required."""

    def __init__(self) -> None:
        self._service_url = ""
        self._admin_url: str | None = None
        self._plugin: tuple[str, str] | None = None
        self._topics: list[str] = []
        self._mode = TopicRoutingMode.ROUND_ROBIN
        self._router: Router | None = None
        self._delayer = MessageDelayer.never()
        self._producer_name: str | None = None
        self._schema: SerializationSchema[Any] | None = None
        self._config: dict[str, str] = {}

    def set_admin_url(self, admin_url: str) -> PulsarSinkBuilder:
        """Accepted and unused."""
        self._admin_url = admin_url
        return self

    def set_service_url(self, service_url: str) -> PulsarSinkBuilder:
        """Set the service URL: ``pulsar://host:6650`` or ``pulsar+ssl://host:6651``."""
        self._service_url = service_url
        return self

    def set_producer_name(self, producer_name: str) -> PulsarSinkBuilder:
        """Set the beginning of the names of producers, as Pulsar's statistics show them; a subtask's index follows."""
        self._producer_name = producer_name.replace("%s", "").strip("- ")
        return self

    def set_topics(self, topics: str | Sequence[str]) -> PulsarSinkBuilder:
        """Set the topic to write to, or several."""
        self._topics = [topics] if isinstance(topics, str) else list(topics)
        return self

    def set_delivery_guarantee(self, delivery_guarantee: DeliveryGuarantee) -> PulsarSinkBuilder:
        """Set the delivery guarantee: ``AT_LEAST_ONCE``, or ``NONE``, which has the same effect.

        ``EXACTLY_ONCE`` is rejected: Pulsar's Python client has no transactions.
        """
        if not isinstance(delivery_guarantee, DeliveryGuarantee):
            raise TypeError(f"a DeliveryGuarantee is needed, not {delivery_guarantee!r}")
        if delivery_guarantee is DeliveryGuarantee.EXACTLY_ONCE:
            raise ConfigurationError(
                "a Pulsar sink does not support EXACTLY_ONCE, because Pulsar's Python client has no transactions: use "
                "AT_LEAST_ONCE, and let consumers ignore duplicates"
            )
        return self

    def set_topic_routing_mode(self, topic_routing_mode: TopicRoutingMode) -> PulsarSinkBuilder:
        """Set how one of several topics is chosen for a record."""
        if not isinstance(topic_routing_mode, TopicRoutingMode):
            raise TypeError(f"a TopicRoutingMode is needed, not {topic_routing_mode!r}")
        self._mode = topic_routing_mode
        return self

    def set_topic_router(self, topic_router_class_name: str | Router) -> PulsarSinkBuilder:
        """Set a function of the record and the topics that returns the topic to write to. Java classes are rejected."""
        if not callable(topic_router_class_name):
            raise ConfigurationError(
                f"{topic_router_class_name!r} is the name of a Java class: pass a function of the record and the list "
                "of topics that returns a topic"
            )
        self._router = topic_router_class_name
        self._mode = TopicRoutingMode.CUSTOM
        return self

    def set_serialization_schema(self, serialization_schema: SerializationSchema[Any]) -> PulsarSinkBuilder:
        """Set the schema that converts a record to bytes."""
        if not isinstance(serialization_schema, SerializationSchema):
            raise TypeError(f"a SerializationSchema is needed, not {type(serialization_schema).__name__}")
        self._schema = serialization_schema
        return self

    def set_authentication(
        self, auth_plugin_class_name: str, auth_params_string: str | Mapping[str, str]
    ) -> PulsarSinkBuilder:
        """Set how to log in, with the name and parameters of a plugin of Pulsar's Java client."""
        self._plugin = (auth_plugin_class_name, auth_parameters(auth_params_string))
        return self

    def delay_sending_message(self, message_delayer: MessageDelayer) -> PulsarSinkBuilder:
        """Set after which time consumers with a shared subscription receive a message."""
        if not isinstance(message_delayer, MessageDelayer):
            raise TypeError(f"a MessageDelayer is needed, not {type(message_delayer).__name__}")
        self._delayer = message_delayer
        return self

    def set_config(self, key: Any, value: Any) -> PulsarSinkBuilder:
        """Set an option, with its name in Flink (``pulsar.client. ...``)."""
        return self.set_properties({key if isinstance(key, str) else key.key(): value})

    def set_properties(self, config: Mapping[str, Any]) -> PulsarSinkBuilder:
        """Set several options."""
        self._config |= checked_config(config)
        return self

    def build(self) -> PulsarSink:
        """Build the sink. Raises :class:`ConfigurationError` if a setting is missing."""
        plugin, parameters = self._plugin or (None, "")
        clients = PulsarClients(self._service_url, self._admin_url, plugin, parameters, self._config)
        clients.check()
        if not self._topics and self._router is None:
            raise ConfigurationError("a Pulsar sink needs set_topics() or set_topic_router()")
        if self._schema is None:
            raise ConfigurationError("a Pulsar sink needs set_serialization_schema()")
        if self._mode is TopicRoutingMode.CUSTOM and self._router is None:
            raise ConfigurationError("TopicRoutingMode.CUSTOM needs set_topic_router()")
        delay = self._delayer.delay_ms
        return PulsarSink(clients, self._topics, self._schema, self._mode, self._router, delay, self._producer_name)
