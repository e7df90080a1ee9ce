"""Names of secrets: a single list for configuration keys, logs, messages and REST."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["NAMES_OF_SECRETS", "is_secret_name", "looks_secret"]

#: Case-insensitive regular expression for parts of secret names: everything that Flink considers sensitive, and more.
#: It does not include "key" alone, which in a stream is the value that records are grouped by.
NAMES_OF_SECRETS: Final = (
    r"secret|passw(?:or)?d|passphrase|token|credential|(?:api|access|account|private)[._-]?key"
    r"|auth[._-]params|basic[._-]auth|http[._-]headers|jaas"
)
_NAMED: Final = re.compile(NAMES_OF_SECRETS, re.IGNORECASE)
_KEY_OF_A_SETTING: Final = re.compile(rf"{NAMES_OF_SECRETS}|key", re.IGNORECASE)


def is_secret_name(name: str) -> bool:
    """Whether the value of a field with this name, in a text or a record, must be masked.

    >>> [is_secret_name(name) for name in ("db.password", "s3.access-key", "key")]
    [True, True, False]
    """
    return bool(_NAMED.search(name))


def looks_secret(key: str) -> bool:
    """Whether the value of an unregistered configuration key must be masked, judging by the key's name.

    As in Flink, "key" in the name of a setting is considered a secret.

    >>> [looks_secret(key) for key in ("user.password", "spark.ssl.key", "user.name")]
    [True, True, False]
    """
    return bool(_KEY_OF_A_SETTING.search(key))
