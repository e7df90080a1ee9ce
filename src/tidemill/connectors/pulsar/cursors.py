"""Where the reading of a topic starts and stops, with PyFlink's class names."""

from __future__ import annotations

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


class RangeGenerator:
    """Which keys a source reads. Only all of them are supported."""

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
        """Rejected: read the topic, and filter the stream."""
        raise ConfigurationError("RangeGenerator.fixed_key() is not supported: read all keys, and filter the stream")
