"""Parses ``sasl.jaas.config``, the login configuration of Kafka's Java client."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from tidemill.errors import ConfigurationError

__all__ = ["JAAS", "Login", "read_login"]

#: The name of the property.
JAAS: Final = "sasl.jaas.config"

_SKIPPED: Final = re.compile(r"(?:\s+|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_WORD: Final = re.compile(r"(?:[^\W\d]|\$)[\w.$-]*")
_FLAG: Final = re.compile(r"required|requisite|sufficient|optional", re.IGNORECASE)
_SIGN: Final = re.compile(r"=")
_END: Final = re.compile(r";")
_VALUE: Final = re.compile(
    rf"""(?P<word>{_WORD.pattern})|"(?P<double>(?:[^"\\\n]|\\.)*)"|'(?P<single>(?:[^'\\\n]|\\.)*)'"""
)
_ESCAPED: Final = re.compile(r"\\([0-3][0-7]{2}|[0-7]{1,2}|.)")
_CONTROLS: Final = {"a": "\x07", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


@dataclass(frozen=True)
class Login:
    """A login module, without its package, and its options."""

    module: str
    options: Mapping[str, str] = field(repr=False)


def read_login(text: str) -> Login:
    """Parse the value of the property as Kafka's Java client does.

    Raises :class:`ConfigurationError` for a value that the Java client would reject. Any part of the value may belong
    to a password, so the error only contains the position at which it is invalid.

    >>> login = read_login('org.example.PlainLoginModule required username="ada" password="open \\\\"sesame\\\\"";')
    >>> login.module, login.options["username"], login.options["password"]
    ('PlainLoginModule', 'ada', 'open "sesame"')
    """
    reader = _Reader(text)
    module = reader.next(_WORD).group()
    reader.next(_FLAG)
    options: dict[str, str] = {}
    while reader.take(_END) is None:
        name = reader.next(_WORD).group()
        reader.next(_SIGN)
        options[name] = _plain(reader.next(_VALUE))
    reader.finish()
    return Login(module.rpartition(".")[2], options)


def _plain(value: re.Match[str]) -> str:
    if value["word"] is not None:
        return value["word"]
    return _ESCAPED.sub(_unescaped, value["double"] if value["double"] is not None else value["single"])


def _unescaped(escaped: re.Match[str]) -> str:
    text = escaped[1]
    return chr(int(text, 8)) if text[0] in "01234567" else _CONTROLS.get(text, text)


class _Reader:
    """Reads a text token by token, and keeps track of the position."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._place = 0

    def take(self, kind: re.Pattern[str]) -> re.Match[str] | None:
        """Return the next token if it is of this kind, otherwise None."""
        self._skip()
        found = kind.match(self._text, self._place)
        if found is not None:
            self._place = found.end()
        return found

    def next(self, kind: re.Pattern[str]) -> re.Match[str]:
        """Return the next token, which must be of this kind."""
        found = self.take(kind)
        if found is None:
            raise self._unreadable()
        return found

    def finish(self) -> None:
        """Raise an error if there are more tokens."""
        self._skip()
        if self._place < len(self._text):
            raise self._unreadable()

    def _skip(self) -> None:
        skipped = _SKIPPED.match(self._text, self._place)
        self._place = self._place if skipped is None else skipped.end()

    def _unreadable(self) -> ConfigurationError:
        return ConfigurationError(
            f"{JAAS} cannot be read from character {self._place + 1} of {len(self._text)} on. Its format is "
            'org.apache.kafka.common.security.plain.PlainLoginModule required username="..." password="..."; with a '
            "semicolon at the end, and a \\ before quotes within quotes"
        )
