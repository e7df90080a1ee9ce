"""Properties of Kafka clients: which of them are secret, and how to mask their values in text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from tidemill.config.secret_names import NAMES_OF_SECRETS
from tidemill.connectors.kafka.jaas import JAAS, read_login
from tidemill.errors import ConfigurationError

__all__ = ["HIDDEN", "SECRET_NAMES", "hide_secrets", "is_secret", "masked"]

HIDDEN: Final = "******"

#: A pattern in the names of secret properties: :data:`NAMES_OF_SECRETS`, and names of keys.
SECRET_NAMES: Final = rf"{NAMES_OF_SECRETS}|private|\.key$|\.key\.pem$"
_SECRET: Final = re.compile(SECRET_NAMES, re.IGNORECASE)
#: A value with this text is secret under any name: it is a key, given instead of the name of its file.
_PRIVATE_KEY: Final = "PRIVATE KEY"
#: Login options that are not secret.
_NO_SECRETS: Final = frozenset({"username", "principal", "keytab", "servicename", "clientid", "scope"})
_FLAGS: Final = ("true", "false")
#: Longer values are certificates, and are not displayed.
_LONGEST: Final = 200
#: Shorter values are not masked: that would make messages unreadable, and protect nothing.
_SHORTEST: Final = 3


def is_secret(name: str) -> bool:
    """Whether the value of a property must not be displayed.

    >>> is_secret("sasl.jaas.config"), is_secret("ssl.key.password"), is_secret("group.id")
    (True, True, False)
    """
    return _SECRET.search(name) is not None


def masked(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the properties for display, with secrets masked.

    >>> masked({"group.id": "shop", "sasl.password": "sesame"})
    {'group.id': 'shop', 'sasl.password': '******'}
    """
    return {name: HIDDEN if _holds_secret(name, value) else _short(value) for name, value in properties.items()}


def _holds_secret(name: str, value: str) -> bool:
    return is_secret(name) or _PRIVATE_KEY in value


def _short(value: str) -> str:
    return value if len(value) <= _LONGEST else f"({len(value):,} characters)"


def hide_secrets(text: str, properties: Mapping[str, str]) -> str:
    """Mask the secrets among these properties in a text of another component, such as an error of a client.

    >>> hide_secrets("invalid value sesame", {"sasl.password": "sesame"})
    'invalid value ******'
    """
    for secret in sorted(_secrets(properties), key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    return text


def _secrets(properties: Mapping[str, str]) -> Iterator[str]:
    for name, value in properties.items():
        if _holds_secret(name, value):
            yield from (secret for secret in (value, *_inside(name, value)) if len(secret) >= _SHORTEST)


def _inside(name: str, value: str) -> Iterator[str]:
    """Yield the secrets that are contained in a secret value."""
    if name == JAAS:
        try:
            options = read_login(value).options
        except ConfigurationError:
            return  # an invalid value is never passed to a client
        yield from (
            text for option, text in options.items() if option.lower() not in _NO_SECRETS and text not in _FLAGS
        )
