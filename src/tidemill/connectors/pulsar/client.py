"""Creates clients of Pulsar, and looks up topics.

The client library is ``pulsar-client`` (``pip install 'tidemill[pulsar]'``). It is imported only when it is used.
"""

from __future__ import annotations

import json
import logging
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tidemill.connectors.client_library import client_library
from tidemill.errors import ConfigurationError, ConnectorError

__all__ = ["PulsarClients", "checked_config", "pulsar_library"]

log = logging.getLogger(__name__)

_JAVA: Final = "org.apache.pulsar.client.impl.auth."
_TOKEN: Final = f"{_JAVA}AuthenticationToken"
#: The time for an operation, in seconds; the default of the Java client.
_OPERATION_SECONDS: Final = 30
_CONNECTION_MS: Final = 10_000
_ADMIN_SECONDS: Final = 30


@dataclass(frozen=True)
class PulsarClients:
    """How to connect to a cluster. The configuration has the names of Flink's ``PulsarOptions``."""

    service_url: str
    admin_url: str | None
    auth_plugin: str | None = None
    auth_params: str = field(default="", repr=False)
    config: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def shown(self) -> str:
        """The cluster, for messages."""
        return f"Pulsar at {self.service_url}"

    def check(self) -> None:
        """Raise :class:`ConfigurationError` if there is no address, or for authentication that is not supported."""
        if not self.service_url:
            raise ConfigurationError("a Pulsar source or sink needs set_service_url('pulsar://host:6650')")
        if self.auth_plugin is not None and self.auth_plugin not in _AUTHENTICATION:
            raise ConfigurationError(
                f"the authentication plugin {self.auth_plugin} is not supported: use one of "
                f"{', '.join(sorted(_AUTHENTICATION))}"
            )

    def client(self) -> Any:
        """Create a client, which threads may share."""
        pulsar = pulsar_library()
        settings: dict[str, Any] = {
            "operation_timeout_seconds": self._number("pulsar.client.operationTimeoutMs", 1000, _OPERATION_SECONDS),
            "connection_timeout_ms": self._number("pulsar.client.connectionTimeoutMs", 1, _CONNECTION_MS),
            "logger": log,
        }
        if self.auth_plugin is not None:
            settings["authentication"] = _AUTHENTICATION[self.auth_plugin](pulsar, self.auth_params)
        if path := self.config.get("pulsar.client.tlsTrustCertsFilePath"):
            settings["tls_trust_certs_file_path"] = path
        if self.config.get("pulsar.client.tlsAllowInsecureConnection", "false").lower() == "true":
            settings["tls_allow_insecure_connection"] = True
        if self.config.get("pulsar.client.tlsHostnameVerificationEnable", "false").lower() == "true":
            settings["tls_validate_hostname"] = True
        return self.call(lambda: pulsar.Client(self.service_url, **settings), "connecting")

    def call(self, request: Callable[[], Any], what: str) -> Any:
        """Make a request. Raises :class:`ConnectorError` with the client's message if it fails."""
        pulsar = pulsar_library()
        try:
            return request()
        except pulsar.exceptions.PulsarException as error:
            raise ConnectorError(f"{self.shown}: {what} failed: {error}") from error

    def topics_of(self, namespace: str) -> list[str]:
        """Return the topics of a namespace; partitioned topics without their partitions."""
        if self.admin_url is None:
            raise ConfigurationError("a topic pattern needs set_admin_url('http://host:8080')")
        found: dict[str, None] = {}
        for path in (f"{namespace}/partitioned", namespace):
            for topic in self._get(f"/admin/v2/persistent/{path}"):
                found[str(topic).partition("-partition-")[0]] = None
        return list(found)

    def _get(self, path: str) -> Any:
        url = f"{(self.admin_url or '').rstrip('/')}{path}"
        if not url.startswith(("http://", "https://")):
            raise ConfigurationError(f"{self.admin_url!r} is not an admin URL: it must begin with http:// or https://")
        headers = {}
        if self.auth_plugin == _TOKEN:
            headers["Authorization"] = f"Bearer {self.auth_params.removeprefix('token:')}"
        request = urllib.request.Request(url, headers=headers)  # noqa: S310 - checked above
        try:
            with urllib.request.urlopen(request, timeout=_ADMIN_SECONDS) as response:  # noqa: S310
                return json.load(response)
        except (OSError, ValueError) as error:
            raise ConnectorError(f"{self.shown}: listing topics at {url} failed: {error}") from None

    def _number(self, name: str, divisor: int, default: int) -> int:
        text = self.config.get(name)
        if text is None:
            return default
        try:
            return max(1, int(text) // divisor)
        except ValueError:
            raise ConfigurationError(f"{name} must be a number of milliseconds, not {text!r}") from None


def pulsar_library() -> Any:
    """Return the client library. Raises :class:`ConfigurationError` if it is missing."""
    return client_library("pulsar", "pulsar-client", "pulsar", "access to Pulsar")


def checked_config(config: Mapping[str, Any]) -> dict[str, str]:
    """Return settings as text."""
    return {str(key): str(value).lower() if isinstance(value, bool) else str(value) for key, value in config.items()}


def _pairs(text: str) -> dict[str, str]:
    """Parse parameters: JSON, or ``name:value,name:value``."""
    if text.lstrip().startswith("{"):
        found: dict[str, str] = json.loads(text)
        return found
    return dict(part.split(":", 1) for part in text.split(",") if ":" in part)


def _tls(pulsar: Any, text: str) -> Any:
    given = _pairs(text)
    return pulsar.AuthenticationTLS(given["tlsCertFile"], given["tlsKeyFile"])


def _basic(pulsar: Any, text: str) -> Any:
    given = _pairs(text)
    return pulsar.AuthenticationBasic(given["userId"], given["password"])


_AUTHENTICATION: Final[Mapping[str, Callable[[Any, str], Any]]] = {
    _TOKEN: lambda pulsar, text: pulsar.AuthenticationToken(text.removeprefix("token:")),
    f"{_JAVA}AuthenticationTls": _tls,
    f"{_JAVA}AuthenticationBasic": _basic,
    f"{_JAVA}oauth2.AuthenticationOAuth2": lambda pulsar, text: pulsar.AuthenticationOauth2(text),
}
