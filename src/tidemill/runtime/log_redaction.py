"""Secrets do not get into logs: what is said to be one, by its name, is masked."""

from __future__ import annotations

import re
from typing import Any, Final

from tidemill.config import REDACTED

__all__ = ["is_secret_name", "redacted", "redacted_value"]

#: Names of secrets. Not every "key": in a stream that is what records are grouped by.
_NAMES: Final = r"secret|passw(?:or)?d|token|credential|api[._-]?key|access[._-]?key|private[._-]?key|jaas"
_SECRET: Final = re.compile(_NAMES, re.IGNORECASE)
#: A name with its value: ``password=x``, ``"sasl.password": "x"``, ``token => b'x'``, ``--token x``. A name is looked
#: at once, from its beginning to its end: anything else takes the square of the time for a long one. Quotes may be
#: escaped (JSON in a string of JSON), and the last one may be missing: records are shown cut off.
_PAIR: Final = re.compile(
    rf"""
    (?P<name>
        (?<![\w.-]) (?=[\w.-]*?(?:{_NAMES})) (?P<option>--)? [\w.-]++
        \\*["']? (?: \s*(?:=>|[:=])\s* | \s+(?=[br]?["']) | (?(option)\s+(?!-)|(?!)) )
    )
    [br]{{0,2}}
    (?: \\+"[^"]*+(?:"|\Z) | \\+'[^']*+(?:'|\Z)
      | "(?:[^"\\]|\\.?)*+(?:"|\Z) | '(?:[^'\\]|\\.?)*+(?:'|\Z) | [^\s,;&)}}\]"']+ )
    """,
    re.IGNORECASE | re.VERBOSE | re.DOTALL,
)
#: The password of an address: ``scheme://user:password@host``.
_ADDRESS: Final = re.compile(r"(?P<before>\w://[^\s/:@]*:)[^\s/@]+(?=@)")
_BEARER: Final = re.compile(r"(?P<before>\b(?:bearer|basic)\s+)[\w.~+/=-]{6,}", re.IGNORECASE)


def is_secret_name(name: str) -> bool:
    """Whether what has this name must not be shown.

    >>> [is_secret_name(name) for name in ("db.password", "s3.access-key", "key")]
    [True, True, False]
    """
    return bool(_SECRET.search(name))


def redacted(text: str) -> str:
    """A text without secrets.

    >>> redacted("connecting to postgres://me:hunter2@db with sasl.password='x y', key=17")
    'connecting to postgres://me:******@db with sasl.password=******, key=17'
    """
    text = _ADDRESS.sub(rf"\g<before>{REDACTED}", text)
    text = _BEARER.sub(rf"\g<before>{REDACTED}", text)
    return _PAIR.sub(rf"\g<name>{REDACTED}", text)


def redacted_value(name: str, value: Any) -> Any:
    """The value of a field, masked if its name is that of a secret; also inside of mappings and lists."""
    if is_secret_name(name):
        return REDACTED
    if isinstance(value, dict):
        return {str(key): redacted_value(str(key), inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [redacted_value("", inner) for inner in value]
    if value is None or isinstance(value, (bool, int, float)):
        return value
    return redacted(str(value))
