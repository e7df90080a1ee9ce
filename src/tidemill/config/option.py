"""Configuration options and the registry of all options."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, overload

from tidemill.config.redaction import REDACTED, redacted
from tidemill.config.secret_names import looks_secret
from tidemill.config.values import MapValue, ValueType
from tidemill.errors import ConfigurationError

T = TypeVar("T")
V = TypeVar("V")

#: How similar a known key must be to be suggested for an unknown one: a wrong letter or word in a key of three or more.
_SIMILAR = 0.75


@dataclass(frozen=True, eq=False)
class ConfigOption(Generic[T]):
    """One configuration parameter: its key, value type, default and description.

    Two options are equal if their keys are equal. ``accepted_only`` marks an option of Flink that Tidemill accepts but
    ignores, so that existing configurations load.

    >>> from tidemill.config.values import Int
    >>> retries = option("user.retries", Int(least=0), 3, description="How often to try again.")
    >>> retries.parse("5"), retries.default
    (5, 3)
    """

    key: str
    value_type: ValueType[Any]
    default: T
    description: str = ""
    deprecated_keys: tuple[str, ...] = ()
    secret: bool = False
    accepted_only: bool = False

    def parse(self, raw: object) -> T:
        """Parses ``raw``. Raises :class:`ConfigurationError`, which describes valid values, if it is invalid."""
        try:
            value: T = self.value_type.parse(raw)
        except ValueError:
            shown = REDACTED if self.secret else redacted(repr(raw))
            raise ConfigurationError(
                f"Invalid value {shown} for configuration key '{self.key}': it must be {self.value_type.expects}."
            ) from None
        return value

    def format(self, value: T) -> str:
        """Formats ``value`` as text, which :meth:`parse` parses to an equal value."""
        return self.value_type.format(value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ConfigOption) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)


@overload
def option(
    key: str,
    value_type: ValueType[V],
    default: V,
    description: str = ...,
    *,
    deprecated: Iterable[str] = ...,
    accepted_only: bool = ...,
) -> ConfigOption[V]: ...
@overload
def option(
    key: str,
    value_type: ValueType[V],
    default: None = None,
    description: str = ...,
    *,
    deprecated: Iterable[str] = ...,
    accepted_only: bool = ...,
) -> ConfigOption[V | None]: ...
def option(
    key: str,
    value_type: ValueType[Any],
    default: Any = None,
    description: str = "",
    *,
    deprecated: Iterable[str] = (),
    accepted_only: bool = False,
) -> ConfigOption[Any]:
    """Create a :class:`ConfigOption`. Without a default, its value may be ``None``."""
    return ConfigOption(key, value_type, default, description, tuple(deprecated), accepted_only=accepted_only)


@dataclass(frozen=True)
class KeyFamily:
    """All keys that begin with ``prefix``. Their values may be any text."""

    prefix: str
    description: str


class Registry:
    """All known options and key families. Keys are resolved only here.

    ``unused`` returns the keys that have no meaning here, but are known: those of Flink.
    """

    def __init__(
        self,
        options: Iterable[ConfigOption[Any]],
        families: Iterable[KeyFamily],
        unused: Callable[[], Collection[str]] = tuple,
    ) -> None:
        self.options: tuple[ConfigOption[Any], ...] = tuple(options)
        self.families: tuple[KeyFamily, ...] = tuple(families)
        self._unused = unused
        self._by_key: dict[str, ConfigOption[Any]] = {}
        for known in self.options:
            for key in (known.key, *known.deprecated_keys):
                if key in self._by_key:
                    raise ValueError(f"configuration key '{key}' is registered twice")
                self._by_key[key] = known

    def find(self, key: str) -> ConfigOption[Any] | None:
        """The option with this key or deprecated key, or None."""
        return self._by_key.get(key)

    def canonical(self, key: str) -> str:
        """The current key for ``key``: for a deprecated key, the key that replaced it."""
        known = self._by_key.get(key)
        return key if known is None else known.key

    def is_known(self, key: str) -> bool:
        """Whether ``key`` names an option, belongs to a family, or is a key of Flink."""
        return (
            key in self._by_key
            or any(key.startswith(family.prefix) for family in self.families)
            or key in self._unused()
        )

    def unknown(self, key: str) -> str:
        """The message about an unknown key. It suggests the most similar known key."""
        near = self.nearest(key)
        hint = f" Did you mean '{near}'?" if near else ""
        return (
            f"Unknown configuration key '{key}'.{hint} Begin keys of your own with 'user.', and Spark's with 'spark.'."
        )

    def nearest(self, key: str) -> str | None:
        """The known key that is most similar to ``key``, or None."""
        spelled = re.sub(r"(?<=[a-z])(?=[A-Z])", "-", key).replace("_", "-").lower()
        if spelled in self._by_key:
            return spelled
        endings = [known for known in self._by_key if known.endswith(f".{spelled}")]
        if len(endings) == 1:
            return endings[0]
        found = difflib.get_close_matches(spelled, {*self._by_key, *self._unused()}, n=1, cutoff=_SIMILAR)
        return found[0] if found else None

    def looks_secret(self, key: str) -> bool:
        """Whether the value of ``key`` must not be shown."""
        known = self._by_key.get(key)
        return known.secret if known is not None else looks_secret(key)

    def shown(self, key: str, text: str) -> str:
        """``text`` for display in a log or an error, with secrets masked, including secrets inside maps and text."""
        if self.looks_secret(key):
            return REDACTED
        known = self._by_key.get(key)
        if known is not None and isinstance(known.value_type, MapValue):
            entries = known.parse(text)
            return json.dumps({name: REDACTED if looks_secret(name) else redacted(entries[name]) for name in entries})
        return redacted(text)
