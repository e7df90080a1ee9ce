"""JDBC URLs of databases."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import parse_qsl, unquote

from tidemill.connectors.jdbc.passwords import hide_password
from tidemill.connectors.jdbc.server_urls import (
    mysql_parameters,
    oracle_parameters,
    shown_hosts,
    sqlserver_parameters,
)
from tidemill.errors import ConfigurationError

__all__ = ["DatabaseUrl", "parse_url"]

#: Parameters of PostgreSQL's JDBC driver, and their names in libpq.
_PARAMETERS: Final[Mapping[str, str]] = {
    "user": "user",
    "password": "password",
    "sslmode": "sslmode",
    "sslcert": "sslcert",
    "sslkey": "sslkey",
    "sslrootcert": "sslrootcert",
    "sslpassword": "sslpassword",
    "ApplicationName": "application_name",
    "connectTimeout": "connect_timeout",
    "loginTimeout": "connect_timeout",
    "options": "options",
    "gssEncMode": "gssencmode",
    "channelBinding": "channel_binding",
}
_ROLES: Final[Mapping[str, str]] = {
    "any": "any",
    "primary": "primary",
    "master": "primary",
    "secondary": "standby",
    "slave": "standby",
    "preferSecondary": "prefer-standby",
    "preferSlave": "prefer-standby",
}


@dataclass(frozen=True)
class DatabaseUrl:
    """The kind of a database, and the connection parameters of its client library.

    Kinds are ``postgresql``, ``sqlite``, ``mysql`` (also for MariaDB), ``sqlserver`` and ``oracle``. ``shown`` is the
    URL for messages, without parameters and passwords.
    """

    kind: str
    shown: str
    parameters: Mapping[str, str] = field(default_factory=dict, repr=False)


def parse_url(url: str) -> DatabaseUrl:
    """Parse a URL. Raises :class:`ConfigurationError` for an invalid one; the message contains no passwords.

    >>> parse_url("jdbc:postgresql://db.example.org/shop?sslmode=require").shown
    'jdbc:postgresql://db.example.org:5432/shop'
    >>> parse_url("jdbc:sqlite:/data/shop.db").kind
    'sqlite'
    """
    if url.startswith("jdbc:sqlite:"):
        return _sqlite(url)
    if url.startswith("jdbc:postgresql:"):
        return _postgresql(url)
    if url.startswith(("jdbc:mysql:", "jdbc:mariadb:")):
        parameters = mysql_parameters(url)
        product = url.split(":")[1]
        return DatabaseUrl(
            "mysql", f"jdbc:{product}://{shown_hosts(parameters)}/{parameters.get('dbname', '')}", parameters
        )
    if url.startswith("jdbc:sqlserver:"):
        parameters = sqlserver_parameters(url)
        database = f";databaseName={parameters['dbname']}" if "dbname" in parameters else ""
        return DatabaseUrl("sqlserver", f"jdbc:sqlserver://{shown_hosts(parameters)}{database}", parameters)
    if url.startswith("jdbc:oracle:"):
        parameters = oracle_parameters(url)
        return DatabaseUrl("oracle", f"jdbc:oracle:thin:@{parameters['dsn']}", parameters)
    raise ConfigurationError(
        f"unknown database URL {hide_password(url)!r}: it must begin with jdbc:postgresql:, jdbc:mysql:, "
        "jdbc:mariadb:, jdbc:sqlserver:, jdbc:oracle: or jdbc:sqlite:, as in jdbc:postgresql://host:port/database or "
        "jdbc:sqlite:/path/of/the/file. Write to other databases through Spark."
    )


def _sqlite(url: str) -> DatabaseUrl:
    path = url.removeprefix("jdbc:sqlite:")
    if not path or path.startswith(":memory:"):
        raise ConfigurationError(
            f"{url!r} is a database in the memory of one process, which driver and workers cannot share: use a file"
        )
    return DatabaseUrl("sqlite", url, {"path": path.removeprefix("file:")})


def _postgresql(url: str) -> DatabaseUrl:
    rest = url.removeprefix("jdbc:postgresql:")
    address, _, query = rest.partition("?")
    parameters = _postgresql_parameters(query, url)
    if address.startswith("//"):
        authority, _, database = address[2:].partition("/")
    else:
        authority, database = "", address
    if "@" in authority:
        raise ConfigurationError(
            f"the user must not be part of the URL {hide_password(url)!r}: set it with with_user_name()"
        )
    hosts = [_host_and_port(part) for part in (authority or "localhost").split(",")]
    parameters["host"] = ",".join(host for host, _ in hosts)
    parameters["port"] = ",".join(port for _, port in hosts)
    if database:
        parameters["dbname"] = unquote(database)
    places = ",".join(f"{host}:{port}" for host, port in hosts)
    return DatabaseUrl("postgresql", f"jdbc:postgresql://{places}/{unquote(database)}", parameters)


def _host_and_port(text: str) -> tuple[str, str]:
    match = re.fullmatch(r"(\[[^\]]+\]|[^:\[\]]*)(?::(\d+))?", text)
    if match is None:
        raise ConfigurationError(f"{text!r} is not a host with a port, such as host:5432 or [::1]:5432")
    return match[1].strip("[]") or "localhost", match[2] or "5432"


def _postgresql_parameters(query: str, url: str) -> dict[str, str]:
    parameters: dict[str, str] = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name == "currentSchema":
            parameters["options"] = f"{parameters.get('options', '')} -c search_path={value}".strip()
        elif name == "targetServerType" and value in _ROLES:
            parameters["target_session_attrs"] = _ROLES[value]
        elif name == "ssl":
            parameters.setdefault("sslmode", "verify-full" if value in ("", "true") else "prefer")
        elif name in _PARAMETERS:
            parameters[_PARAMETERS[name]] = value
        else:
            known = ", ".join(sorted([*_PARAMETERS, "currentSchema", "ssl", "targetServerType"]))
            raise ConfigurationError(f"unknown parameter {name!r} of {hide_password(url)!r}; known are {known}")
    return parameters
