"""How secrets are called: the one list for configuration keys, logs, messages and REST."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["NAMES_OF_SECRETS", "is_secret_name", "looks_secret"]

#: What the name of a secret has in it, as a regular expression to be read without regard to case: all that Flink takes
#: for sensitive, and some more. Not every "key": in a stream that is what records are grouped by.
NAMES_OF_SECRETS: Final = (
    r"secret|passw(?:or)?d|passphrase|token|credential|(?:api|access|account|private)[._-]?key"
    r"|auth[._-]params|basic[._-]auth|http[._-]headers|jaas"
)
_NAMED: Final = re.compile(NAMES_OF_SECRETS, re.IGNORECASE)
_KEY_OF_A_SETTING: Final = re.compile(rf"{NAMES_OF_SECRETS}|key", re.IGNORECASE)


def is_secret_name(name: str) -> bool:
    """Whether what has this name, in a text or a record, must not be shown.

    >>> [is_secret_name(name) for name in ("db.password", "s3.access-key", "key")]
    [True, True, False]
    """
    return bool(_NAMED.search(name))


def looks_secret(key: str) -> bool:
    """Whether a configuration key that is not registered sounds as if its value must not be shown.

    Here a "key" opens something, as it does for Flink.

    >>> [looks_secret(key) for key in ("user.password", "spark.ssl.key", "user.name")]
    [True, True, False]
    """
    return bool(_KEY_OF_A_SETTING.search(key))
