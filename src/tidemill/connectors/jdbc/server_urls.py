"""JDBC URLs of MySQL, MariaDB, SQL Server and Oracle."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import parse_qsl, unquote

from tidemill.connectors.jdbc.passwords import hide_password
from tidemill.errors import ConfigurationError

__all__ = ["hosts_of", "mysql_parameters", "oracle_parameters", "shown_hosts", "sqlserver_parameters"]

log = logging.getLogger(__name__)

#: Words in the names of parameters that secure a connection: none of these is ignored.
_SECURITY: Final = re.compile(r"(?i)ssl|tls|cert|trust|keystore|encrypt|authentication")
#: Modes of TLS, by the names in the drivers of MySQL and MariaDB.
_MODES: Final = {
    "disabled": "disable",
    "disable": "disable",
    "preferred": "prefer",
    "required": "require",
    "trust": "require",
    "verify_ca": "verify-ca",
    "verify-ca": "verify-ca",
    "verify_identity": "verify-full",
    "verify-full": "verify-full",
}
_ORACLE_PORT: Final = "1521"
#: A part of a URL that ends with a semicolon; braces enclose values with special characters.
_PART: Final = re.compile(r"((?:\{(?:[^}]|\}\})*\}|[^;{]|\{)*)(?:;|\Z)")


def hosts_of(parameters: Mapping[str, str]) -> list[tuple[str, int]]:
    """Return the servers of a parsed URL, in the order in which they are tried."""
    hosts, ports = parameters["host"].split(","), parameters["port"].split(",")
    return [(host, int(port)) for host, port in zip(hosts, ports, strict=True)]


def shown_hosts(parameters: Mapping[str, str]) -> str:
    """Return the servers of a parsed URL for messages."""
    return ",".join(f"{host}:{port}" for host, port in hosts_of(parameters))


def mysql_parameters(url: str) -> dict[str, str]:
    """Parse ``jdbc:mysql://host:port,host:port/database?name=value&...``, also with ``jdbc:mariadb:``.

    >>> mysql_parameters("jdbc:mysql://db.example.org/shop?useSSL=false")
    {'host': 'db.example.org', 'port': '3306', 'dbname': 'shop', 'ssl': 'disable'}
    """
    _, _, rest = url.partition("://")
    address, _, query = rest.partition("?")
    authority, _, database = address.partition("/")
    if not rest or "(" in authority or "@" in authority:
        raise ConfigurationError(
            f"{hide_password(url)!r} is not a URL of the form jdbc:mysql://host:port/database: set the user with "
            "with_user_name()"
        )
    parameters = _hosts(authority, "3306", url)
    if database:
        parameters["dbname"] = unquote(database)
    given = dict(parse_qsl(query, keep_blank_values=True))
    for name in ("user", "password"):
        if name in given:
            parameters[name] = given.pop(name)
    parameters |= _mysql_encryption(given, url)
    if "socketTimeout" in given:
        parameters["read_timeout"] = str(-(-_number("socketTimeout", given.pop("socketTimeout"), url) // 1000))
    _ignore(given, url)
    return parameters


def _mysql_encryption(given: dict[str, str], url: str) -> dict[str, str]:
    """Take the parameters that secure the connection; return the mode of TLS and the file of trusted certificates."""
    mode = given.pop("sslMode", None)
    flags = {name.lower(): given.pop(name).lower() for name in list(given) if name.lower() in _FLAGS}
    given.pop("allowPublicKeyRetrieval", None)  # the library does so whenever the server wants it
    found: dict[str, str] = {}
    if "serverSslCert" in given:
        found["ssl_ca"] = given.pop("serverSslCert")
    if mode is not None:
        if mode.lower() not in _MODES:
            raise ConfigurationError(f"unknown sslMode {mode!r} of {hide_password(url)!r}")
        return {"ssl": _MODES[mode.lower()], **found}
    if flags.get("usessl") == "false":
        return {"ssl": "disable", **found}
    if flags.get("verifyservercertificate") == "true":
        return {"ssl": "verify-ca", **found}
    if flags.get("requiressl") == "true" or flags.get("trustservercertificate") == "true":
        return {"ssl": "require", **found}
    return found


_FLAGS: Final = frozenset({"usessl", "requiressl", "verifyservercertificate", "trustservercertificate"})


def sqlserver_parameters(url: str) -> dict[str, str]:
    r"""Parse ``jdbc:sqlserver://host\instance:port;name=value;...``.

    >>> sqlserver_parameters("jdbc:sqlserver://db.example.org;databaseName=shop;encrypt=false")
    {'host': 'db.example.org', 'port': '1433', 'dbname': 'shop', 'encryption': 'off'}
    """
    _, _, rest = url.partition("://")
    address, *pairs = _semicolons(rest)
    given = {name.strip(): value.strip() for name, _, value in (pair.partition("=") for pair in pairs if pair.strip())}
    lower = {name.lower(): name for name in given}

    def take(*names: str) -> str | None:
        found = [given.pop(lower[name.lower()]) for name in names if name.lower() in lower]
        return _unbraced(found[0]) if found else None

    server = take("serverName", "server")
    address, _, instance = (address or server or "").partition("\\")
    port = take("portNumber", "port")
    if instance:
        instance, _, inside = instance.partition(":")
        address += f":{inside}" if inside else ""
    parameters = _hosts(address if ":" in address or port is None else f"{address}:{port}", "1433", url)
    for name, value in (
        ("instance", take("instanceName") or instance),
        ("dbname", take("databaseName", "database")),
        ("user", take("user", "userName")),
        ("password", take("password")),
        ("application_name", take("applicationName")),
    ):
        if value:
            parameters[name] = value
    parameters |= _sqlserver_encryption(take("encrypt"), take("trustServerCertificate"), url)
    _ignore(given, url)
    return parameters


def _sqlserver_encryption(encrypt: str | None, trust: str | None, url: str) -> dict[str, str]:
    if encrypt is None:
        return {}
    if encrypt.lower() in ("false", "no", "optional"):
        return {"encryption": "off"}
    if (trust or "").lower() != "true":
        raise ConfigurationError(
            f"{hide_password(url)!r}: the client library pymssql cannot verify the certificate of a server. Set "
            "trustServerCertificate=true to encrypt the connection without that, or encrypt=false"
        )
    return {"encryption": "require"}


def oracle_parameters(url: str) -> dict[str, str]:
    """Parse ``jdbc:oracle:thin:@//host:port/service``, ``@host:port:sid`` or ``@(DESCRIPTION=...)``.

    >>> oracle_parameters("jdbc:oracle:thin:@//db.example.org:1521/shop")
    {'dsn': 'db.example.org:1521/shop'}
    """
    found = re.fullmatch(r"jdbc:oracle:(\w+):(?:([^/@]*)/([^@]*))?@(.+)", url, re.DOTALL)
    if found is None or found[1] != "thin":
        raise ConfigurationError(
            f"{hide_password(url)!r} is not a URL of the form jdbc:oracle:thin:@//host:port/service"
        )
    parameters = {name: value for name, value in (("user", found[2]), ("password", found[3])) if value}
    place = found[4]
    by_sid = re.fullmatch(r"(?://)?([^/:()\s]+)(?::(\d+))?:([^/:()\s]+)", place)
    if by_sid is not None and not by_sid[3].isdecimal():
        host, port, sid = by_sid[1], by_sid[2] or _ORACLE_PORT, by_sid[3]
        parameters["dsn"] = (
            f"(DESCRIPTION=(ADDRESS=(PROTOCOL=TCP)(HOST={host})(PORT={port}))(CONNECT_DATA=(SID={sid})))"
        )
    else:
        parameters["dsn"] = place.removeprefix("//")
    return parameters


def _hosts(authority: str, port: str, url: str) -> dict[str, str]:
    found = [re.fullmatch(r"(\[[^\]]+\]|[^:\[\]]*)(?::(\d+))?", part) for part in (authority or "localhost").split(",")]
    hosts = [match for match in found if match is not None]
    if len(hosts) != len(found):
        raise ConfigurationError(f"{hide_password(url)!r} has no host with a port, such as host:{port} or [::1]:{port}")
    return {
        "host": ",".join(match[1].strip("[]") or "localhost" for match in hosts),
        "port": ",".join(match[2] or port for match in hosts),
    }


def _semicolons(text: str) -> list[str]:
    """Split at semicolons that are not in braces."""
    return [str(part) for part in _PART.findall(text)] or [""]


def _unbraced(value: str) -> str:
    return value[1:-1].replace("}}", "}") if value.startswith("{") and value.endswith("}") else value


def _number(name: str, value: str, url: str) -> int:
    if not value.isdecimal():
        raise ConfigurationError(f"{name} of {hide_password(url)!r} must be a number, not {value!r}")
    return int(value)


def _ignore(given: Mapping[str, str], url: str) -> None:
    """Raise an error for parameters that secure a connection in a way that is not known; log the others."""
    for name in given:
        if _SECURITY.search(name):
            raise ConfigurationError(f"the parameter {name!r} of {hide_password(url)!r} is not supported")
    if given:
        log.info("parameters of a JDBC driver have no effect: %s", ", ".join(sorted(given)))
