"""Sinks that write to Kinesis Data Streams and to Firehose, with PyFlink's builders."""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from tidemill.common.serialization import SerializationSchema
from tidemill.connectors.kinesis.batching import BatchLimits, Rejected, RequestWriter, SizedRequest
from tidemill.connectors.kinesis.client import AwsClients, checked_properties
from tidemill.connectors.sinks import Sink, SinkWriter
from tidemill.errors import ConfigurationError
from tidemill.python_versions import Self

__all__ = [
    "KinesisFirehoseSink",
    "KinesisFirehoseSinkBuilder",
    "KinesisStreamsSink",
    "KinesisStreamsSinkBuilder",
    "PartitionKeyGenerator",
]

#: Defaults of Flink's sinks, and also the limits of the services: 500 records, and 5 or 4 MiB, in a request.
_STREAMS: Final = BatchLimits(500, 5 << 20, 1 << 20)
_FIREHOSE: Final = BatchLimits(500, 4 << 20, 1000 << 10)
_MOST: Final = 500


class PartitionKeyGenerator:
    """Creates the partition key of a record, which determines its shard.

    A function of the record can be used instead of the two that exist:

    >>> PartitionKeyGenerator(lambda order: order["customer"]).key({"customer": "Ada"}, subtask=0)
    'Ada'
    """

    def __init__(self, generate: Callable[[Any], str] | None = None, *, by_subtask: bool = False) -> None:
        self._generate = generate
        self._by_subtask = by_subtask

    @staticmethod
    def fixed() -> PartitionKeyGenerator:
        """All records of a subtask get the same key, and so go to the same shard."""
        return PartitionKeyGenerator(by_subtask=True)

    @staticmethod
    def random() -> PartitionKeyGenerator:
        """Each record gets a random key."""
        return PartitionKeyGenerator()

    def key(self, record: Any, subtask: int) -> str:
        """Return the key of a record that a subtask writes."""
        if self._generate is not None:
            return str(self._generate(record))
        return str(subtask) if self._by_subtask else uuid.uuid4().hex


class _AwsSink(Sink):
    """The common part of both sinks."""

    guarantee = "at-least-once"

    def __init__(self, clients: AwsClients, stream: str, schema: SerializationSchema[Any], limits: BatchLimits) -> None:
        self._clients = clients
        self._stream = stream
        self._schema = schema
        self._limits = limits

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._stream!r} of {self._clients.shown})"


class KinesisStreamsSink(_AwsSink):
    """Writes records to a stream of Kinesis Data Streams, at least once; created with :meth:`builder`.

    The epoch is committed only after Kinesis has accepted all of its records. Records that it rejects for lack of
    capacity are sent again, after those that it has accepted.

    >>> from tidemill.common.serialization import SimpleStringSchema
    >>> sink = (
    ...     KinesisStreamsSink.builder()
    ...     .set_kinesis_client_properties({"aws.region": "eu-west-1"})
    ...     .set_stream_name("results")
    ...     .set_serialization_schema(SimpleStringSchema())
    ...     .set_partition_key_generator(PartitionKeyGenerator.random())
    ...     .build()
    ... )
    >>> sink
    KinesisStreamsSink('results' of Kinesis at eu-west-1)
    """

    def __init__(
        self,
        clients: AwsClients,
        stream: str,
        schema: SerializationSchema[Any],
        keys: PartitionKeyGenerator,
        limits: BatchLimits,
    ) -> None:
        super().__init__(clients, stream, schema, limits)
        self._keys = keys

    @staticmethod
    def builder() -> KinesisStreamsSinkBuilder:
        """Start building a sink."""
        return KinesisStreamsSinkBuilder()

    def create_writer(self, subtask: int, parallelism: int) -> SinkWriter:
        """Create a writer with its own client."""
        return _StreamWriter(self._clients, self._stream, self._schema, self._keys, self._limits, subtask)


class KinesisFirehoseSink(_AwsSink):
    """Writes records to a delivery stream of Firehose, at least once; created with :meth:`builder`.

    >>> from tidemill.common.serialization import SimpleStringSchema
    >>> sink = (
    ...     KinesisFirehoseSink.builder()
    ...     .set_firehose_client_properties({"aws.region": "eu-west-1"})
    ...     .set_delivery_stream_name("archive")
    ...     .set_serialization_schema(SimpleStringSchema())
    ...     .build()
    ... )
    >>> sink
    KinesisFirehoseSink('archive' of Firehose at eu-west-1)
    """

    @staticmethod
    def builder() -> KinesisFirehoseSinkBuilder:
        """Start building a sink."""
        return KinesisFirehoseSinkBuilder()

    def create_writer(self, subtask: int, parallelism: int) -> SinkWriter:
        """Create a writer with its own client."""
        return _DeliveryWriter(self._clients, self._stream, self._schema, self._limits)


class _StreamWriter(RequestWriter):
    def __init__(
        self,
        clients: AwsClients,
        stream: str,
        schema: SerializationSchema[Any],
        keys: PartitionKeyGenerator,
        limits: BatchLimits,
        subtask: int,
    ) -> None:
        super().__init__(clients, schema, limits)
        self._stream = stream
        self._keys = keys
        self._subtask = subtask

    @property
    def target(self) -> str:
        return f"stream {self._stream!r} of {self._clients.shown}"

    def entry(self, value: Any, data: bytes) -> SizedRequest:
        key = self._keys.key(value, self._subtask)
        return SizedRequest({"Data": data, "PartitionKey": key}, len(data) + len(key.encode()))

    def send(self, client: Any, entries: Sequence[SizedRequest]) -> Sequence[Rejected]:
        answer = self._clients.call(
            client.put_records,
            f"writing to {self.target}",
            StreamName=self._stream,
            Records=[entry.request for entry in entries],
        )
        return _rejected(answer["Records"]) if answer["FailedRecordCount"] else ()


class _DeliveryWriter(RequestWriter):
    def __init__(self, clients: AwsClients, stream: str, schema: SerializationSchema[Any], limits: BatchLimits) -> None:
        super().__init__(clients, schema, limits)
        self._stream = stream

    @property
    def target(self) -> str:
        return f"delivery stream {self._stream!r} of {self._clients.shown}"

    def entry(self, value: Any, data: bytes) -> SizedRequest:
        return SizedRequest({"Data": data}, len(data))

    def send(self, client: Any, entries: Sequence[SizedRequest]) -> Sequence[Rejected]:
        answer = self._clients.call(
            client.put_record_batch,
            f"writing to {self.target}",
            DeliveryStreamName=self._stream,
            Records=[entry.request for entry in entries],
        )
        return _rejected(answer["RequestResponses"]) if answer["FailedPutCount"] else ()


def _rejected(answers: Sequence[Mapping[str, Any]]) -> list[Rejected]:
    return [
        Rejected(place, answer["ErrorCode"], answer.get("ErrorMessage", ""))
        for place, answer in enumerate(answers)
        if answer.get("ErrorCode")
    ]


class _SinkBuilder:
    """The methods of both builders."""

    def __init__(self, limits: BatchLimits) -> None:
        self._limits = limits
        self._properties: dict[str, str] = {}
        self._schema: SerializationSchema[Any] | None = None
        self._stream = ""

    def set_serialization_schema(self, serialization_schema: SerializationSchema[Any]) -> Self:
        """Set the schema that converts a record to bytes."""
        if not isinstance(serialization_schema, SerializationSchema):
            raise TypeError(f"a SerializationSchema is needed, not {type(serialization_schema).__name__}")
        self._schema = serialization_schema
        return self

    def set_fail_on_error(self, fail_on_error: bool) -> Self:
        """Set whether a rejected record fails the job at once. By default it is sent again, for up to five minutes."""
        return self._set(fail_on_error=bool(fail_on_error))

    def set_max_batch_size(self, max_batch_size: int) -> Self:
        """Set the maximum number of records in a request; 500 by default, which is the most that AWS accepts."""
        if max_batch_size > _MOST:
            raise ConfigurationError(f"a request has at most {_MOST} records, not {max_batch_size}")
        return self._set(max_batch_size=max_batch_size)

    def set_max_in_flight_requests(self, max_in_flight_requests: int) -> Self:
        """Accepted: a subtask has one request in flight, which keeps the order of records."""
        return self._set(max_in_flight_requests=max_in_flight_requests)

    def set_max_buffered_requests(self, max_buffered_requests: int) -> Self:
        """Set the number of buffered records after which incomplete requests are sent too; 10 000 by default."""
        return self._set(max_buffered_requests=max_buffered_requests)

    def set_max_batch_size_in_bytes(self, max_batch_size_in_bytes: int) -> Self:
        """Set the maximum size of a request."""
        return self._set(max_batch_size_in_bytes=max_batch_size_in_bytes)

    def set_max_time_in_buffer_ms(self, max_time_in_buffer_ms: int) -> Self:
        """Set the maximum time that a record waits, 5000 ms by default; it is checked when other records arrive.

        All records are written at the end of an epoch in any case.
        """
        return self._set(max_time_in_buffer_ms=max_time_in_buffer_ms)

    def set_max_record_size_in_bytes(self, max_record_size_in_bytes: int) -> Self:
        """Set the maximum size of a record, including its key; a larger one fails the job."""
        return self._set(max_record_size_in_bytes=max_record_size_in_bytes)

    def _set(self, **limits: Any) -> Self:
        for name, value in limits.items():
            if not isinstance(value, int) or value < (0 if isinstance(value, bool) else 1):
                raise ConfigurationError(f"{name} must be a positive integer, not {value!r}")
        self._limits = dataclasses.replace(self._limits, **limits)
        return self

    def _complete(self, what: str, naming: str) -> SerializationSchema[Any]:
        if not self._stream:
            raise ConfigurationError(f"{what} needs {naming}")
        if self._schema is None:
            raise ConfigurationError(f"{what} needs set_serialization_schema()")
        if self._limits.max_batch_size_in_bytes < self._limits.max_record_size_in_bytes:
            raise ConfigurationError(
                f"set_max_record_size_in_bytes ({self._limits.max_record_size_in_bytes}) must not exceed "
                f"set_max_batch_size_in_bytes ({self._limits.max_batch_size_in_bytes})"
            )
        return self._schema

    def _clients(self, service: str) -> AwsClients:
        clients = AwsClients(service, self._properties)
        clients.check()
        return clients


class KinesisStreamsSinkBuilder(_SinkBuilder):
    """Builds a :class:`KinesisStreamsSink`; stream name, schema and generator of partition keys are required."""

    def __init__(self) -> None:
        super().__init__(_STREAMS)
        self._keys: PartitionKeyGenerator | None = None

    def set_stream_name(self, stream_name: str) -> KinesisStreamsSinkBuilder:
        """Set the name of the stream."""
        self._stream = stream_name
        return self

    def set_partition_key_generator(self, partition_key_generator: PartitionKeyGenerator) -> KinesisStreamsSinkBuilder:
        """Set how partition keys are created."""
        if not isinstance(partition_key_generator, PartitionKeyGenerator):
            raise TypeError(f"a PartitionKeyGenerator is needed, not {type(partition_key_generator).__name__}")
        self._keys = partition_key_generator
        return self

    def set_kinesis_client_properties(self, kinesis_client_properties: Mapping[str, Any]) -> KinesisStreamsSinkBuilder:
        """Set region, endpoint and credentials, with the names of Flink's properties."""
        self._properties = checked_properties(kinesis_client_properties)
        return self

    def build(self) -> KinesisStreamsSink:
        """Build the sink. Raises :class:`ConfigurationError` if a setting is missing."""
        schema = self._complete("a Kinesis sink", "set_stream_name()")
        if self._keys is None:
            raise ConfigurationError("a Kinesis sink needs set_partition_key_generator()")
        return KinesisStreamsSink(self._clients("kinesis"), self._stream, schema, self._keys, self._limits)


class KinesisFirehoseSinkBuilder(_SinkBuilder):
    """Builds a :class:`KinesisFirehoseSink`; the name of the delivery stream and a schema are required."""

    def __init__(self) -> None:
        super().__init__(_FIREHOSE)

    def set_delivery_stream_name(self, delivery_stream_name: str) -> KinesisFirehoseSinkBuilder:
        """Set the name of the delivery stream."""
        self._stream = delivery_stream_name
        return self

    def set_firehose_client_properties(
        self, firehose_client_properties: Mapping[str, Any]
    ) -> KinesisFirehoseSinkBuilder:
        """Set region, endpoint and credentials, with the names of Flink's properties."""
        self._properties = checked_properties(firehose_client_properties)
        return self

    def build(self) -> KinesisFirehoseSink:
        """Build the sink. Raises :class:`ConfigurationError` if a setting is missing."""
        schema = self._complete("a Firehose sink", "set_delivery_stream_name()")
        return KinesisFirehoseSink(self._clients("firehose"), self._stream, schema, self._limits)
