"""Receives the messages of a queue in a thread, and acknowledges them on request.

All calls of the client library are made in the thread, which also answers the broker's heartbeats. Messages are
acknowledged in a transaction, so that a successful call means that the broker will not deliver them again.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from typing import Any, Final, NamedTuple

from tidemill.connectors.rabbitmq.config import RMQConnectionConfig, declare, pika_library, reason
from tidemill.errors import ConnectorError

__all__ = ["QueueConsumer", "QueuedMessage"]

#: Messages in memory: those of the running epoch and those that wait for the next one. The broker counts them in 16
#: bits; at 1 KB each these are about 10 MB.
_PREFETCH: Final = 10_000
#: How long the thread waits for events of the connection, in seconds; a request wakes it up.
_EVENTS: Final = 1.0
#: How long a lost connection may take to be restored, and an acknowledgement to be confirmed, in seconds.
_PATIENCE: Final = 60.0


class QueuedMessage(NamedTuple):
    """A message with its delivery tag, which is valid in the connection with number ``connection``."""

    connection: int
    tag: int
    correlation_id: str | None
    body: bytes


class _Acknowledgement:
    """A request to acknowledge all messages up to one."""

    def __init__(self, connection: int, tag: int) -> None:
        self.connection = connection
        self.tag = tag
        self.done = threading.Event()
        self.confirmed = False


class QueueConsumer:
    """One consumer of a queue. Connects when it is created; raises :class:`ConnectorError` if that is not possible."""

    def __init__(self, config: RMQConnectionConfig, queue: str) -> None:
        # configuration
        self._config = config
        self._queue = queue
        self._pika = pika_library()
        # transient
        self._changed = threading.Condition()
        self._messages: deque[QueuedMessage] = deque()
        self._number = 0
        self._requests: deque[_Acknowledgement] = deque()
        self._closed = False
        self._error: ConnectorError | None = None
        self._connection: Any = None
        self._channel: Any = None
        self._connect()
        self._thread = threading.Thread(target=self._main, name=f"tidemill-rabbitmq-{queue}", daemon=True)
        self._thread.start()

    @property
    def connection(self) -> int:
        """The number of the current connection. Unacknowledged messages of earlier ones are delivered again."""
        with self._changed:
            return self._number

    def waiting(self) -> int:
        """Return the number of messages that can be taken. Raises the error that has ended the consumer."""
        with self._changed:
            if self._error is not None and not self._messages:
                raise self._error
            return len(self._messages)

    def take(self, most: int) -> list[QueuedMessage]:
        """Remove and return up to ``most`` messages, in the order of the queue."""
        with self._changed:
            if self._error is not None:
                raise self._error
            return [self._messages.popleft() for _ in range(min(most, len(self._messages)))]

    def acknowledge(self, last: QueuedMessage) -> bool:
        """Acknowledge all messages up to one; whether the broker has confirmed it.

        If not, the connection was lost, and the broker may deliver them again.
        """
        request = _Acknowledgement(last.connection, last.tag)
        with self._changed:
            if self._closed or self._error is not None:
                return False
            self._requests.append(request)
            self._wake()
        request.done.wait(_PATIENCE)
        return request.confirmed

    def close(self) -> None:
        """Close the connection. The broker delivers unacknowledged messages to the next consumer."""
        with self._changed:
            self._closed = True
            self._wake()
            self._changed.notify_all()
        self._thread.join(_PATIENCE)

    # --------------------------------------------------------------------------------------- in the thread

    def _main(self) -> None:
        try:
            while not self._closed:
                try:
                    self._serve()
                except (self._pika.exceptions.AMQPError, OSError) as error:
                    self._restore(error)
        except ConnectorError as error:
            with self._changed:
                self._error = error
        except Exception as error:
            with self._changed:
                self._error = ConnectorError(f"{self._shown}: {reason(error)}")
        finally:
            self._disconnect()

    def _serve(self) -> None:
        """Process the events of one connection until it is lost, or the consumer is closed."""
        while not self._closed:
            self._connection.process_data_events(time_limit=_EVENTS)
            if not self._channel.is_open:
                raise ConnectorError(f"{self._shown}: the broker has closed the channel, or cancelled the consumer")
            while self._requests:
                self._carry_out(self._requests[0])
                self._requests.popleft()

    def _carry_out(self, request: _Acknowledgement) -> None:
        if request.connection == self._number:
            self._channel.basic_ack(request.tag, multiple=True)
            self._channel.tx_commit()
            request.confirmed = True
        request.done.set()

    def _connect(self) -> None:
        self._connection = self._config.connect()
        try:
            self._channel = declare(self._connection, self._queue)
            self._channel.tx_select()
            self._channel.basic_qos(prefetch_count=self._config.prefetch_count or _PREFETCH)
            self._channel.add_on_cancel_callback(self._cancelled)
            with self._changed:
                self._number += 1
            self._channel.basic_consume(self._queue, self._received)
        except (self._pika.exceptions.AMQPError, OSError) as error:
            self._disconnect()
            raise ConnectorError(f"{self._shown} cannot be read: {reason(error)}") from None

    def _received(self, channel: Any, method: Any, properties: Any, body: bytes) -> None:
        with self._changed:
            self._messages.append(QueuedMessage(self._number, method.delivery_tag, properties.correlation_id, body))

    def _cancelled(self, frame: Any) -> None:
        raise ConnectorError(f"{self._shown}: the broker has cancelled the consumer; was the queue deleted?")

    def _restore(self, error: BaseException) -> None:
        """Connect again; messages that wait will be delivered again."""
        self._disconnect()
        with self._changed:
            self._messages.clear()
        while self._requests:
            self._requests.popleft().done.set()
        if not self._config.recovers:
            raise ConnectorError(f"{self._shown}: the connection was lost: {reason(error)}")
        deadline = time.monotonic() + _PATIENCE
        while True:
            with self._changed:
                if self._changed.wait_for(lambda: self._closed, self._config.recovery_seconds):
                    return
            try:
                self._connect()
            except ConnectorError:
                if time.monotonic() > deadline:
                    raise
            else:
                return

    def _disconnect(self) -> None:
        with contextlib.suppress(self._pika.exceptions.AMQPError, OSError):
            if self._connection is not None and self._connection.is_open:
                self._connection.close()

    def _wake(self) -> None:
        with contextlib.suppress(self._pika.exceptions.AMQPError, OSError):
            self._connection.add_callback_threadsafe(lambda: None)

    @property
    def _shown(self) -> str:
        return f"queue {self._queue!r} of RabbitMQ at {self._config.shown}"
