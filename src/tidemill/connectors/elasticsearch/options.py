"""Settings of a sink for Elasticsearch or OpenSearch: hosts, the limits of a bulk request, and what is retried."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from tidemill.errors import ConfigurationError

__all__ = ["BulkOptions", "FlushBackoffType", "Host", "host_of"]

_PORT: Final = 9200
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}
#: An exponential back-off waits at most this long, in ms, unless its first delay is longer.
_LONGEST_DELAY: Final = 60_000


class FlushBackoffType(enum.Enum):
    """Whether a bulk request that the cluster could not process is retried, and how the delay develops."""

    #: Every retry comes after the same delay.
    CONSTANT = 0
    #: The delay doubles with every retry, up to a minute.
    EXPONENTIAL = 1
    #: Nothing is retried: the job fails.
    NONE = 2


class Host(NamedTuple):
    """The address of a node of the cluster."""

    scheme: str
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.scheme}://{self.host}:{self.port}"


def host_of(text: str) -> Host:
    """Parse an address. Without a scheme and a port, these are ``http`` and 9200.

    >>> [str(host_of(text)) for text in ("search:9200", "https://search", "search")]
    ['http://search:9200', 'https://search:443', 'http://search:9200']
    """
    scheme, separator, _ = text.partition("://")
    parts = urlsplit(text if separator else f"http://{text}")
    try:
        port = parts.port
    except ValueError:
        port = 0
    if parts.scheme not in _DEFAULT_PORTS or not parts.hostname or parts.path.strip("/") or port == 0:
        raise ConfigurationError(f"{text!r} is not the address of a node: it must look like 'http://host:9200'")
    return Host(parts.scheme, parts.hostname, port or (_DEFAULT_PORTS[scheme] if separator else _PORT))


@dataclass(frozen=True)
class BulkOptions:
    """The settings of a sink. Times are in ms; limits of -1 mean that there is none."""

    #: The name of the system in messages.
    system: str
    hosts: tuple[Host, ...]
    max_actions: int = 1000
    max_size_mb: int = -1
    interval: int = -1
    backoff: FlushBackoffType = FlushBackoffType.NONE
    max_retries: int = 0
    delay: int = 0
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    path_prefix: str = ""
    #: The defaults of Elasticsearch's Java client.
    connection_timeout: int = 1000
    socket_timeout: int = 30_000

    @property
    def shown(self) -> str:
        """The system and its hosts, for messages."""
        return f"{self.system} at {', '.join(map(str, self.hosts))}"

    def delay_before(self, retry: int) -> float | None:
        """Return the seconds to wait before a retry, counted from 0; None if there is no further retry."""
        if self.backoff is FlushBackoffType.NONE or retry >= self.max_retries:
            return None
        if self.backoff is FlushBackoffType.CONSTANT:
            return self.delay / 1000
        longest = max(self.delay, _LONGEST_DELAY)
        return min(self.delay << min(retry, 32), longest) / 1000
