"""A sink that writes to Kafka topics, with PyFlink's builder."""

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
#: How long to wait for space in a producer's queue before trying again, in seconds.
_ROOM: Final = 0.002
_LONGEST_PREFIX: Final = 6400
#: For how many seconds the partitions of a topic are cached.
_FRESH: Final = 60.0


class KafkaSink(Sink):
    """Writes records to Kafka topics; created with :meth:`builder`.

    - ``EXACTLY_ONCE``: results are delivered after their epoch is committed, in one transaction per subtask. Readers
      with ``isolation.level=read_committed`` see each result once, and no results of an epoch that failed.
    - ``AT_LEAST_ONCE``: results are written while the epoch runs, and the epoch is committed only after Kafka has
      acknowledged all of them. When an epoch is repeated, its results are duplicated.
    - ``NONE``: like ``AT_LEAST_ONCE``, but results that Kafka rejects are logged and lost.

    The order of records with the same key is preserved. The event time of a record, if it has one, is its timestamp in
    Kafka.

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
        """Create a writer with its own producer."""
        context = _SchemaContext(self._clients, subtask, parallelism)
        return _ProducingWriter(self._clients, self._serializer, context, lossy=self.guarantee == "none")

    def __repr__(self) -> str:
        topic = self._serializer.fixed_topic()
        return f"KafkaSink({self.guarantee}, {f'topic {topic}' if topic else 'topics'} at {self._clients!r})"


class ExactlyOnceKafkaSink(WriteAheadLogSink, KafkaSink):
    """A :class:`KafkaSink` whose results are written to the write-ahead log first, and then delivered to Kafka."""

    def __init__(
        self,
        clients: KafkaClients,
        serializer: KafkaRecordSerializationSchema[Any],
        prefix: str | None,
        expired: ExpiredMarker,
    ) -> None:
        """Without a prefix, transactional ids begin with the id of the job."""
        super().__init__(clients, serializer, DeliveryGuarantee.EXACTLY_ONCE)
        self._prefix = prefix
        self._expired = expired

    def create_writer(self, subtask: int, parallelism: int) -> SinkWriter:
        """Create a writer that writes to the log."""
        return _LoggingWriter(self._serializer, _SchemaContext(self._clients, subtask, parallelism))

    def create_destination(self) -> Destination:
        """Create the destination that delivers results in transactions."""
        return KafkaTransactions(self._clients, self._prefix, self._serializer.fixed_topic(), self._expired)


class KafkaSinkBuilder:
    """Builds a :class:`KafkaSink`; bootstrap servers and a serializer are required."""

    def __init__(self) -> None:
        self._servers: str | None = None
        self._delivery = DeliveryGuarantee.NONE
        self._prefix: str | None = None
        self._serializer: KafkaRecordSerializationSchema[Any] | None = None
        self._properties: dict[str, str] = {}
        self._expired = ExpiredMarker.FAIL

    def set_bootstrap_servers(self, bootstrap_servers: str) -> KafkaSinkBuilder:
        """Set the bootstrap servers: ``"host:port,host:port"``."""
        self._servers = bootstrap_servers
        return self

    def set_delivery_guarantee(self, delivery_guarantee: DeliveryGuarantee) -> KafkaSinkBuilder:
        """Set the delivery guarantee after a failure; by default ``NONE``, as in Flink."""
        if not isinstance(delivery_guarantee, DeliveryGuarantee):
            raise TypeError(f"a DeliveryGuarantee is needed, not {delivery_guarantee!r}")
        self._delivery = delivery_guarantee
        return self

    def set_transactional_id_prefix(self, transactional_id_prefix: str) -> KafkaSinkBuilder:
        """Set the prefix of the transactional ids of the sink's producers, for exactly-once.

        It must be unique among all jobs on the Kafka cluster. Do not change it when the job is restarted: the broker
        uses the transactional id to identify unfinished transactions that it may abort.
        """
        if not transactional_id_prefix or len(transactional_id_prefix.encode()) > _LONGEST_PREFIX:
            raise ValueError(
                f"a transactional id prefix must have 1 to {_LONGEST_PREFIX} bytes: {transactional_id_prefix!r}"
            )
        self._prefix = transactional_id_prefix
        return self

    def set_record_serializer(self, record_serializer: KafkaRecordSerializationSchema[Any]) -> KafkaSinkBuilder:
        """Set the serializer that converts records of the stream to records of a topic."""
        if not isinstance(record_serializer, KafkaRecordSerializationSchema):
            raise TypeError(f"a KafkaRecordSerializationSchema is needed, not {type(record_serializer).__name__}")
        self._serializer = record_serializer
        return self

    def set_property(self, key: str, value: str) -> KafkaSinkBuilder:
        """Set a producer property, with its name in Kafka's Java client or in librdkafka."""
        if not all(isinstance(each, str) for each in (key, value)):
            raise TypeError(f"a property and its value must be strings: {key!r}")
        self._properties[key] = value
        return self

    def set_properties(self, props: Mapping[str, str]) -> KafkaSinkBuilder:
        """Set several properties, such as the security properties of a source for the same cluster."""
        for key, value in props.items():
            self.set_property(key, value)
        return self

    def set_expired_marker(self, policy: ExpiredMarker) -> KafkaSinkBuilder:
        """Set what to do, with exactly-once, if a job is restarted after a week or more. Specific to Tidemill.

        When a job is restarted, it delivers the results of its last epoch, unless a marker in Kafka shows that they
        were delivered. Kafka deletes markers after ``offsets.retention.minutes``, by default a week. If a marker may
        have been deleted, the job does not start, unless this policy is to deliver the results or to skip them.
        """
        self._expired = ExpiredMarker(policy)
        return self

    def build(self) -> KafkaSink:
        """Build the sink. Raises an error if a setting is missing, or if the Kafka client rejects a property."""
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
                "exactly-once needs set_transactional_id_prefix(): a name that no other job on the Kafka cluster uses"
            )
        return ExactlyOnceKafkaSink(clients, self._serializer, self._prefix, self._expired)


@dataclass
class _SchemaContext:
    """Provides a schema with its subtask and the partitions of topics, which are refreshed because they may change."""

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
    """Writes serialized records to the log, from which they are delivered to Kafka."""

    def __init__(self, serializer: KafkaRecordSerializationSchema[Any], context: _SchemaContext) -> None:
        super().__init__(lambda values, timestamps: serializer.columns(values, timestamps).to_bytes())
        self._serializer = serializer
        self._schema_context = context

    def open(self, runtime_context: RuntimeContext) -> None:
        self._serializer.open(self._schema_context)


class _ProducingWriter(SinkWriter):
    """Writes to Kafka while the epoch runs, and waits at its end until Kafka has acknowledged all records."""

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
            raise self._clients.refused("a record was rejected", error) from None
        producer.poll(0)
        self._check()

    def prepare_commit(self) -> Sequence[bytes]:
        """Wait until each record is acknowledged, rejected, or has exceeded the client's delivery timeout."""
        producer = self._opened()
        while producer.flush(1.0):
            self._check()
        self._check()
        return ()

    def close(self) -> None:
        if self._producer is not None:
            with contextlib.suppress(Exception):
                self._producer.purge(blocking=False)  # remaining records belong to an epoch that failed
            self._producer = None

    def _opened(self) -> Producer:
        if self._producer is None:
            raise RuntimeError("open() must be called before the first record")
        return self._producer

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        """Called by the library within poll and flush, for records that Kafka did not accept."""
        if error is not None:
            self._failures += 1
            if not self._first:
                self._first = f"topic {message.topic()!r}, partition {message.partition()}: {error.str()}"

    def _check(self) -> None:
        if not self._failures:
            return
        count, first = self._failures, self._first
        self._failures, self._first = 0, ""
        trouble = f"; the client's last error: {self._complaints.last.str()}" if self._complaints.last else ""
        error: ConnectorError = self._clients.refused(
            f"{count} {'record was' if count == 1 else 'records were'} not written", f"{first}{trouble}"
        )
        if not self._lossy:
            raise error
        log.error("%s; they are lost, because the sink's delivery guarantee is NONE", error)
