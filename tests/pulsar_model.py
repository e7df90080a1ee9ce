"""A model of Pulsar's Python client and its broker, in this process.

It has the calls that the connector makes, with the arguments of the real client, and no others.
"""

from __future__ import annotations

import datetime as dt
import enum
import functools
import threading
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any


class PulsarError(Exception):
    """The client's base class."""


class NothingCameError(PulsarError):
    pass


class ConsumerBusyError(PulsarError):
    pass


class TopicNotFoundError(PulsarError):
    pass


class Result(enum.Enum):
    Ok = 0
    Timeout = 1


class InitialPosition(enum.Enum):
    Latest = 0
    Earliest = 1


class ConsumerType(enum.Enum):
    Exclusive = 0


@functools.total_ordering
class MessageId:
    """A message's place: here the number of its entry, -1 for none."""

    def __init__(self, entry: int) -> None:
        self._entry = entry

    def entry_id(self) -> int:
        return self._entry

    def serialize(self) -> bytes:
        return b"id:%d" % self._entry

    @staticmethod
    def deserialize(data: bytes) -> MessageId:
        return MessageId(int(data.removeprefix(b"id:")))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MessageId) and self._entry == other._entry

    def __lt__(self, other: MessageId) -> bool:
        return self._entry < other._entry

    def __hash__(self) -> int:
        return hash(self._entry)


class Message:
    def __init__(
        self, entry: int, data: bytes, event: int, publish: int, key: str = "", ordering_key: bytes = b""
    ) -> None:
        self._id, self._data, self._event, self._publish = MessageId(entry), data, event, publish
        self._key, self._ordering_key = key, ordering_key
        self.delay: dt.timedelta | None = None

    def message_id(self) -> MessageId:
        return self._id

    def data(self) -> bytes:
        return self._data

    def event_timestamp(self) -> int:
        return self._event

    def publish_timestamp(self) -> int:
        return self._publish

    def partition_key(self) -> str:
        return self._key

    def ordering_key(self) -> str:
        return self._ordering_key.decode()  # as the binding of the C++ client: not all bytes are a text


class Broker:
    """All topics, and for each partition and subscription the entry after the last acknowledged one."""

    def __init__(self) -> None:
        self.partitions: dict[str, list[str]] = {}
        self.messages: dict[str, list[Message]] = {}
        self.cursors: dict[tuple[str, str], int] = {}
        self.busy: set[tuple[str, str]] = set()
        self.changed = threading.Condition()
        self.results: list[Result] = []
        self.producers: list[str | None] = []

    def create(self, topic: str, partitions: int = 0) -> list[str]:
        names = [f"{topic}-partition-{n}" for n in range(partitions)] if partitions else [topic]
        self.partitions[topic] = names
        for name in names:
            self.messages.setdefault(name, [])
        return names

    def publish(
        self, partition: str, *bodies: str, event: int = 0, publish: int = 0, key: str = "", ordering_key: bytes = b""
    ) -> None:
        with self.changed:
            for body in bodies:
                at = self.messages[partition]
                stamp = publish or int(time.time() * 1000)
                at.append(Message(len(at), body.encode(), event, stamp, key, ordering_key))
            self.changed.notify_all()

    def module(self) -> Any:
        """What ``import pulsar`` gives."""
        return SimpleNamespace(
            Client=lambda url, **settings: Client(self),
            MessageId=SimpleNamespace(
                deserialize=MessageId.deserialize, earliest=MessageId(-1), latest=MessageId(1 << 62)
            ),
            InitialPosition=InitialPosition,
            ConsumerType=ConsumerType,
            AuthenticationToken=lambda token: token,
            exceptions=SimpleNamespace(PulsarException=PulsarError, Timeout=NothingCameError),
        )


class Client:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def get_topic_partitions(self, topic: str) -> list[str]:
        if topic not in self._broker.partitions:
            raise TopicNotFoundError(f"Pulsar error: TopicNotFound {topic}")
        return self._broker.partitions[topic]

    def subscribe(
        self,
        topic: str,
        subscription_name: str,
        *,
        consumer_type: ConsumerType,
        consumer_name: str | None,
        initial_position: InitialPosition,
        start_message_id_inclusive: bool,
    ) -> Consumer:
        key = (topic, subscription_name)
        if key in self._broker.busy:
            raise ConsumerBusyError("Pulsar error: ConsumerBusy")
        self._broker.busy.add(key)
        ends = {InitialPosition.Latest: len(self._broker.messages[topic]), InitialPosition.Earliest: 0}
        self._broker.cursors.setdefault(key, ends[initial_position])
        return Consumer(self._broker, key, inclusive=start_message_id_inclusive)

    def create_producer(
        self,
        topic: str,
        *,
        producer_name: str | None,
        block_if_queue_full: bool,
        batching_enabled: bool,
        send_timeout_millis: int,
    ) -> Producer:
        self._broker.producers.append(producer_name)
        return Producer(self._broker, self.get_topic_partitions(topic)[0])

    def close(self) -> None:
        pass


class Consumer:
    def __init__(self, broker: Broker, key: tuple[str, str], *, inclusive: bool) -> None:
        self._broker, self._key, self._inclusive = broker, key, inclusive
        self._next = broker.cursors[key]

    def receive(self, timeout_millis: int) -> Message:
        messages = self._broker.messages[self._key[0]]
        with self._broker.changed:
            if not self._broker.changed.wait_for(lambda: self._next < len(messages), timeout_millis / 1000):
                raise NothingCameError("Pulsar error: TimeOut")
            self._next += 1
            return messages[self._next - 1]

    def seek(self, target: MessageId | int) -> None:
        messages = self._broker.messages[self._key[0]]
        if isinstance(target, int):
            after = [n for n, message in enumerate(messages) if message.publish_timestamp() >= target]
            self._next = after[0] if after else len(messages)
        else:
            self._next = min(len(messages), max(0, target.entry_id() + (0 if self._inclusive else 1)))
        self._broker.cursors[self._key] = self._next

    def acknowledge_cumulative(self, message: MessageId) -> None:
        self._broker.cursors[self._key] = max(self._broker.cursors[self._key], message.entry_id() + 1)

    def get_last_message_id(self) -> MessageId:
        return MessageId(len(self._broker.messages[self._key[0]]) - 1)

    def close(self) -> None:
        self._broker.busy.discard(self._key)


class Producer:
    def __init__(self, broker: Broker, partition: str) -> None:
        self._broker, self._partition = broker, partition
        self._waiting: list[Callable[[], None]] = []

    def send_async(
        self,
        content: bytes,
        callback: Callable[[Any, Any], None],
        *,
        event_timestamp: int = 0,
        deliver_after: dt.timedelta | None = None,
    ) -> None:
        def send() -> None:
            result = self._broker.results.pop(0) if self._broker.results else Result.Ok
            if result is Result.Ok:
                self._broker.publish(self._partition, content.decode(), event=event_timestamp)
                self._broker.messages[self._partition][-1].delay = deliver_after
            callback(result, None)

        self._waiting.append(send)

    def flush(self) -> None:
        while self._waiting:
            self._waiting.pop(0)()
