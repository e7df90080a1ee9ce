"""How to connect to RabbitMQ, with PyFlink's builder."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any, Final

from tidemill.config.redaction import redacted
from tidemill.connectors.client_library import client_library
from tidemill.errors import ConfigurationError, ConnectorError

__all__ = ["RMQConnectionConfig"]

_PORT: Final = 5672
#: The default of RabbitMQ's Java client, in ms.
_CONNECTION_TIMEOUT: Final = 60_000
_RECOVERY_INTERVAL: Final = 5000
#: How long the broker may block or delay a connection before it is given up, in seconds.
_PATIENCE: Final = 60.0


@dataclass(frozen=True)
class RMQConnectionConfig:
    """Describes a connection; created with :class:`RMQConnectionConfig.Builder`.

    >>> config = (
    ...     RMQConnectionConfig.Builder()
    ...     .set_host("localhost")
    ...     .set_user_name("shop")
    ...     .set_password("sesame")
    ...     .build()
    ... )
    >>> config.get_host(), config.get_port(), config.get_virtual_host()
    ('localhost', 5672, '/')
    """

    host: str | None = None
    port: int | None = None
    virtual_host: str | None = None
    user_name: str | None = None
    password: str | None = field(default=None, repr=False)
    uri: str | None = field(default=None, repr=False)
    network_recovery_interval: int | None = None
    automatic_recovery: bool | None = None
    topology_recovery: bool | None = None
    connection_timeout: int | None = None
    requested_channel_max: int | None = None
    requested_frame_max: int | None = None
    requested_heartbeat: int | None = None
    prefetch_count: int | None = None

    def get_host(self) -> str | None:
        """Return the host; None if the connection is described by a URI."""
        return self.host

    def get_port(self) -> int | None:
        """Return the port; None if the connection is described by a URI."""
        return self.port

    def get_virtual_host(self) -> str | None:
        """Return the virtual host; None if the connection is described by a URI."""
        return self.virtual_host

    def get_user_name(self) -> str | None:
        """Return the user name."""
        return self.user_name

    def get_password(self) -> str | None:
        """Return the password."""
        return self.password

    def get_uri(self) -> str | None:
        """Return the URI, which may contain a password."""
        return self.uri

    def get_network_recovery_interval(self) -> int | None:
        """Return the ms between two attempts to restore a connection."""
        return self.network_recovery_interval

    def is_automatic_recovery(self) -> bool | None:
        """Whether a lost connection is restored; if not, the job fails."""
        return self.automatic_recovery

    def is_topology_recovery(self) -> bool | None:
        """Whether queues are declared again after a connection is restored."""
        return self.topology_recovery

    def get_connection_timeout(self) -> int | None:
        """Return the ms within which a connection must be established."""
        return self.connection_timeout

    def get_requested_channel_max(self) -> int | None:
        """Return the requested maximum number of channels."""
        return self.requested_channel_max

    def get_requested_frame_max(self) -> int | None:
        """Return the requested maximum size of a frame, in bytes."""
        return self.requested_frame_max

    def get_requested_heartbeat(self) -> int | None:
        """Return the requested heartbeat timeout, in seconds."""
        return self.requested_heartbeat

    def get_prefetch_count(self) -> int | None:
        """Return the maximum number of messages that the broker delivers before they are acknowledged."""
        return self.prefetch_count

    @property
    def recovers(self) -> bool:
        """Whether a lost connection is restored: yes, unless the program says otherwise."""
        return self.automatic_recovery is not False

    @property
    def recovery_seconds(self) -> float:
        """The seconds between two attempts to restore a connection."""
        interval = self.network_recovery_interval
        return (_RECOVERY_INTERVAL if interval is None else interval) / 1000

    @property
    def shown(self) -> str:
        """The address for messages, without a password."""
        if self.uri is not None:
            return redacted(self.uri)
        return f"amqp://{self.host}:{self.port}/{'' if self.virtual_host == '/' else self.virtual_host}"

    def connect(self) -> Any:
        """Open a connection. Raises :class:`ConnectorError` with the address if that is not possible."""
        pika = pika_library()
        try:
            return pika.BlockingConnection(self._parameters(pika))
        except (pika.exceptions.AMQPError, OSError) as error:
            raise ConnectorError(f"cannot connect to RabbitMQ at {self.shown}: {reason(error)}") from None

    def _parameters(self, pika: Any) -> Any:
        if self.uri is not None:
            parameters = pika.URLParameters(self.uri)
        else:
            parameters = pika.ConnectionParameters(
                host=self.host,
                port=self.port,
                virtual_host=self.virtual_host,
                credentials=pika.PlainCredentials(self.user_name, self.password),
            )
        timeout = (_CONNECTION_TIMEOUT if self.connection_timeout is None else self.connection_timeout) / 1000
        parameters.socket_timeout = parameters.stack_timeout = timeout or None
        parameters.blocked_connection_timeout = _PATIENCE
        for name, value in (
            ("channel_max", self.requested_channel_max),
            ("frame_max", self.requested_frame_max),
            ("heartbeat", self.requested_heartbeat),
        ):
            if value is not None and (value > 0 or name == "heartbeat"):  # 0: as many, or as large, as the broker has
                setattr(parameters, name, value)
        return parameters

    class Builder:
        """Builds an :class:`RMQConnectionConfig`: a URI or a host is required."""

        def __init__(self) -> None:
            self._settings: dict[str, Any] = {}

        def set_port(self, port: int) -> RMQConnectionConfig.Builder:
            """Set the port; 5672 by default."""
            return self._set(port=port)

        def set_host(self, host: str) -> RMQConnectionConfig.Builder:
            """Set the host."""
            return self._set(host=host)

        def set_virtual_host(self, vhost: str) -> RMQConnectionConfig.Builder:
            """Set the virtual host; ``/`` by default."""
            return self._set(virtual_host=vhost)

        def set_user_name(self, user_name: str) -> RMQConnectionConfig.Builder:
            """Set the user name; ``guest`` by default."""
            return self._set(user_name=user_name)

        def set_password(self, password: str) -> RMQConnectionConfig.Builder:
            """Set the password; it is sent to the workers with the job, and is never displayed."""
            return self._set(password=password)

        def set_uri(self, uri: str) -> RMQConnectionConfig.Builder:
            """Set host, port, virtual host and credentials at once: ``amqp://user:password@host:port/vhost``."""
            return self._set(uri=uri)

        def set_topology_recovery_enabled(self, topology_recovery_enabled: bool) -> RMQConnectionConfig.Builder:
            """Accepted and unused: a queue is declared whenever a connection is opened."""
            return self._set(topology_recovery=topology_recovery_enabled)

        def set_requested_heartbeat(self, requested_heartbeat: int) -> RMQConnectionConfig.Builder:
            """Set the heartbeat timeout in seconds; 0 for no heartbeats."""
            return self._set(requested_heartbeat=requested_heartbeat)

        def set_requested_frame_max(self, requested_frame_max: int) -> RMQConnectionConfig.Builder:
            """Set the maximum size of a frame in bytes; 0 for the broker's."""
            return self._set(requested_frame_max=requested_frame_max)

        def set_requested_channel_max(self, requested_channel_max: int) -> RMQConnectionConfig.Builder:
            """Set the maximum number of channels; 0 for the broker's."""
            return self._set(requested_channel_max=requested_channel_max)

        def set_network_recovery_interval(self, network_recovery_interval: int) -> RMQConnectionConfig.Builder:
            """Set the ms between two attempts to restore a connection; 5000 by default."""
            return self._set(network_recovery_interval=network_recovery_interval)

        def set_connection_timeout(self, connection_timeout: int) -> RMQConnectionConfig.Builder:
            """Set the ms within which a connection must be established; 60 000 by default."""
            return self._set(connection_timeout=connection_timeout)

        def set_automatic_recovery(self, automatic_recovery: bool) -> RMQConnectionConfig.Builder:
            """Set whether a lost connection is restored, as it is by default."""
            return self._set(automatic_recovery=automatic_recovery)

        def set_prefetch_count(self, prefetch_count: int) -> RMQConnectionConfig.Builder:
            """Set the maximum number of messages that the broker delivers before they are acknowledged.

            Messages are acknowledged when their epoch is committed, so this also limits the size of an epoch.
            """
            return self._set(prefetch_count=prefetch_count)

        def build(self) -> RMQConnectionConfig:
            """Build the description. Raises :class:`ConfigurationError` if there is neither a URI nor a host."""
            config = RMQConnectionConfig(**self._settings)
            if config.uri is not None:
                return config
            if config.host is None:
                raise ConfigurationError("a connection to RabbitMQ needs set_host() or set_uri()")
            return dataclasses.replace(
                config,
                port=_PORT if config.port is None else config.port,
                virtual_host=config.virtual_host or "/",
                user_name="guest" if config.user_name is None else config.user_name,
                password="guest" if config.password is None else config.password,
            )

        def _set(self, **setting: Any) -> RMQConnectionConfig.Builder:
            self._settings |= setting
            return self


def pika_library() -> Any:
    """Return the client library. Raises :class:`ConfigurationError` if it is missing."""
    client_library("pika.exceptions", "pika", "rabbitmq", "a connection to RabbitMQ")
    return client_library("pika", "pika", "rabbitmq", "a connection to RabbitMQ")


def reason(error: BaseException) -> str:
    """Return the text of an error of the client library; some have none."""
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def declare(connection: Any, queue: str) -> Any:
    """Return a channel of a connection on which a queue exists: durable, as Flink declares it, unless it exists."""
    pika = pika_library()
    channel = connection.channel()
    try:
        channel.queue_declare(queue, passive=True)
    except pika.exceptions.ChannelClosedByBroker as error:
        if error.reply_code != 404:  # the queue exists, but this user may not see it
            raise
        channel = connection.channel()
        channel.queue_declare(queue, durable=True)
    return channel
