"""Security properties for both Kafka clients: the Java client and librdkafka.

A program sets them once, with the names of the Java client (``security.protocol``, ``sasl.mechanism``,
``sasl.jaas.config``, ``ssl.truststore...``, ``ssl.keystore...``). Sources are read by the Java client, which uses them
unchanged. Sinks use librdkafka, which has different names for them and cannot read Java key stores. This module
translates the properties, or raises an error that explains what to set instead. librdkafka's own properties take
precedence if they are also set on a sink.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tidemill.connectors.kafka.jaas import JAAS, read_login
from tidemill.errors import ConfigurationError

__all__ = ["NOT_TAKEN", "SET_PROTOCOL", "UNTRUSTED", "check_for_java", "for_library", "way_in"]

#: Parts of error messages: a possible cause, and what to do about it.
UNTRUSTED: Final = (
    "the broker's certificate is not trusted, or was not issued for its address: set the certificate of its issuer "
    "with ssl.truststore.type=PEM and ssl.truststore.location"
)
NOT_TAKEN: Final = (
    "the broker rejected the client's certificate: it may require one that it trusts, set with ssl.keystore.type=PEM "
    "and ssl.keystore.location"
)
SET_PROTOCOL: Final = "if the broker requires TLS or a login, set security.protocol and related properties"

_PROTOCOL: Final = "security.protocol"
_MECHANISM: Final = "sasl.mechanism"
_OWN_MECHANISM: Final = "sasl.mechanisms"
_MECHANISMS_OF_LIBRARY: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI")
_KERBEROS: Final = "Krb5LoginModule"
_LOGINS_BY_PASSWORD: Final = ("PlainLoginModule", "ScramLoginModule")

#: librdkafka's own names of properties: for logins, for trusted certificates, and for the client's certificate.
_OWN_LOGIN: Final = ("sasl.username", "sasl.password", "sasl.kerberos.keytab", "sasl.kerberos.principal")
_OWN_OAUTH: Final = ("sasl.oauthbearer.method", "sasl.oauthbearer.config", "sasl.oauthbearer.client.id")
_OWN_TRUST: Final = ("ssl.ca.location", "ssl.ca.pem", "ssl.ca.certificate.stores")
_OWN_IDENTITY: Final = ("ssl.key.location", "ssl.key.pem", "ssl.certificate.location", "ssl.certificate.pem")
#: Prefixes of further login properties of the Java client, which name Java classes.
_LOGIN_OF_JAVA: Final = ("sasl.login.", "sasl.client.callback.")
#: Properties that the Java client does not have, and their equivalents in it, for messages.
_FOR_JAVA: Final = {
    **dict.fromkeys((*_OWN_LOGIN, *_OWN_OAUTH, _OWN_MECHANISM), f"{_MECHANISM} and {JAAS}"),
    **dict.fromkeys(_OWN_TRUST, "ssl.truststore.type=PEM with ssl.truststore.location or ssl.truststore.certificates"),
    **dict.fromkeys(_OWN_IDENTITY, "ssl.keystore.type=PEM with ssl.keystore.location or ssl.keystore.key"),
    "enable.ssl.certificate.verification": "no equivalent: it always verifies certificates",
}

#: Prefixes of the properties of Java key stores, all of which are translated or left out.
_STORES: Final = ("ssl.truststore.", "ssl.keystore.")
_PEM: Final = "PEM"
_PKCS12: Final = "PKCS12"
#: The properties for TLS versions, and the versions that both clients support by default.
_VERSIONS: Final = ("ssl.protocol", "ssl.enabled.protocols")
_SPOKEN: Final = frozenset({"TLS", "TLSv1.2", "TLSv1.3"})
_VERIFY: Final = "ssl.endpoint.identification.algorithm"

_BLOCK: Final = re.compile(r"-+BEGIN\s+([A-Z0-9 ]+?)\s*-+\s+([A-Za-z0-9+/=\s]+)\s*-+END\s+\1\s*-+")
_PEM_WIDTH: Final = 64


def way_in(properties: Mapping[str, str]) -> str:
    """Return the protocol and mechanism of a client, for messages; empty for plaintext connections.

    >>> way_in({"security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-512"})
    'SASL_SSL with SCRAM-SHA-512'
    """
    protocol = properties.get(_PROTOCOL, "PLAINTEXT").upper()
    if protocol.startswith("SASL"):
        return f"{protocol} with {_mechanism(properties)}"
    return "" if protocol == "PLAINTEXT" else protocol


def check_for_java(properties: Mapping[str, str]) -> None:
    """Raise :class:`ConfigurationError` for properties that the Java client would ignore or only reject at run time."""
    for name in properties:
        if name in _FOR_JAVA:
            raise ConfigurationError(
                f"{name} is a property of librdkafka, which sinks use. Sources use Kafka's Java client, which has "
                f"{_FOR_JAVA[name]}; a sink accepts the Java client's properties too"
            )
    _check_login(properties)


def for_library(properties: Mapping[str, str]) -> dict[str, str]:
    """Translate the security properties to librdkafka's names; other properties are returned unchanged.

    Raises :class:`ConfigurationError` for properties that it does not support, and for files that do not exist on this
    machine.

    >>> for_library({"ssl.truststore.type": "PEM", "ssl.truststore.certificates": "...", "acks": "all"})
    {'acks': 'all', 'ssl.ca.pem': '...'}
    """
    _check_login(properties)
    settings = {name: value for name, value in properties.items() if not _is_of_java(name)}
    _check_mechanism(properties)
    _check_versions(properties)
    if _VERIFY in properties:
        settings[_VERIFY] = properties[_VERIFY].lower() or "none"  # the Java client uses an empty value for none
    if _OWN_MECHANISM in properties:
        settings.pop(_MECHANISM, None)
    if properties.keys() & {*_OWN_LOGIN, *_OWN_OAUTH}:
        settings = {name: value for name, value in settings.items() if not name.startswith(_LOGIN_OF_JAVA)}
    else:
        settings |= _login(properties)
    if not properties.keys() & {*_OWN_TRUST}:
        settings |= _trust(properties)
    if not properties.keys() & {*_OWN_IDENTITY}:
        settings |= _identity(properties)
    return settings


def _is_of_java(name: str) -> bool:
    return name == JAAS or name in _VERSIONS or name.startswith(_STORES)


# --------------------------------------------------------------------------------------------------------------- logins


def _mechanism(properties: Mapping[str, str]) -> str:
    return properties.get(_OWN_MECHANISM) or properties.get(_MECHANISM) or "GSSAPI"  # both clients' default


def _check_login(properties: Mapping[str, str]) -> None:
    if JAAS not in properties:
        return
    login = read_login(properties[JAAS])
    secured = properties.get(_PROTOCOL, "").upper().startswith("SASL")
    if secured and _mechanism(properties) == "GSSAPI" and login.module != _KERBEROS:
        raise ConfigurationError(
            f"{JAAS} contains a {login.module}, but the mechanism is GSSAPI (Kerberos), the default if {_MECHANISM} is "
            f"not set: set {_MECHANISM} to PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or another mechanism of the brokers"
        )


def _check_mechanism(properties: Mapping[str, str]) -> None:
    if _mechanism(properties).upper() not in _MECHANISMS_OF_LIBRARY:
        raise ConfigurationError(
            f"{_MECHANISM} {_mechanism(properties)} is supported by Kafka's Java client only. Sinks use librdkafka, "
            f"which supports {', '.join(_MECHANISMS_OF_LIBRARY)}: use one of them for the sink, with a listener that "
            "supports it"
        )


def _login(properties: Mapping[str, str]) -> dict[str, str]:
    if JAAS not in properties:
        return {}
    login = read_login(properties[JAAS])
    if login.module not in _LOGINS_BY_PASSWORD or login.options.get("tokenauth", "false").lower() == "true":
        raise ConfigurationError(
            f"{JAAS} contains a {login.module}, but sinks, which use librdkafka, only support user names with "
            f"passwords ({' and '.join(_LOGINS_BY_PASSWORD)}, without tokenauth). For other kinds of login, also set "
            f"librdkafka's own properties on the sink: {', '.join(_OWN_LOGIN[2:])} for Kerberos, "
            f"{', '.join(_OWN_OAUTH)} and related properties for OAuth"
        )
    missing = [name for name in ("username", "password") if name not in login.options]
    if missing:
        raise ConfigurationError(f"{JAAS} has no {missing[0]}")
    return {f"sasl.{name}": login.options[name] for name in ("username", "password")}


# ------------------------------------------------------------------------------------------------------------------ TLS


def _trust(properties: Mapping[str, str]) -> dict[str, str]:
    location, certificates = (properties.get(f"ssl.truststore.{name}") for name in ("location", "certificates"))
    if not location and not certificates:
        return {}
    kind = _type_of("truststore", properties)
    if kind != _PEM:
        raise ConfigurationError(
            f"ssl.truststore.type is {kind}{_not_set('truststore', properties)}, but sinks, which use librdkafka, "
            "read PEM only. Convert the certificates to PEM (keytool -list -rfc -keystore <store> > ca.pem) and set "
            "ssl.truststore.type to PEM, which sources read as well; or also set ssl.ca.location on the sink"
        )
    if location and certificates:
        raise ConfigurationError("only one can be set of ssl.truststore.location and ssl.truststore.certificates")
    if location:
        return {"ssl.ca.location": _file("ssl.truststore.location", location)}
    return {"ssl.ca.pem": _in_lines(certificates or "")}


def _identity(properties: Mapping[str, str]) -> dict[str, str]:
    names = ("location", "key", "certificate.chain")
    location, key, chain = (properties.get(f"ssl.keystore.{name}") for name in names)
    if not location and not key and not chain:
        return {}
    kind = _type_of("keystore", properties)
    if kind == _PKCS12 and location:
        password = properties.get("ssl.keystore.password")
        store = {"ssl.keystore.location": _file("ssl.keystore.location", location)}
        return store if password is None else store | {"ssl.keystore.password": password}
    if kind != _PEM:
        raise ConfigurationError(
            f"ssl.keystore.type is {kind}{_not_set('keystore', properties)}, but sinks, which use librdkafka, read "
            "PEM and PKCS12 only. Convert the store (keytool -importkeystore -srckeystore <store> -destkeystore "
            "client.p12 -deststoretype PKCS12) and set ssl.keystore.type to PKCS12, which sources read as well; or "
            f"also set {_OWN_IDENTITY[0]} and {_OWN_IDENTITY[2]} on the sink"
        )
    if location and (key or chain):
        raise ConfigurationError("only one can be set of ssl.keystore.location and ssl.keystore.key")
    if location:
        file = _file("ssl.keystore.location", location)
        return {"ssl.key.location": file, "ssl.certificate.location": file}
    if not key or not chain:
        raise ConfigurationError("ssl.keystore.key and ssl.keystore.certificate.chain must both be set: one is missing")
    return {"ssl.key.pem": _in_lines(key), "ssl.certificate.pem": _in_lines(chain)}


def _type_of(store: str, properties: Mapping[str, str]) -> str:
    return properties.get(f"ssl.{store}.type", "JKS").upper()  # the default of the Java client


def _not_set(store: str, properties: Mapping[str, str]) -> str:
    return "" if f"ssl.{store}.type" in properties else " (the default)"


def _file(name: str, location: str) -> str:
    if "-BEGIN " in location:  # the message must not contain it
        raise ConfigurationError(
            f"{name} contains a certificate or key instead of the name of a file. Set the text of certificates and "
            "keys as ssl.truststore.certificates, or as ssl.keystore.key and ssl.keystore.certificate.chain"
        )
    if not Path(location).is_file():
        raise ConfigurationError(
            f"{name} is {location}, but this file does not exist here: it must exist on the machine of the driver, "
            "and on those of all workers"
        )
    return location


def _in_lines(pem: str) -> str:
    """Format PEM for OpenSSL. The Java client accepts any white space as a line end, so PEM can be a single line."""
    blocks = [
        "\n".join(
            [f"-----BEGIN {label}-----", *textwrap.wrap("".join(data.split()), _PEM_WIDTH), f"-----END {label}-----"]
        )
        for label, data in _BLOCK.findall(pem)
    ]
    return "\n".join(blocks) + "\n" if blocks else pem


def _check_versions(properties: Mapping[str, str]) -> None:
    for name in _VERSIONS:
        asked = {version.strip() for version in properties.get(name, "TLSv1.2,TLSv1.3").split(",")}
        if not asked <= _SPOKEN or (name == _VERSIONS[1] and "TLSv1.2" not in asked):
            raise ConfigurationError(
                f"{name} is {properties[name]!r}, but sinks, which use librdkafka, do not support this setting: they "
                "use TLSv1.3, or TLSv1.2 with brokers that do not support a newer version. Restrict the versions in "
                "the brokers (their ssl.enabled.protocols), and set it for the source only"
            )
