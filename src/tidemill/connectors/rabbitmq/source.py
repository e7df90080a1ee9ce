"""A source that reads the messages of a queue."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from tidemill.common.serialization import DeserializationSchema
from tidemill.connectors.messages import Messages, checked_schema
from tidemill.connectors.rabbitmq.config import RMQConnectionConfig
from tidemill.connectors.rabbitmq.consumer import QueueConsumer, QueuedMessage
from tidemill.connectors.ranges import cut_range
from tidemill.connectors.sources import Position, RecordBatch, Split, SplitEnumerator, SplitSource
from tidemill.errors import ConfigurationError, ConnectorError

__all__ = ["RMQSource"]

#: How long ids of messages are kept whose acknowledgement was not confirmed, in ms: longer than the broker needs to
#: notice that a consumer has disappeared, which is twice the heartbeat timeout (60 s by default).
_KEPT_MS: Final = 3_600_000


class RMQSource(SplitSource):
    """Reads a queue; messages are acknowledged when their epoch is committed.

    With ``use_correlation_id``, each message has a correlation id that is unique in the queue, and every message counts
    once: ids are part of the position until the broker has confirmed the acknowledgement, so that a message that is
    delivered again is recognized. Without it, messages may be read again after a failure.

    The driver receives the messages, one subtask deserializes them, in the order of the queue; with a higher
    parallelism, set by the program, several do, in no particular order.

    >>> from tidemill.common.serialization import SimpleStringSchema
    >>> config = RMQConnectionConfig.Builder().set_uri("amqp://shop:sesame@localhost").build()
    >>> source = RMQSource(config, "orders", True, SimpleStringSchema())
    >>> source.bounded, source.repeats
    (False, False)
    """

    bounded = False
    parallelism = 1

    def __init__(
        self,
        connection_config: RMQConnectionConfig,
        queue_name: str,
        use_correlation_id: bool,
        deserialization_schema: DeserializationSchema[Any],
    ) -> None:
        if not isinstance(connection_config, RMQConnectionConfig):
            raise ConfigurationError(
                f"an RMQConnectionConfig is needed, not {type(connection_config).__qualname__}: is build() missing?"
            )
        self._config = connection_config
        self._queue = queue_name
        self._schema = checked_schema(deserialization_schema)
        self.by_id = bool(use_correlation_id)
        self.repeats = not self.by_id
        self.type_info = self._schema.get_produced_type()

    def create_enumerator(self, position: Position | None) -> SplitEnumerator:
        """Create an enumerator that consumes the queue. The position determines which messages are skipped."""
        return _QueueEnumerator(QueueConsumer(self._config, self._queue), self._shown, position or {}, by_id=self.by_id)

    def read(self, split: Split) -> Iterator[RecordBatch]:
        """Deserialize the messages of a split."""
        yield split.payload.decode(self._schema)

    @property
    def _shown(self) -> str:
        return f"queue {self._queue!r} of RabbitMQ at {self._config.shown}"

    def __repr__(self) -> str:
        return f"RMQSource({self._shown})"


class _QueueEnumerator(SplitEnumerator):
    def __init__(self, consumer: QueueConsumer, shown: str, position: Mapping[str, Any], *, by_id: bool) -> None:
        # configuration
        self._consumer = consumer
        self._shown = shown
        self._by_id = by_id
        # transient
        self._last: QueuedMessage | None = None
        # checkpointed
        self._read = int(position.get("read", 0))
        #: The ids of messages in the splits so far whose acknowledgement is not confirmed.
        self._ids: dict[str, None] = {}
        #: The same of earlier connections and drivers, with the time at which these ended.
        self._earlier: list[tuple[int, frozenset[str]]] = []
        for since, ids in position.get("earlier", ()):
            self._earlier.append((int(since), frozenset(ids)))
        if ids := position.get("unacknowledged"):
            self._earlier.append((_now(), frozenset(ids)))

    def next_splits(self, parallelism: int, max_records: int) -> Sequence[Split]:
        taken = self._consumer.take(max(1, max_records))
        if not taken:
            return []
        if self._last is not None and taken[0].connection != self._last.connection:
            self._set_aside()
        self._last = taken[-1]
        fresh = self._fresh(taken) if self._by_id else taken
        self._read += len(fresh)
        bodies = [message.body for message in fresh]
        return [
            Split(Messages(bodies[low:high], None, self._shown), high - low)
            for low, high in cut_range(0, len(bodies), parallelism)
        ]

    def position(self) -> Position:
        expired = _now() - _KEPT_MS
        self._earlier = [(since, ids) for since, ids in self._earlier if since > expired]
        return {
            "read": self._read,
            "unacknowledged": list(self._ids),
            "earlier": [[since, sorted(ids)] for since, ids in self._earlier],
        }

    @property
    def finished(self) -> bool:
        return False

    def available(self) -> bool:
        return self._consumer.waiting() > 0

    def pending_records(self) -> int:
        return self._consumer.waiting()

    def committed(self) -> None:
        last = self._last
        if last is None:
            return
        if last.connection == self._consumer.connection and self._consumer.acknowledge(last):
            self._ids.clear()
        else:
            self._set_aside()
        self._last = None

    def close(self) -> None:
        self._consumer.close()

    def _fresh(self, taken: Sequence[QueuedMessage]) -> list[QueuedMessage]:
        """Return the messages that are not in any split so far, and remember them."""
        fresh = []
        for message in taken:
            name = message.correlation_id
            if name is None:
                raise ConnectorError(
                    f"a message of {self._shown} has no correlation id, but the source has use_correlation_id=True: "
                    f"{message.body[:200]!r}. Set unique ids where the messages are published, or pass False"
                )
            if name not in self._ids and not any(name in ids for _, ids in self._earlier):
                self._ids[name] = None
                fresh.append(message)
        return fresh

    def _set_aside(self) -> None:
        """Keep the ids of a lost connection: its messages are delivered again, unless they were acknowledged."""
        if self._ids:
            self._earlier.append((_now(), frozenset(self._ids)))
            self._ids = {}


def _now() -> int:
    return time.time_ns() // 1_000_000
