"""A sink that publishes records to a queue."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from typing import Any, Final

from tidemill.common.calls import call_each
from tidemill.common.serialization import SerializationSchema
from tidemill.connectors.rabbitmq.config import RMQConnectionConfig, declare, pika_library, reason
from tidemill.connectors.sinks import Sink, SinkWriter, WriterContext
from tidemill.datastream.functions.base import RuntimeContext
from tidemill.errors import ConfigurationError, ConnectorError

__all__ = ["RMQSink"]

#: The number of messages, and of bytes, after which a transaction is committed: the broker keeps it in memory.
_MESSAGES: Final = 5000
_BYTES: Final = 8 << 20
#: How often messages are published again after the connection was lost.
_RETRIES: Final = 3
_PERSISTENT: Final = 2


class RMQSink(Sink):
    """Publishes each record to a queue, at least once.

    Messages are persistent, and are published in transactions: the epoch is committed only after the broker has
    confirmed all of its messages. A message that no queue takes fails the job. When an epoch is repeated, its messages
    are published again. Each message has a unique correlation id.

    >>> from tidemill.common.serialization import SimpleStringSchema
    >>> config = RMQConnectionConfig.Builder().set_host("localhost").build()
    >>> RMQSink(config, "results", SimpleStringSchema())
    RMQSink(queue 'results' of RabbitMQ at amqp://localhost:5672/)
    """

    guarantee = "at-least-once"

    def __init__(
        self, connection_config: RMQConnectionConfig, queue_name: str, serialization_schema: SerializationSchema[Any]
    ) -> None:
        if not isinstance(connection_config, RMQConnectionConfig):
            raise ConfigurationError(
                f"an RMQConnectionConfig is needed, not {type(connection_config).__qualname__}: is build() missing?"
            )
        if not isinstance(serialization_schema, SerializationSchema):
            raise TypeError(f"a SerializationSchema is needed, not {type(serialization_schema).__name__}")
        self._config = connection_config
        self._queue = queue_name
        self._schema = serialization_schema

    def create_writer(self, subtask: int, parallelism: int) -> SinkWriter:
        """Create a writer with its own connection."""
        return _PublishingWriter(self._config, self._queue, self._schema)

    def __repr__(self) -> str:
        return f"RMQSink(queue {self._queue!r} of RabbitMQ at {self._config.shown})"


class _PublishingWriter(SinkWriter):
    def __init__(self, config: RMQConnectionConfig, queue: str, schema: SerializationSchema[Any]) -> None:
        # configuration
        self._config = config
        self._queue = queue
        self._schema = schema
        self._pika: Any = None
        # transient
        self._connection: Any = None
        self._channel: Any = None
        self._prefix = ""
        self._number = 0
        self._bodies: list[bytes] = []
        self._bytes = 0
        self._returned: list[str] = []

    def open(self, runtime_context: RuntimeContext) -> None:
        self._pika = pika_library()
        self._connect()

    def begin_epoch(self, context: WriterContext) -> None:
        self._bodies, self._bytes, self._number = [], 0, 0
        self._prefix = f"{context.job_id}/{context.operator_uid}/{context.lineage}/{context.attempt}/{context.subtask}"

    def write(self, values: list[Any], timestamps: list[int] | None) -> None:
        bodies = call_each(self._schema.serialize, values, lambda error, position: error)
        self._bodies += bodies
        self._bytes += sum(map(len, bodies))
        if len(self._bodies) >= _MESSAGES or self._bytes >= _BYTES:
            self._flush()

    def prepare_commit(self) -> Sequence[bytes]:
        self._flush()
        return ()

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(Exception):  # it may be closed already
                connection.close()

    def _flush(self) -> None:
        """Publish what is buffered. A connection that was lost, also while no records came, is opened again."""
        retries = 0
        while self._bodies:
            try:
                if self._connection is None:
                    self._connect()
                self._publish()
            except (self._pika.exceptions.AMQPError, OSError) as error:
                self.close()
                if not self._config.recovers or retries == _RETRIES:
                    raise ConnectorError(f"{self._shown} did not confirm messages: {reason(error)}") from None
            except _UnroutableError:
                raise
            except ConnectorError:
                self.close()
                if not self._config.recovers or retries == _RETRIES:
                    raise
            else:
                return
            if retries:
                time.sleep(self._config.recovery_seconds)
            retries += 1

    def _publish(self) -> None:
        self._returned.clear()
        publish, properties = self._channel.basic_publish, self._pika.BasicProperties
        for number, body in enumerate(self._bodies, self._number):
            named = properties(delivery_mode=_PERSISTENT, correlation_id=f"{self._prefix}/{number}")
            publish("", self._queue, body, named, mandatory=True)
        self._channel.tx_commit()
        self._connection.process_data_events(time_limit=0)  # calls the callback for messages that came back
        if self._returned:
            raise _UnroutableError(
                f"{self._shown} did not take {len(self._returned):,} messages: {self._returned[0]}. Was it deleted?"
            )
        self._number += len(self._bodies)
        self._bodies, self._bytes = [], 0

    def _connect(self) -> None:
        self._connection = self._config.connect()
        try:
            self._channel = declare(self._connection, self._queue)
            self._channel.add_on_return_callback(
                lambda channel, method, properties, body: self._returned.append(method.reply_text)
            )
            self._channel.tx_select()
        except (self._pika.exceptions.AMQPError, OSError) as error:
            self.close()
            raise ConnectorError(f"{self._shown} cannot be written to: {reason(error)}") from None

    @property
    def _shown(self) -> str:
        return f"queue {self._queue!r} of RabbitMQ at {self._config.shown}"


class _UnroutableError(ConnectorError):
    """The broker is reachable, but no queue takes the messages."""
