"""A sink that writes to topics of Kafka, with PyFlink's builder."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tidemill.connectors.base import DeliveryGuarantee
from tidemill.connectors.kafka.client import Complaints, KafkaClients, check_reachable
from tidemill.connectors.kafka.producer_records import KafkaRecordSerializationSchema
from tidemill.connectors.kafka.transactions import ExpiredMarker, KafkaTransactions
from tidemill.connectors.sinks import Sink, SinkWriter
from tidemill.connectors.write_ahead_log import Destination, LogWriter, WriteAheadLogSink
from tidemill.errors import ConnectorError

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message, Producer

    from tidemill.datastream.functions.base import RuntimeContext

__all__ = ["KafkaSink", "KafkaSinkBuilder"]

log = logging.getLogger(__name__)

_GUARANTEES: Final = {
    DeliveryGuarantee.EXACTLY_ONCE: "exactly-once",
    DeliveryGuarantee.AT_LEAST_ONCE: "at-least-once",
    DeliveryGuarantee.NONE: "none",
}
#: How long to wait for room in a producer's queue before looking again, in seconds.
_ROOM: Final = 0.002
_LONGEST_PREFIX: Final = 6400
#: For how many seconds the partitions of a topic are taken to be those that it had.
_FRESH: Final = 60.0


class KafkaSink(Sink):
    """Writes records to topics of Kafka; made by :meth:`builder`.

    - ``EXACTLY_ONCE``: results are delivered after their epoch is committed, in one transaction per subtask. Readers
      with ``isolation.level=read_committed`` see each of them once, and none of an epoch that failed.
    - ``AT_LEAST_ONCE``: results are written while the epoch runs, and it is not committed before Kafka has them all.
      When an epoch is run again, its results are there again.
    - ``NONE``: as before, but results that Kafka refuses are logged, and lost.

    A key's records keep their order. The event time of a record, if it has one, is its timestamp in Kafka.

    >>> from tidemill.common.serialization import SimpleStringSchema
    >>> sink = (
    ...     KafkaSink.builder()
    ...     .set_bootstrap_servers("localhost:9092")
    ...     .set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE)
    ...     .set_transactional_id_prefix("shop")
    ...     .set_record_serializer(
    ...         KafkaRecordSerializationSchema.builder()
    ...         .set_topic("orders")
    ...         .set_value_serialization_schema(SimpleStringSchema())
    ...         .build()
    ...     )
    ...     .set_property("sasl.password", "sesame")
    ...     .build()
    ... )
    >>> sink
    KafkaSink(exactly-once, topic orders at localhost:9092, {'sasl.password': '******'})
    """

    guarantee = "none"

    def __init__(
        self,
        clients: KafkaClients,
        serializer: KafkaRecordSerializationSchema[Any],
        delivery: DeliveryGuarantee,
    ) -> None:
        self._clients = clients
        self._serializer = serializer
        self.guarantee = _GUARANTEES[delivery]

    @staticmethod
    def builder() -> KafkaSinkBuilder:
        """Start building a sink."""
        return KafkaSinkBuilder()

    def create_writer(self, subtask: int, parallelism: int) -> SinkWriter:
        """A writer that has a producer."""
        context = _SchemaContext(self._clients, subtask, parallelism)
        return _ProducingWriter(self._clients, self._serializer, context, lossy=self.guarantee == "none")

    def __repr__(self) -> str:
        topic = self._serializer.fixed_topic()
        return f"KafkaSink({self.guarantee}, {f'topic {topic}' if topic else 'topics'} at {self._clients!r})"


class _ExactlyOnceSink(WriteAheadLogSink, KafkaSink):
    """A :class:`KafkaSink` whose results go to the log, and from there to Kafka."""

    def __init__(
        self,
        clients: KafkaClients,
        serializer: KafkaRecordSerializationSchema[Any],
        prefix: str,
        expired: ExpiredMarker,
    ) -> None:
        super().__init__(clients, serializer, DeliveryGuarantee.EXACTLY_ONCE)
        self._prefix = prefix
        self._expired = expired

    def create_writer(self, subtask: int, parallelism: int) -> SinkWriter:
        """A writer to the log."""
        return _LoggingWriter(self._serializer, _SchemaContext(self._clients, subtask, parallelism))

    def create_destination(self) -> Destination:
        """Transactions."""
        return KafkaTransactions(self._clients, self._prefix, self._serializer.fixed_topic(), self._expired)


class KafkaSinkBuilder:
    """Collects the settings of a :class:`KafkaSink`; servers and a serializer are needed."""

    def __init__(self) -> None:
        self._servers: str | None = None
        self._delivery = DeliveryGuarantee.NONE
        self._prefix: str | None = None
        self._serializer: KafkaRecordSerializationSchema[Any] | None = None
        self._properties: dict[str, str] = {}
        self._expired = ExpiredMarker.FAIL

    def set_bootstrap_servers(self, bootstrap_servers: str) -> KafkaSinkBuilder:
        """The brokers to ask first: ``"host:port,host:port"``."""
        self._servers = bootstrap_servers
        return self

    def set_delivery_guarantee(self, delivery_guarantee: DeliveryGuarantee) -> KafkaSinkBuilder:
        """What is promised after a failure; ``NONE`` if not set, as in Flink."""
        if not isinstance(delivery_guarantee, DeliveryGuarantee):
            raise TypeError(f"a DeliveryGuarantee is needed, not {delivery_guarantee!r}")
        self._delivery = delivery_guarantee
        return self

    def set_transactional_id_prefix(self, transactional_id_prefix: str) -> KafkaSinkBuilder:
        """For exactly once: how the names of the sink's producers begin. Of all jobs on a cluster, only this one's.

        Keep it from one start of the job to the next: by the name the broker knows whose unfinished transaction it may
        abort.
        """
        if not transactional_id_prefix or len(transactional_id_prefix.encode()) > _LONGEST_PREFIX:
            raise ValueError(f"a transactional id prefix has 1 to {_LONGEST_PREFIX} bytes: {transactional_id_prefix!r}")
        self._prefix = transactional_id_prefix
        return self

    def set_record_serializer(self, record_serializer: KafkaRecordSerializationSchema[Any]) -> KafkaSinkBuilder:
        """How records of the stream become records of a topic."""
        if not isinstance(record_serializer, KafkaRecordSerializationSchema):
            raise TypeError(f"a KafkaRecordSerializationSchema is needed, not {type(record_serializer).__name__}")
        self._serializer = record_serializer
        return self

    def set_property(self, key: str, value: str) -> KafkaSinkBuilder:
        """Any property of a producer: Java's names, or those of librdkafka."""
        if not all(isinstance(each, str) for each in (key, value)):
            raise TypeError(f"a property and its value are texts: {key!r}")
        self._properties[key] = value
        return self

    def set_properties(self, props: Mapping[str, str]) -> KafkaSinkBuilder:
        """Several of them, such as those by which a source gets into the same cluster."""
        for key, value in props.items():
            self.set_property(key, value)
        return self

    def set_expired_marker(self, policy: ExpiredMarker) -> KafkaSinkBuilder:
        """Tidemill's own, for exactly once: what to do when a job is started after a week and more.

        It delivers the results of its last epoch, unless Kafka has a marker that they are there. Kafka forgets markers
        (``offsets.retention.minutes``, a week if the brokers are not told otherwise). Where one may have been
        forgotten, the job refuses to start, unless it is told to deliver the results, or to skip them.
        """
        self._expired = ExpiredMarker(policy)
        return self

    def build(self) -> KafkaSink:
        """The sink. Raises for what is missing, or what Kafka's client does not take."""
        properties = dict(self._properties)
        servers = self._servers or properties.pop("bootstrap.servers", "")
        if self._serializer is None:
            raise ValueError("a Kafka sink needs set_record_serializer()")
        clients = KafkaClients(servers, properties)
        clients.check()
        if self._delivery is not DeliveryGuarantee.EXACTLY_ONCE:
            return KafkaSink(clients, self._serializer, self._delivery)
        if self._prefix is None:
            raise ValueError(
                "exactly once needs set_transactional_id_prefix(): a name that no other job on the Kafka cluster has"
            )
        return _ExactlyOnceSink(clients, self._serializer, self._prefix, self._expired)


@dataclass
class _SchemaContext:
    """Tells a schema who asks and which partitions there are; topics may grow, so it asks again now and then."""

    clients: KafkaClients
    subtask: int
    parallelism: int

    def __post_init__(self) -> None:
        self._client: Any = None
        self._known: dict[str, tuple[float, list[int]]] = {}

    def partitions_of(self, topic: str) -> list[int]:
        now = time.monotonic()
        asked, partitions = self._known.get(topic, (-_FRESH, []))
        if now - asked >= _FRESH:
            complaints = Complaints()
            if self._client is None:
                self._client = self.clients.producer(error_cb=complaints)
            check_reachable(self.clients, self._client, complaints, (topic,))
            found = self._client.list_topics(topic, timeout=self.clients.patience).topics[topic].partitions
            partitions = sorted(found)
            self._known[topic] = (now, partitions)
        return partitions


class _LoggingWriter(LogWriter):
    """Writes to the log what will be written to Kafka."""

    def __init__(self, serializer: KafkaRecordSerializationSchema[Any], context: _SchemaContext) -> None:
        super().__init__(lambda values, timestamps: serializer.columns(values, timestamps).to_bytes())
        self._serializer = serializer
        self._schema_context = context

    def open(self, runtime_context: RuntimeContext) -> None:
        self._serializer.open(self._schema_context)


class _ProducingWriter(SinkWriter):
    """Writes to Kafka while the epoch runs, and waits at its end until Kafka has everything."""

    def __init__(
        self,
        clients: KafkaClients,
        serializer: KafkaRecordSerializationSchema[Any],
        context: _SchemaContext,
        *,
        lossy: bool,
    ) -> None:
        # configuration
        self._clients = clients
        self._serializer = serializer
        self._schema_context = context
        self._lossy = lossy
        # transient
        self._producer: Producer | None = None
        self._complaints = Complaints()
        self._failures = 0
        self._first = ""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._serializer.open(self._schema_context)
        self._producer = self._clients.producer(error_cb=self._complaints, on_delivery=self._delivered)
        topic = self._serializer.fixed_topic()
        check_reachable(self._clients, self._producer, self._complaints, () if topic is None else (topic,))

    def write(self, values: list[Any], timestamps: list[int] | None) -> None:
        from confluent_kafka import KafkaException

        producer = self._opened()
        columns = self._serializer.columns(values, timestamps)
        try:
            columns.produce(producer.produce, lambda: producer.poll(_ROOM))
        except KafkaException as error:
            raise self._clients.refused("a record was refused", error) from None
        producer.poll(0)
        self._check()

    def prepare_commit(self) -> Sequence[bytes]:
        """Wait: each record is with Kafka, or has been refused or given up after the client's delivery timeout."""
        producer = self._opened()
        while producer.flush(1.0):
            self._check()
        self._check()
        return ()

    def close(self) -> None:
        if self._producer is not None:
            with contextlib.suppress(Exception):
                self._producer.purge(blocking=False)  # what is left belongs to an epoch that failed
            self._producer = None

    def _opened(self) -> Producer:
        if self._producer is None:
            raise RuntimeError("open() comes before the first record")
        return self._producer

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        """Called by the library from within poll and flush, for records that Kafka did not take."""
        if error is not None:
            self._failures += 1
            if not self._first:
                self._first = f"topic {message.topic()!r}, partition {message.partition()}: {error.str()}"

    def _check(self) -> None:
        if not self._failures:
            return
        count, first = self._failures, self._first
        self._failures, self._first = 0, ""
        trouble = f"; the last trouble of the client: {self._complaints.last.str()}" if self._complaints.last else ""
        error: ConnectorError = self._clients.refused(f"{count} records were not written", f"{first}{trouble}")
        if not self._lossy:
            raise error
        log.error("%s; they are lost, as the sink's delivery guarantee is NONE", error)
