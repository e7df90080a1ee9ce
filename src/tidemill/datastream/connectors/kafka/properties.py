"""Properties of Kafka clients: which of them are secret, and how text is cleared of what they hold."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

__all__ = ["HIDDEN", "hide_secrets", "is_secret", "shown"]

HIDDEN: Final = "******"

_SECRET: Final = re.compile(r"(?i)password|secret|jaas|token|credential|private|basic\.auth|\.key$|\.key\.pem$")
#: What stands in quotes in a JAAS configuration: user names and passwords.
_QUOTED: Final = re.compile(r"""(\w*)\s*=\s*("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')""")
#: Shorter values would blot out half of a text, and protect nothing.
_SHORTEST: Final = 3


def is_secret(name: str) -> bool:
    """Whether the value of a property must not be shown.

    >>> is_secret("sasl.jaas.config"), is_secret("ssl.key.password"), is_secret("group.id")
    (True, True, False)
    """
    return _SECRET.search(name) is not None


def shown(properties: Mapping[str, str]) -> dict[str, str]:
    """The properties for people to read.

    >>> shown({"group.id": "shop", "sasl.password": "sesame"})
    {'group.id': 'shop', 'sasl.password': '******'}
    """
    return {name: HIDDEN if is_secret(name) else value for name, value in properties.items()}


def hide_secrets(text: str, properties: Mapping[str, str]) -> str:
    """A text of somebody else's, such as an error of a client, without the secrets among these properties.

    >>> hide_secrets("invalid value sesame", {"sasl.password": "sesame"})
    'invalid value ******'
    """
    for secret in sorted(_secrets(properties), key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    return text


def _secrets(properties: Mapping[str, str]) -> Iterator[str]:
    for name, value in properties.items():
        if is_secret(name):
            inside = [text[1:-1] for key, text in _QUOTED.findall(value) if key.lower() != "username"]
            yield from (secret for secret in (value, *inside) if len(secret) >= _SHORTEST)
