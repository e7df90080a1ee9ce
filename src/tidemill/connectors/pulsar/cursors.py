"""Where the reading of a topic starts and stops, with PyFlink's class names."""

from __future__ import annotations

import base64
import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tidemill.errors import ConfigurationError

__all__ = ["RangeGenerator", "StartCursor", "StopCursor", "SubscriptionType"]


class SubscriptionType(enum.Enum):
    """Kinds of subscriptions. The source is always the only consumer of its subscription, as in Flink."""

    Exclusive = 0
    Shared = 1
    Failover = 2
    Key_Shared = 3


@dataclass(frozen=True)
class StartCursor:
    """Where a subscription begins when the job starts without state.

    A subscription that exists already is continued where it ended, if the cursor is :meth:`earliest` or :meth:`latest`
    and ``pulsar.source.resetSubscriptionCursor`` is not set.
    """

    kind: str
    message_id: bytes | None = None
    inclusive: bool = True
    time: int | None = None

    @staticmethod
    def default_start_cursor() -> StartCursor:
        """The first available message."""
        return StartCursor.earliest()

    @staticmethod
    def earliest() -> StartCursor:
        """The first available message."""
        return StartCursor("earliest")

    @staticmethod
    def latest() -> StartCursor:
        """After the last message."""
        return StartCursor("latest")

    @staticmethod
    def from_message_id(message_id: bytes, inclusive: bool = True) -> StartCursor:
        """A message, or the one after it; its id as serialized by Pulsar's client library."""
        return StartCursor("id", bytes(message_id), inclusive)

    @staticmethod
    def from_publish_time(timestamp: int) -> StartCursor:
        """The first message that was published at this time (ms since 1970) or later."""
        return StartCursor("time", time=timestamp)

    @staticmethod
    def from_message_time(timestamp: int) -> StartCursor:
        """Older name of :meth:`from_publish_time`."""
        return StartCursor.from_publish_time(timestamp)


#: What a stop cursor compares of a message.
_PROPERTIES: Final[dict[str, Callable[[Any], Any]]] = {
    "event time": lambda message: message.event_timestamp(),
    "publish time": lambda message: message.publish_timestamp(),
    "message id": lambda message: message.message_id(),
}


@dataclass(frozen=True)
class StopCursor:
    """Where the reading of each partition stops."""

    kind: str
    limit: Any = None
    inclusive: bool = False

    @staticmethod
    def default_stop_cursor() -> StopCursor:
        """Nowhere."""
        return StopCursor.never()

    @staticmethod
    def never() -> StopCursor:
        """Nowhere."""
        return StopCursor("never")

    @staticmethod
    def latest() -> StopCursor:
        """After the last message at the time at which the job starts."""
        return StopCursor("latest", inclusive=True)

    @staticmethod
    def at_event_time(timestamp: int) -> StopCursor:
        """Before the first message whose event time is this (ms since 1970) or later."""
        return StopCursor("event time", timestamp)

    @staticmethod
    def after_event_time(timestamp: int) -> StopCursor:
        """Before the first message whose event time is later than this (ms since 1970)."""
        return StopCursor("event time", timestamp, inclusive=True)

    @staticmethod
    def at_publish_time(timestamp: int) -> StopCursor:
        """Before the first message that was published at this time (ms since 1970) or later."""
        return StopCursor("publish time", timestamp)

    @staticmethod
    def after_publish_time(timestamp: int) -> StopCursor:
        """Before the first message that was published later than this (ms since 1970)."""
        return StopCursor("publish time", timestamp, inclusive=True)

    @staticmethod
    def at_message_id(message_id: bytes) -> StopCursor:
        """Before a message; its id as serialized by Pulsar's client library."""
        return StopCursor("message id", bytes(message_id))

    @staticmethod
    def after_message_id(message_id: bytes) -> StopCursor:
        """After a message; its id as serialized by Pulsar's client library."""
        return StopCursor("message id", bytes(message_id), inclusive=True)

    def decider(self, pulsar: Any) -> Callable[[Any], tuple[bool, bool]]:
        """Return a function of a message: whether it belongs to the input, and whether it is known to be the last."""
        if self.kind not in _PROPERTIES:
            return lambda message: (True, False)
        read = _PROPERTIES[self.kind]
        limit = pulsar.MessageId.deserialize(self.limit) if self.kind == "message id" else self.limit
        by_id = self.kind == "message id"

        def decide(message: Any) -> tuple[bool, bool]:
            value = read(message)
            if value < limit:
                return True, False
            inside = self.inclusive and value == limit
            return inside, inside and by_id

        return decide


@dataclass(frozen=True)
class RangeGenerator:
    """Which messages a source reads, by their keys.

    >>> RangeGenerator.fixed_key(keys=["a", "b"]).keys == frozenset({"a", "b"})
    True
    """

    #: Keys as Pulsar's client library returns them: those set as bytes are base64. None for all messages.
    keys: frozenset[str] | None = None
    ordering_keys: frozenset[str] = frozenset()
    without_key: bool = True

    @staticmethod
    def full() -> RangeGenerator:
        """All keys."""
        return RangeGenerator()

    @staticmethod
    def fixed_key(
        support_null_key: bool = False,
        keys: str | Sequence[str] | None = None,
        key_bytes: bytes | None = None,
        ordering_key_bytes: bytes | None = None,
    ) -> RangeGenerator:
        """Only messages with one of these keys and, with ``support_null_key``, those without a key.

        The ordering key of a message takes precedence over its key. Unlike Flink, which selects by the hashes of the
        keys, this never lets messages with other keys pass.
        """
        selected = {keys} if isinstance(keys, str) else set(keys or ())
        if key_bytes is not None:
            selected.add(base64.b64encode(key_bytes).decode())
        try:
            ordering = set() if ordering_key_bytes is None else {ordering_key_bytes.decode()}
        except UnicodeDecodeError:
            raise ConfigurationError(
                f"RangeGenerator.fixed_key(): the ordering key {ordering_key_bytes!r} is not UTF-8, "
                "which is all that Pulsar's Python client can read"
            ) from None
        return RangeGenerator(frozenset(selected), frozenset(ordering), support_null_key)

    def selects(self, message: Any) -> bool:
        """Whether a message is read."""
        if self.keys is None:
            return True
        try:
            ordering = message.ordering_key()
        except UnicodeDecodeError:
            return False
        if ordering:
            return ordering in self.ordering_keys
        key = message.partition_key()
        return key in self.keys if key else self.without_key
