"""Masks secrets in logs, messages and REST responses. A secret is recognized by its name."""

from __future__ import annotations

import re
from typing import Any, Final

from tidemill.config.secret_names import NAMES_OF_SECRETS, is_secret_name

__all__ = ["REDACTED", "redacted", "redacted_value"]

#: Replaces a secret.
REDACTED: Final = "******"

#: A name with its value: ``password=x``, ``"sasl.password": "x"``, ``token => b'x'``, ``--token x``. A name is matched
#: only once, from its beginning to its end: otherwise matching would take quadratic time for a long name. Quotes may
#: be escaped (JSON in a JSON string), and the last one may be missing, because records are shown truncated. What
#: follows a name or a string cannot be a part of it, so that no pattern is tried again with a shorter one.
_NAME: Final = rf"""
    (?P<name>
        (?<![\w.-]) (?=[\w.-]*?(?:{NAMES_OF_SECRETS})) (?P<option>--)? [\w.-]+
        \\*["']? (?: \s*(?:=>|[:=])\s* | \s+(?=[br]?["']) | (?(option)\s+(?!-)|(?!)) )
    )
    """
_PAIR: Final = re.compile(
    rf"""
    {_NAME} [br]{{0,2}}
    (?: \\+"[^"]*(?:"|\Z) | \\+'[^']*(?:'|\Z)
      | "(?:[^"\\]|\\.?)*(?:"|\Z) | '(?:[^'\\]|\\.?)*(?:'|\Z) | [^\s,;&)}}\]"']+ )
    """,
    re.IGNORECASE | re.VERBOSE | re.DOTALL,
)
#: A name whose value is in brackets, up to the first bracket: ``credentials: {``, ``passwords = [``, ``token=Secret(``.
_NESTED: Final = re.compile(rf"{_NAME} [\w.]* [(\[{{]", re.IGNORECASE | re.VERBOSE)
#: The relevant tokens inside brackets: other brackets, and strings, which may contain brackets and be unterminated.
_BRACKETS: Final = re.compile(
    r"""(?P<open>[(\[{])|(?P<close>[)\]}])|\\+"[^"]*(?:"|\Z)|\\+'[^']*(?:'|\Z)|"(?:[^"\\]|\\.?)*(?:"|\Z)|'(?:[^'\\]|\\.?)*(?:'|\Z)""",
    re.DOTALL,
)
#: The password in an address: ``scheme://user:password@host``.
_ADDRESS: Final = re.compile(r"(?P<before>\w://[^\s/:@]*:)[^\s/@]+(?=@)")
_BEARER: Final = re.compile(r"(?P<before>\b(?:bearer|basic)\s+)[\w.~+/=-]{6,}", re.IGNORECASE)


def redacted(text: str) -> str:
    """Mask the secrets in a text.

    >>> redacted("connecting to postgres://me:hunter2@db with sasl.password='x y', key=17")
    'connecting to postgres://me:******@db with sasl.password=******, key=17'
    """
    text = _ADDRESS.sub(rf"\g<before>{REDACTED}", text)
    text = _BEARER.sub(rf"\g<before>{REDACTED}", text)
    text = _without_nested(text)
    return _PAIR.sub(rf"\g<name>{REDACTED}", text)


def _without_nested(text: str) -> str:
    """Mask whole lists, maps and calls that are the value of a secret, including everything nested in them."""
    parts, done = [], 0
    while (found := _NESTED.search(text, done)) is not None:
        parts += [text[done : found.end("name")], REDACTED]
        done = _end_of_brackets(text, found.end())
    return "".join([*parts, text[done:]])


def _end_of_brackets(text: str, start: int) -> int:
    """The position where the bracket before ``start`` is closed, or the end of the text if it is truncated."""
    depth = 1
    for found in _BRACKETS.finditer(text, start):
        depth += bool(found["open"]) - bool(found["close"])
        if depth == 0:
            return found.end()
    return len(text)


def redacted_value(name: str, value: Any) -> Any:
    """Mask the value of a field if its name is that of a secret, including inside mappings and lists."""
    if is_secret_name(name):
        return REDACTED
    if isinstance(value, dict):
        return {str(key): redacted_value(str(key), inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        if len(value) == 2 and isinstance(value[0], str) and is_secret_name(value[0]):  # an entry of a mapping
            return [value[0], REDACTED]
        return [redacted_value("", inner) for inner in value]
    if value is None or isinstance(value, (bool, int, float)):
        return value
    return redacted(str(value))
