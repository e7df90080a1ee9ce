"""The settings of the REST server."""

from __future__ import annotations

import ipaddress
import socket
import ssl
from dataclasses import dataclass, field

from tidemill.common.configuration import Configuration
from tidemill.config import RestOptions
from tidemill.errors import ConfigurationError
from tidemill.ops.access import host_of, is_loopback, ports_of, read_token

__all__ = ["RestSettings"]


@dataclass(frozen=True)
class RestSettings:
    """The address of a server, and which clients it serves. Jobs with equal settings share a server.

    Without a token and without a CA for client certificates, every client that can reach the address may do everything.
    So the address must be loopback, or this must be acknowledged (``anyone``).
    """

    host: str = "127.0.0.1"
    ports: tuple[int, ...] = (8081,)
    #: The host name under which clients reach the server, if it differs from the bind address.
    address: str | None = None
    operate_token: str | None = field(default=None, repr=False)
    read_token: str | None = field(default=None, repr=False)
    requests_per_second: int = 100
    ended_jobs: int = 50
    certificate: str | None = None
    certificate_key: str | None = None
    client_ca: str | None = None
    anyone: bool = False
    #: Whether clients may upload programs and run them.
    submit: bool = False

    @classmethod
    def of(cls, configuration: Configuration) -> RestSettings:
        """Return the settings of a configuration.

        Raises :class:`ConfigurationError` for invalid settings, above all for an address that other machines can reach
        without authentication.
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
            client_ca=get(RestOptions.CLIENT_CA),
            anyone=get(RestOptions.ANYONE),
            submit=get(RestOptions.SUBMIT),
        )
        settings.check()
        return settings

    def check(self) -> None:
        """Raise :class:`ConfigurationError` for invalid settings."""
        if not is_loopback(self.host) and self.is_open and not self.anyone:
            raise ConfigurationError(
                f"{RestOptions.BIND_ADDRESS.key}: {self.host} can be reached from other machines: set "
                f"{RestOptions.OPERATE_TOKEN.key} (file:PATH creates one), which clients must then send as a bearer "
                f"token, or {RestOptions.CLIENT_CA.key}, for client certificates. {RestOptions.ANYONE.key}: true "
                "disables authentication, and lets anyone there stop jobs, delete savepoints and read state"
            )
        if self.submit and self.operate_token is None:
            raise ConfigurationError(
                f"{RestOptions.SUBMIT.key}: true lets clients run any code as the user of this process: set "
                f"{RestOptions.OPERATE_TOKEN.key} (file:PATH creates one), which they must then send as a bearer token"
            )
        self._check_certificates()

    def _check_certificates(self) -> None:
        if self.certificate is None:
            needing = {RestOptions.CERTIFICATE_KEY.key: self.certificate_key, RestOptions.CLIENT_CA.key: self.client_ca}
            for key, value in needing.items():
                if value is not None:
                    raise ConfigurationError(
                        f"{key} is set, but {RestOptions.CERTIFICATE.key}, which HTTPS requires, is not"
                    )
            return
        context, option = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), RestOptions.CERTIFICATE
        try:
            context.load_cert_chain(self.certificate, self.certificate_key)
            if self.client_ca is not None:
                option = RestOptions.CLIENT_CA
                context.load_verify_locations(self.client_ca)
        except OSError as error:  # includes ssl.SSLError
            raise ConfigurationError(f"{option.key} cannot be used: {error}") from error

    @property
    def needs_token(self) -> bool:
        """Whether clients need a token."""
        return self.operate_token is not None or self.read_token is not None

    @property
    def is_open(self) -> bool:
        """Whether clients need neither a token nor a certificate."""
        return not self.needs_token and self.client_ca is None

    def answers_to(self, host: str) -> bool:
        """Whether this server serves requests with this ``Host`` header. This check prevents DNS rebinding attacks.

        >>> settings = RestSettings()
        >>> settings.answers_to("localhost:8081"), settings.answers_to("evil.example.org")
        (True, False)
        """
        name = host_of(host)
        if not name:
            return False
        if is_loopback(name) or name in (self.host, (self.address or "").lower()):
            return True
        if self.address is not None or is_loopback(self.host):
            return False
        # The server may listen on all addresses, whose names are not known. If clients need a token or a certificate,
        # that is sufficient. Otherwise the name must be one that nobody else can assign to this machine.
        return not self.is_open or _is_own_name(name)


def _is_own_name(name: str) -> bool:
    """Whether a name is an IP address, or the host name of this machine."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return name == socket.gethostname().lower()
    return True
