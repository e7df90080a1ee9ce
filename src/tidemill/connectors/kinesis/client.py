"""Creates clients of AWS from Flink's properties.

The client library is ``boto3`` (``pip install 'tidemill[kinesis]'``). It is imported only when it is used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tidemill.config.redaction import redacted_value
from tidemill.connectors.client_library import client_library
from tidemill.errors import ConfigurationError, ConnectorError

__all__ = ["AwsClients", "checked_properties"]

_PROVIDER: Final = "aws.credentials.provider"
#: Providers that boto3 tries on its own, in its own order.
_FOUND: Final = ("AUTO", "ENV_VAR", "SYS_PROP", "WEB_IDENTITY_TOKEN")
_CONNECT_SECONDS: Final = 10
_READ_SECONDS: Final = 60
#: Attempts of a request whose failure passes, by boto3 itself.
_ATTEMPTS: Final = 4


@dataclass(frozen=True)
class AwsClients:
    """Creates clients of one service. Properties have the names of Flink's ``AWSConfigConstants``."""

    service: str
    properties: Mapping[str, str] = field(repr=False)

    def __repr__(self) -> str:
        return f"{self.service}, {redacted_value('', dict(self.properties))}"

    @property
    def shown(self) -> str:
        """The service and where it is, for messages."""
        where = self.properties.get("aws.endpoint") or self.properties.get("aws.region") or "the default region"
        return f"{self.service.capitalize()} at {where}"

    def check(self) -> None:
        """Raise :class:`ConfigurationError` for credentials that cannot be used."""
        self._session_settings()

    def client(self) -> Any:
        """Create a client, which threads may share."""
        boto3 = client_library("boto3", "boto3", "kinesis", f"access to {self.service.capitalize()}")
        config = client_library("botocore.config", "boto3", "kinesis", "access to AWS")
        exceptions = client_library("botocore.exceptions", "boto3", "kinesis", "access to AWS")
        settings: dict[str, Any] = {}
        if endpoint := self.properties.get("aws.endpoint"):
            settings["endpoint_url"] = endpoint
        if self.properties.get("aws.trust.all.certificates", "false").lower() == "true":
            settings["verify"] = False
        try:
            return boto3.Session(**self._session_settings()).client(
                self.service,
                config=config.Config(
                    connect_timeout=_CONNECT_SECONDS,
                    read_timeout=_READ_SECONDS,
                    retries={"max_attempts": _ATTEMPTS, "mode": "standard"},
                    max_pool_connections=50,
                ),
                **settings,
            )
        except exceptions.BotoCoreError as error:
            raise ConfigurationError(f"{self.shown}: {error}") from None

    def call(self, request: Callable[..., Any], what: str, **arguments: Any) -> Any:
        """Make a request. Raises :class:`ConnectorError` with the service's message if it fails."""
        exceptions = client_library("botocore.exceptions", "boto3", "kinesis", "access to AWS")
        try:
            return request(**arguments)
        except (exceptions.BotoCoreError, exceptions.ClientError) as error:
            raise ConnectorError(f"{self.shown}: {what} failed: {error}") from error

    def _session_settings(self) -> dict[str, Any]:
        given = self.properties
        settings: dict[str, Any] = {}
        if region := given.get("aws.region"):
            settings["region_name"] = region
        # Flink's older properties do not contain "provider".
        key = given.get(f"{_PROVIDER}.basic.accesskeyid") or given.get("aws.credentials.basic.accesskeyid")
        secret = given.get(f"{_PROVIDER}.basic.secretkey") or given.get("aws.credentials.basic.secretkey")
        provider = given.get(_PROVIDER, "BASIC" if key and secret else "AUTO")
        if provider == "BASIC":
            if not key or not secret:
                raise ConfigurationError(
                    f"{_PROVIDER}: BASIC needs {_PROVIDER}.basic.accesskeyid and {_PROVIDER}.basic.secretkey"
                )
            return settings | {"aws_access_key_id": key, "aws_secret_access_key": secret}
        if provider == "PROFILE":
            return settings | {"profile_name": given.get(f"{_PROVIDER}.profile.name", "default")}
        if provider not in _FOUND:
            raise ConfigurationError(
                f"{_PROVIDER}: {provider} is not supported. Use PROFILE with a profile that assumes the role (role_arn "
                "and source_profile in AWS's configuration file), or AUTO"
            )
        return settings


def checked_properties(properties: Mapping[str, Any]) -> dict[str, str]:
    """Return properties as text. Raises :class:`TypeError` for names that are not strings."""
    if not all(isinstance(key, str) for key in properties):
        raise TypeError("the names of properties must be strings")
    return {key: value if isinstance(value, str) else _text(value) for key, value in properties.items()}


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
