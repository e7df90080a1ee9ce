"""Reads the partitions of topics in threads of the driver, each with a consumer of the source's subscription.

The position is the id of the last message of a committed epoch, by partition. After a restart each consumer seeks to
it, so messages count once. Messages are acknowledged when their epoch is committed, only so that Pulsar may delete
them.
"""

from __future__ import annotations

import base64
import contextlib
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from tidemill.connectors.fetching import Fetcher
from tidemill.connectors.messages import Messages
from tidemill.connectors.pulsar.client import PulsarClients, pulsar_library
from tidemill.connectors.pulsar.cursors import RangeGenerator, StartCursor, StopCursor
from tidemill.connectors.sources import Position, Split, SplitEnumerator
from tidemill.errors import ConnectorError

__all__ = ["PartitionEnumerator", "PulsarMessage", "ReadOptions"]

log = logging.getLogger(__name__)

#: How long a thread waits for a message before it looks whether it must end, in ms.
_RECEIVE_MS: Final = 200
_JOIN: Final = 30.0


class PulsarMessage(NamedTuple):
    """A message of a partition."""

    data: bytes
    timestamp: int
    message_id: Any


class ReadOptions(NamedTuple):
    """How a source reads."""

    subscription: str
    consumer_name: str | None
    start: StartCursor
    stop: StopCursor
    keys: RangeGenerator
    #: Apply ``start`` even if the subscription exists.
    reset: bool
    #: Seconds between two look-ups of partitions; 0 for never.
    discovery: float


class _PartitionReader(Fetcher[PulsarMessage]):
    """Reads one partition."""

    def __init__(
        self,
        clients: PulsarClients,
        client: Any,
        partition: str,
        options: ReadOptions,
        position: Mapping[str, Any],
        changed: threading.Condition,
    ) -> None:
        super().__init__(f"tidemill-pulsar-{partition}", f"partition {partition} of {clients.shown}", changed)
        # configuration
        self.partition = partition
        self._clients = clients
        self._client = client
        self._pulsar = pulsar_library()
        self._options = options
        # transient
        self._consumer: Any = None
        self._last: Any = None
        # checkpointed
        self.position: dict[str, Any] = dict(position)
        self._subscribe()
        self._resolve_stop()
        stop = options.stop
        if self.position["stop"]:
            stop = StopCursor.after_message_id(base64.b64decode(self.position["stop"]))
        self._decide = stop.decider(self._pulsar)

    def take(self, most: int) -> list[PulsarMessage]:
        taken = super().take(most)
        if taken:
            self._last = taken[-1].message_id
            self.position["after"] = base64.b64encode(self._last.serialize()).decode()
        return taken

    def acknowledge(self) -> None:
        """Acknowledge all messages taken so far. If that fails, they are acknowledged with later ones."""
        last, self._last = self._last, None
        if last is not None:
            try:
                self._consumer.acknowledge_cumulative(last)
            except self._pulsar.exceptions.PulsarException as error:
                log.warning("%s: messages could not be acknowledged yet: %s", self._shown, error)

    def close(self) -> None:
        """Close the consumer, after the thread has ended."""
        with contextlib.suppress(self._pulsar.exceptions.PulsarException):
            self._consumer.close()

    def fetch(self) -> None:
        after = self._after()
        # An empty stop: the partition was empty when the job was first started.
        if self.position.get("ended") or self.position["stop"] == "" or self._is_past(after):
            self.keep([], ended=True)
            return
        while not self.closed:
            try:
                message = self._consumer.receive(timeout_millis=_RECEIVE_MS)
            except self._pulsar.exceptions.Timeout:
                continue
            except self._pulsar.exceptions.PulsarException as error:
                raise ConnectorError(f"{self._shown} cannot be read: {error}") from None
            if after is not None and message.message_id() <= after:
                continue  # a consumer may begin at the message that it seeks to
            inside, last = self._decide(message)
            if inside and self._options.keys.selects(message):
                stamp = message.event_timestamp() or message.publish_timestamp()
                self.keep([PulsarMessage(message.data(), stamp, message.message_id())], ended=last)
            if last or not inside:
                self.keep([], ended=True)
                return
            self.pause(0)

    def _after(self) -> Any:
        text = self.position.get("after")
        return None if text is None else self._pulsar.MessageId.deserialize(base64.b64decode(text))

    def _is_past(self, after: Any) -> bool:
        """Whether the last message that was read is the last one to read."""
        stop = self.position["stop"]
        if stop is None or after is None:
            return False
        return bool(after >= self._pulsar.MessageId.deserialize(base64.b64decode(stop)))

    def _subscribe(self) -> None:
        pulsar, start = self._pulsar, self._options.start
        initial = pulsar.InitialPosition.Latest if start.kind == "latest" else pulsar.InitialPosition.Earliest
        self._consumer = self._clients.call(
            lambda: self._client.subscribe(
                self.partition,
                self._options.subscription,
                consumer_type=pulsar.ConsumerType.Exclusive,
                consumer_name=self._options.consumer_name,
                initial_position=initial,
                start_message_id_inclusive=True,
            ),
            f"subscribing to {self.partition} as {self._options.subscription!r}",
        )
        target = self._after()
        if target is None and not self.position.get("begun"):
            target = self._begin()
        if target is not None:
            self._clients.call(lambda: self._consumer.seek(target), f"seeking in {self.partition}")
        self.position["begun"] = True

    def _begin(self) -> Any:
        """Return where to seek when a partition is read for the first time; None to begin with the subscription."""
        start, ids = self._options.start, self._pulsar.MessageId
        if start.kind == "time":
            return start.time
        if start.kind == "id":
            if not start.inclusive and start.message_id is not None:
                self.position["after"] = base64.b64encode(start.message_id).decode()
            return ids.deserialize(start.message_id)
        if not self._options.reset:
            return None
        return ids.latest if start.kind == "latest" else ids.earliest

    def _resolve_stop(self) -> None:
        """Find the last message now, for a source that stops there; once, as the position then has it."""
        if "stop" in self.position:
            return
        self.position["stop"] = None
        if self._options.stop.kind == "latest":
            last = self._clients.call(self._consumer.get_last_message_id, f"finding the end of {self.partition}")
            # An empty partition has an entry id of -1.
            self.position["stop"] = "" if last.entry_id() < 0 else base64.b64encode(last.serialize()).decode()


class PartitionEnumerator(SplitEnumerator):
    """The partitions of some topics. They are looked up when this is created, and at intervals."""

    def __init__(
        self,
        clients: PulsarClients,
        topics: Callable[[], Sequence[str]],
        options: ReadOptions,
        position: Mapping[str, Mapping[str, Any]] | None,
    ) -> None:
        # configuration
        self._clients = clients
        self._topics = topics
        self._options = options
        self._client = clients.client()
        # transient
        self._changed = threading.Condition()
        self._readers: dict[str, _PartitionReader] = {}
        self._announced: set[str] = set()
        self._looked = time.monotonic()
        # checkpointed
        self._positions: dict[str, dict[str, Any]] = {name: dict(place) for name, place in (position or {}).items()}
        try:
            self._discover()
        except BaseException:
            self.close()
            raise

    def next_splits(self, parallelism: int, max_records: int) -> Sequence[Sequence[Split]]:
        self._look_again()
        dealt: list[list[Split]] = [[] for _ in range(parallelism)]
        with self._changed:
            waiting = sum(1 for reader in self._readers.values() if reader.waiting())
            left = max(1, max_records)
            for number, (name, reader) in enumerate(sorted(self._readers.items())):
                taken = []
                if left > 0 and waiting > 0 and reader.waiting():
                    taken = reader.take(-(-left // waiting))
                    left -= len(taken)
                    waiting -= 1
                ended = reader.position.get("ended", False)
                if taken or (not ended and (reader.exhausted or name not in self._announced)):
                    self._announced.add(name)
                    dealt[number % parallelism].append(self._split(reader, taken))
                if reader.exhausted:
                    reader.position["ended"] = True
        return dealt

    def position(self) -> Position:
        with self._changed:
            return {**self._positions, **{name: dict(reader.position) for name, reader in self._readers.items()}}

    @property
    def finished(self) -> bool:
        with self._changed:
            return bool(self._readers) and all(reader.position.get("ended") for reader in self._readers.values())

    def available(self) -> bool:
        with self._changed:
            return any(
                reader.waiting() or (reader.exhausted and not reader.position.get("ended"))
                for reader in self._readers.values()
            )

    def pending_records(self) -> int:
        with self._changed:
            return sum(reader.waiting() for reader in self._readers.values())

    def committed(self) -> None:
        for reader in self._readers.values():
            reader.acknowledge()

    def close(self) -> None:
        with self._changed:
            for reader in self._readers.values():
                reader.stop()
        for reader in self._readers.values():
            reader.join(_JOIN)
            reader.close()
        with contextlib.suppress(pulsar_library().exceptions.PulsarException):
            self._client.close()

    def _split(self, reader: _PartitionReader, taken: Sequence[PulsarMessage]) -> Split:
        messages = Messages([one.data for one in taken], [one.timestamp for one in taken], f"topic {reader.partition}")
        return Split(messages, len(taken), partition=reader.partition, last=reader.exhausted)

    def _look_again(self) -> None:
        if 0 < self._options.discovery <= time.monotonic() - self._looked:
            self._looked = time.monotonic()
            try:
                self._discover()
            except ConnectorError as error:
                log.warning("partitions are looked up again in %g s: %s", self._options.discovery, error)

    def _discover(self) -> None:
        for topic in self._topics():
            found = self._clients.call(partial(self._client.get_topic_partitions, topic), f"finding {topic}")
            for partition in found:
                if partition not in self._readers:
                    place = self._positions.get(partition, {})
                    reader = _PartitionReader(
                        self._clients, self._client, partition, self._options, place, self._changed
                    )
                    with self._changed:
                        self._readers[partition] = reader
                    reader.start()
        if not self._readers:
            raise ConnectorError(f"{self._clients.shown}: there is no topic to read")
