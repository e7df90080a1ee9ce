"""Secrets do not get into logs: what is said to be one, by its name, is masked."""

from __future__ import annotations

import re
from typing import Any, Final

from tidemill.config import REDACTED
from tidemill.config.secret_names import NAMES_OF_SECRETS, is_secret_name

__all__ = ["redacted", "redacted_value"]

#: A name with its value: ``password=x``, ``"sasl.password": "x"``, ``token => b'x'``, ``--token x``. A name is looked
#: at once, from its beginning to its end: anything else takes the square of the time for a long one. Quotes may be
#: escaped (JSON in a string of JSON), and the last one may be missing: records are shown cut off.
_PAIR: Final = re.compile(
    rf"""
    (?P<name>
        (?<![\w.-]) (?=[\w.-]*?(?:{NAMES_OF_SECRETS})) (?P<option>--)? [\w.-]++
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
