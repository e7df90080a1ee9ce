"""The ways into the broker of the tests, as programs write them: Java's properties, for sources and sinks alike."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.certificates import Authority, Identity
from tests.kafka_broker import PASSWORD, USER, KafkaBroker

WRONG: Final = "not the password"

#: How one gets in, by name: how the listener is secured, and by what mechanism or in which form.
WAYS: Final = (
    "SASL_PLAINTEXT PLAIN",
    "SASL_PLAINTEXT SCRAM-SHA-512",
    "SSL texts",
    "SSL files",
    "SSL PKCS12",
    "SASL_SSL SCRAM-SHA-512",
)
_MODULES: Final = "org.apache.kafka.common.security"
_LOGINS: Final = {"PLAIN": "plain.PlainLoginModule", "SCRAM-SHA-512": "scram.ScramLoginModule"}


@dataclass(frozen=True)
class WayIn:
    """An address, and what a client must say there."""

    address: str
    properties: dict[str, str]


def way_into(broker: KafkaBroker, name: str, folder: Path, password: str = PASSWORD) -> WayIn:
    """One of the ways; ``folder`` is where files of it are kept."""
    protocol, _, form = name.partition(" ")
    addresses = {
        "SASL_PLAINTEXT": broker.login_address,
        "SSL": broker.tls_address,
        "SASL_SSL": broker.tls_login_address,
    }
    properties = {"security.protocol": protocol}
    if "SASL" in protocol:
        properties |= login(form, password)
    if "SSL" in protocol:
        properties |= trusting(broker.authority)
    if protocol == "SSL":
        # Signed by an authority that the broker knows only by the root that vouches for it.
        client = Authority("another authority of the tests", vouching=broker.authority).issue("client")
        properties |= identity(client, form, folder)
    return WayIn(addresses[protocol], properties)


def login(mechanism: str, password: str = PASSWORD) -> dict[str, str]:
    """What says who one is."""
    module = f"{_MODULES}.{_LOGINS[mechanism]}"
    return {
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": f'{module} required username="{USER}" password="{password}";',
    }


def trusting(authority: Authority) -> dict[str, str]:
    """What says whom one trusts."""
    return {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": authority.certificate}


def identity(client: Identity, form: str, folder: Path) -> dict[str, str]:
    """What proves who one is."""
    if form == "texts":
        texts = {"ssl.keystore.key": client.key(), "ssl.keystore.certificate.chain": client.certificates}
        return {"ssl.keystore.type": "PEM", **texts}
    store = folder / f"client.{form}"
    if form == "files":
        store.write_text(client.key() + client.certificates)
        return {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(store)}
    store.write_bytes(client.store(PASSWORD))
    return {"ssl.keystore.type": form, "ssl.keystore.location": str(store), "ssl.keystore.password": PASSWORD}
