"""What a configuration says of the REST server."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field

from tidemill.common.configuration import Configuration
from tidemill.config import RestOptions
from tidemill.errors import ConfigurationError
from tidemill.ops.access import host_of, is_loopback, ports_of, read_token

__all__ = ["RestSettings"]


@dataclass(frozen=True)
class RestSettings:
    """Where a server listens, and whom it answers. Two jobs with equal settings share a server.

    With no token at all everybody who reaches the address may do everything: that must be loopback.
    """

    host: str = "127.0.0.1"
    ports: tuple[int, ...] = (8081,)
    #: The name by which clients know the server, if not by its address.
    address: str | None = None
    operate_token: str | None = field(default=None, repr=False)
    read_token: str | None = field(default=None, repr=False)
    requests_per_second: int = 100
    ended_jobs: int = 50
    certificate: str | None = None
    certificate_key: str | None = None

    @classmethod
    def of(cls, configuration: Configuration) -> RestSettings:
        """What a configuration asks for.

        Raises :class:`ConfigurationError` for what cannot be, above all an address that other machines reach, without a
        token.
        """
        get = configuration.get
        bound = configuration.contains(RestOptions.BIND_PORT)
        key = RestOptions.BIND_PORT.key if bound else RestOptions.PORT.key
        settings = cls(
            host=get(RestOptions.BIND_ADDRESS) or "127.0.0.1",
            ports=tuple(ports_of(get(RestOptions.BIND_PORT) if bound else str(get(RestOptions.PORT)), key)),
            address=get(RestOptions.ADDRESS),
            operate_token=read_token(get(RestOptions.OPERATE_TOKEN), RestOptions.OPERATE_TOKEN.key),
            read_token=read_token(get(RestOptions.READ_TOKEN), RestOptions.READ_TOKEN.key),
            requests_per_second=get(RestOptions.MAX_REQUESTS),
            ended_jobs=get(RestOptions.JOBS_KEPT),
            certificate=get(RestOptions.CERTIFICATE),
            certificate_key=get(RestOptions.CERTIFICATE_KEY),
        )
        settings.check()
        return settings

    def check(self) -> None:
        """Raise :class:`ConfigurationError` for what cannot be."""
        if not is_loopback(self.host) and not self.needs_token:
            raise ConfigurationError(
                f"{RestOptions.BIND_ADDRESS.key}: {self.host} can be reached from other machines: set "
                f"{RestOptions.OPERATE_TOKEN.key} (file:PATH makes one), which clients must then send as a bearer token"
            )
        if self.certificate is None and self.certificate_key is not None:
            raise ConfigurationError(
                f"{RestOptions.CERTIFICATE_KEY.key} is set, but no {RestOptions.CERTIFICATE.key}: there is nothing to "
                "serve HTTPS with"
            )
        if self.certificate is not None:
            try:
                ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(self.certificate, self.certificate_key)
            except OSError as error:
                raise ConfigurationError(f"{RestOptions.CERTIFICATE.key} cannot be used: {error}") from error

    @property
    def needs_token(self) -> bool:
        """Whether clients need a token."""
        return self.operate_token is not None or self.read_token is not None

    def answers_to(self, host: str) -> bool:
        """Whether a request with this ``Host`` header was meant for us: a page elsewhere may have been led here.

        >>> settings = RestSettings()
        >>> settings.answers_to("localhost:8081"), settings.answers_to("evil.example.org")
        (True, False)
        """
        name = host_of(host)
        if is_loopback(name) or name in (self.host, (self.address or "").lower()):
            return True
        # On all addresses, the names of this machine are not known; that its clients have a token must be enough.
        return self.address is None and not is_loopback(self.host) and bool(name)
