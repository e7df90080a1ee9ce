"""Creates clients of librdkafka, for the sink and for sources that are read without Spark.

This includes their settings, a check that brokers and topics are reachable, and errors.

The client library is ``confluent-kafka`` (``pip install 'tidemill[kafka]'``). It is imported only when it is used.
"""

from __future__ import annotations

import difflib
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from tidemill.connectors.kafka.properties import hide_secrets, masked
from tidemill.connectors.kafka.security import NOT_TAKEN, SET_PROTOCOL, UNTRUSTED, for_library, way_in
from tidemill.errors import ConfigurationError, ConnectorError

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Producer

log = logging.getLogger(__name__)

#: How long a broker may take to respond, unless the program sets it; the setting's name in the Java client.
MAX_BLOCK: Final = "max.block.ms"
_MAX_BLOCK_MS: Final = "30000"
TRANSACTION_TIMEOUT: Final = "transaction.timeout.ms"
#: A transaction takes as long as sending the results of an epoch, not as long as an epoch.
_TRANSACTION_TIMEOUT_MS: Final = "300000"
#: How long to wait for another broker when one of several denies access, or its host is unknown.
_OTHERS_SECONDS: Final = 5.0
#: How long to wait for a topic: one that was just created is not known to every broker yet.
_NEW_TOPIC_SECONDS: Final = 2.0

#: Settings whose names differ between the Java client and the library.
_RENAMED: Final = {"max.request.size": "message.max.bytes"}
#: Settings of the Java client that are not passed to the library: records are already serialized.
_WITHOUT_MEANING: Final = frozenset({MAX_BLOCK, "key.serializer", "value.serializer"})
#: Prefixes of the producer settings that define the connection to a broker: other clients need them too.
_CONNECTION: Final = (
    *("bootstrap.", "broker.", "client.", "reconnect.", "socket."),
    *("security.", "sasl.", "ssl.", "enable.sasl.", "enable.ssl.", "https."),
)

#: Texts in the library's errors when the broker or the client rejects a TLS connection.
_ALERT: Final = "SSL alert number"
_UNVERIFIED: Final = "certificate verify failed"

_PRODUCER: Final = {
    "enable.idempotence": "true",  # repeated requests cause neither duplicates nor changes of order
    "partitioner": "murmur2_random",  # the same partition for a key as Java producers, and so Flink, choose
    "linger.ms": "20",  # an epoch waits for all of its records anyway: fewer, larger requests
    "compression.type": "lz4",
    "delivery.timeout.ms": "120000",  # the default of the Java client
    "queue.buffering.max.messages": "1000000",
    "queue.buffering.max.kbytes": "65536",
}


@dataclass(frozen=True)
class KafkaClients:
    """Creates clients of a cluster; ``properties`` have the names of the Java client or of the library."""

    servers: str
    properties: Mapping[str, str] = field(repr=False)

    def __repr__(self) -> str:
        return f"{self.servers}, {masked(self.properties)}"

    @property
    def patience(self) -> float:
        """The number of seconds that a broker may take to respond."""
        return _milliseconds(MAX_BLOCK, self.properties.get(MAX_BLOCK, _MAX_BLOCK_MS)) / 1000

    @property
    def transaction_timeout(self) -> int:
        """The number of ms after which the broker aborts a transaction."""
        given = self.properties.get(TRANSACTION_TIMEOUT, _TRANSACTION_TIMEOUT_MS)
        return _milliseconds(TRANSACTION_TIMEOUT, given)

    def producer(self, **callbacks: Callable[..., None]) -> Producer:
        """Create a producer without transactions."""
        from confluent_kafka import Producer

        given = self._translated()
        given.pop(TRANSACTION_TIMEOUT, None)
        producer: Producer = self._created(Producer, _merged(given), **callbacks)
        return producer

    def transactional_producer(self, transactional_id: str, **callbacks: Callable[..., None]) -> Producer:
        """Create a transactional producer; its transactions are not initialized yet."""
        from confluent_kafka import Producer

        settings = _merged(self._translated()) | {
            "transactional.id": transactional_id,
            TRANSACTION_TIMEOUT: str(self.transaction_timeout),
        }
        # The first request of a transaction is retried until the broker has completed the previous transaction.
        settings.setdefault("retry.backoff.ms", "20")
        if not _has(self.properties, "delivery.timeout.ms", "message.timeout.ms"):
            del settings["delivery.timeout.ms"]  # the library limits it to the transaction timeout
        producer: Producer = self._created(Producer, settings, **callbacks)
        return producer

    def group(self, group_id: str) -> Any:
        """Create a consumer to read the committed offsets of a group; it waits for transactions that write them."""
        from confluent_kafka import Consumer

        reading = {"group.id": group_id, "isolation.level": "read_committed", "enable.auto.commit": "false"}
        return self._created(Consumer, self._connection() | reading)

    def consumer(self, kind: Callable[..., Any], settings: Mapping[str, str], **callbacks: Callable[..., None]) -> Any:
        """Create a consumer with these settings, in addition to those of the connection."""
        return self._created(kind, {**self._connection(), **settings}, **callbacks)

    def admin(self) -> Any:
        """Create a client that sends requests to the cluster."""
        from confluent_kafka.admin import AdminClient

        return self._created(AdminClient, self._connection())

    def check(self) -> None:
        """Raise :class:`ConfigurationError` if the library is missing, or rejects the properties."""
        try:
            import confluent_kafka  # noqa: F401
        except ImportError as error:
            raise ConfigurationError(
                "writing to Kafka needs the package confluent-kafka: pip install 'tidemill[kafka]'"
            ) from error
        if not self.servers:
            raise ConfigurationError("a Kafka sink needs servers: set_bootstrap_servers('host:port')")
        _ = self.patience
        nowhere = KafkaClients("", {**self.properties, "log_level": "0"})  # without servers it does not connect
        nowhere.producer()
        nowhere.transactional_producer("check")

    def hide(self, text: object) -> str:
        """Return a text with the secrets among the properties masked."""
        return hide_secrets(str(text), self.properties)

    def refused(self, what: str, error: object) -> ConnectorError:
        """Create an error that contains what failed, the cluster, and the library's error."""
        secured = way_in(self.properties)
        where = f"{self.servers}, {secured}" if secured else self.servers
        return ConnectorError(self.hide(f"{what} (Kafka at {where}): {_told(error)}"))

    def _created(self, kind: Callable[..., Any], settings: Mapping[str, str], **callbacks: Any) -> Any:
        from confluent_kafka import KafkaException, Producer

        # A report per record would cost more than the record.
        extra = {"delivery.report.only.error": True} if kind is Producer else {}
        try:
            return kind({**settings, **callbacks, **extra}, logger=log)
        except (KafkaException, ValueError) as error:
            raise ConfigurationError(self.hide(f"the Kafka client rejected a setting: {_told(error)}")) from None

    def _connection(self) -> dict[str, str]:
        return {key: value for key, value in self._translated().items() if key.startswith((*_CONNECTION, "log_level"))}

    def _translated(self) -> dict[str, str]:
        settings: dict[str, str] = {"bootstrap.servers": self.servers} if self.servers else {}
        for key, value in for_library(self.properties).items():
            if key == "buffer.memory":
                settings["queue.buffering.max.kbytes"] = str(max(1, int(value) // 1024))
            elif key not in _WITHOUT_MEANING:
                settings[_RENAMED.get(key, key)] = value
        return settings


class Complaints:
    """Collects the errors that a client reports to its ``error_cb``: the last one, and any that is not transient."""

    def __init__(self) -> None:
        self.last: KafkaError | None = None
        self.lasting: KafkaError | None = None

    def __call__(self, error: KafkaError) -> None:
        if error.code() != error._ALL_BROKERS_DOWN or self.last is None:
            self.last = error  # keep the cause, not the error that follows from it
        refusing = (error._AUTHENTICATION, error._SSL, error._RESOLVE, error.SASL_AUTHENTICATION_FAILED)
        if error.code() in refusing or _ALERT in error.str():
            self.lasting = error


def check_reachable(clients: KafkaClients, client: Any, complaints: Complaints, topics: Iterable[str] = ()) -> None:
    """Raise :class:`ConnectorError` if no broker responds in time, or a topic does not exist.

    Bad credentials and unknown hosts are reported immediately or, with several brokers, after the others had time to
    respond. Any other error may be caused by a broker that is being restarted.
    """
    from confluent_kafka import KafkaException

    started = time.monotonic()
    while True:
        spent = time.monotonic() - started
        try:
            client.poll(0)
            metadata = client.list_topics(timeout=max(0.1, min(1.0, clients.patience - spent)))
        except KafkaException as error:
            client.poll(0)  # calls error_cb for errors that the client has reported
            spent = time.monotonic() - started
            others = min(clients.patience, _OTHERS_SECONDS) if "," in clients.servers else 0.0
            if complaints.lasting is not None and spent >= others:
                raise clients.refused(_outside(complaints.lasting), complaints.lasting) from None
            if spent >= clients.patience:
                reason = complaints.last or error.args[0]
                # A broker that closes the connection without an error may expect TLS or a login.
                silent = reason.code() == reason._ALL_BROKERS_DOWN and not way_in(clients.properties)
                advice = f"; {SET_PROTOCOL}" if silent else ""
                raise clients.refused(f"no broker responded within {clients.patience:g} s{advice}", reason) from None
            continue
        missing = [topic for topic in topics if topic not in metadata.topics]
        if not missing:
            return
        if time.monotonic() - started >= min(clients.patience, _NEW_TOPIC_SECONDS):
            near = difflib.get_close_matches(missing[0], list(metadata.topics), n=3)
            hint = f"; similar topics: {', '.join(map(repr, near))}" if near else ""
            raise clients.refused(f"topic {missing[0]!r} cannot be written to", f"it does not exist{hint}")
        time.sleep(0.1)


def _outside(error: KafkaError) -> str:
    """Return the reason why a connection is rejected, for messages."""
    if _UNVERIFIED in error.str():
        return UNTRUSTED
    if _ALERT in error.str():
        return NOT_TAKEN
    return "the broker denied access"


def _merged(given: Mapping[str, str]) -> dict[str, str]:
    """Merge the given settings over the defaults of a producer; some settings have two names."""
    ours = dict(_PRODUCER)
    if _has(given, "message.timeout.ms"):
        del ours["delivery.timeout.ms"]
    if _has(given, "queue.buffering.max.ms"):
        del ours["linger.ms"]
    if _has(given, "compression.codec"):
        del ours["compression.type"]
    return ours | dict(given)


def _has(settings: Mapping[str, str], *names: str) -> bool:
    return any(name in settings for name in names)


def _milliseconds(key: str, value: str) -> int:
    try:
        number = int(value)
    except ValueError:
        number = 0
    if number < 1:
        raise ConfigurationError(f"{key} must be a number of milliseconds, not {value!r}")
    return number


def _told(error: object) -> str:
    """Return the text of the library's error: its exceptions contain an object with a text and a name."""
    inner = error.args[0] if isinstance(error, Exception) and error.args else error
    text = getattr(inner, "str", None)
    return f"{text()} [{inner.name()}]" if callable(text) and hasattr(inner, "name") else str(inner)
