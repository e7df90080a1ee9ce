"""The configuration of a job: key/value pairs."""

from __future__ import annotations

import base64
import binascii
import builtins
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import yaml

from tidemill.common.time import Duration, Time
from tidemill.common.type_kinds.record_text import double_text
from tidemill.config import REDACTED, REGISTRY, ConfigOption
from tidemill.config.values import Bool, Float, Int, ListValue, MapValue, Text, ValueType
from tidemill.config.yaml_file import read_entries
from tidemill.errors import ConfigurationError

__all__ = ["Configuration"]

T = TypeVar("T")


class Configuration:
    """Key/value pairs. As in Flink, any key can be set.

    The value of a key that has a meaning here (:data:`tidemill.config.REGISTRY`) must be valid for the type of its
    option. Otherwise :class:`ConfigurationError` is raised and nothing changes. Other keys take any value. The
    environment warns of keys that neither Tidemill nor Flink knows, or rejects them if
    ``pipeline.strict-configuration`` is true. A deprecated key is an alias of the current key: a value set under one
    can be read under the other, and :meth:`to_dict` returns the current key. Values are stored as the text they were
    set with. ``str()`` and ``repr()`` mask secrets; :meth:`to_dict` does not.

    >>> conf = Configuration().set_string("execution.checkpointing.interval", "10 s")
    >>> from tidemill.config import CheckpointingOptions
    >>> conf.get(CheckpointingOptions.INTERVAL)
    datetime.timedelta(seconds=10)
    >>> conf.set_string("db.password", "hunter2")
    Configuration({'db.password': '******', 'execution.checkpointing.interval': '10 s'})
    >>> conf.set_string("execution.checkpointing.interval", "soon")
    Traceback (most recent call last):
        ...
    tidemill.errors.ConfigurationError: Invalid value 'soon' for configuration key 'execution.checkpointing.interval': \
it must be a duration of at least 1 ms such as '10 s', '500 ms' or '1 min' (a plain number is milliseconds).
    """

    def __init__(self, other: Configuration | None = None) -> None:
        self._values: dict[str, str] = {} if other is None else dict(other._values)

    # --- constructors

    @classmethod
    def from_dict(cls, map: Mapping[str, Any]) -> Configuration:  # noqa: A002 - PyFlink's name
        """Creates a configuration from a dictionary."""
        configuration = cls()
        for key, value in map.items():
            configuration._set_once(key, value)
        return configuration

    @classmethod
    def load_yaml(cls, path: str | os.PathLike[str]) -> Configuration:
        """Loads a configuration from a YAML file with flat keys, nested keys, or both.

        Raises :class:`ConfigurationError` with file and line for an invalid value or a duplicate key.
        """
        configuration = cls()
        for entry in read_entries(Path(path), REGISTRY):
            try:
                configuration._set_once(entry.key, entry.value)
            except ConfigurationError as error:
                raise ConfigurationError(f"{path}, line {entry.line}: {error}") from None
        return configuration

    # --- typed access

    def get(self, option: ConfigOption[T], default: T | None = None) -> T:
        """The value of ``option`` if it is set, else ``default`` if that is not None, else the option's own default."""
        for key in (option.key, *option.deprecated_keys):
            raw = self._values.get(REGISTRY.canonical(key))
            if raw is not None:
                return option.parse(raw)
        return option.default if default is None else default

    def set(self, option: ConfigOption[T], value: T | str | Duration | Time) -> Configuration:
        """Sets ``option`` to ``value``, which is a value of the option's type or its text.

        Durations may also be a :class:`Duration` or :class:`Time`. User-defined options
        (:class:`~tidemill.common.ConfigOptions`) may have any key.
        """
        parsed = option.parse(value)
        self._values[REGISTRY.canonical(option.key)] = value if isinstance(value, str) else option.format(parsed)
        return self

    def contains(self, option: ConfigOption[Any]) -> bool:
        """Whether ``option`` has been set, under any of its keys."""
        return any(self.contains_key(key) for key in (option.key, *option.deprecated_keys))

    # --- access by key, as in PyFlink

    def get_string(self, key: str, default_value: str) -> str:
        return self._values.get(REGISTRY.canonical(key), default_value)

    def set_string(self, key: str, value: str) -> Configuration:
        return self._put(key, value)

    def get_integer(self, key: str, default_value: int) -> int:
        return self._read(key, Int(), default_value)

    def set_integer(self, key: str, value: int) -> Configuration:
        return self._put(key, value)

    def get_boolean(self, key: str, default_value: bool) -> bool:
        return self._read(key, Bool(), default_value)

    def set_boolean(self, key: str, value: bool) -> Configuration:
        return self._put(key, value)

    def get_float(self, key: str, default_value: float) -> float:
        return self._read(key, Float(), float(default_value))

    def set_float(self, key: str, value: float) -> Configuration:
        """Sets a number, stored as Java writes it: ``1.0E10``."""
        return self._put(key, double_text(float(value)))

    def get_bytearray(self, key: str, default_value: bytearray) -> bytearray:
        text = self._values.get(REGISTRY.canonical(key))
        if text is None:
            return bytearray(default_value)
        try:
            return bytearray(base64.b64decode(text, validate=True))
        except binascii.Error:
            raise ConfigurationError(f"The value of configuration key '{key}' is not a byte array.") from None

    def set_bytearray(self, key: str, value: bytearray) -> Configuration:
        """Sets a value of type bytes, stored as base64 text."""
        return self._put(key, base64.b64encode(bytes(value)).decode("ascii"))

    def key_set(self) -> builtins.set[str]:
        """The keys that are set."""
        return set(self._values)

    def contains_key(self, key: str) -> bool:
        """Whether ``key`` is set."""
        return REGISTRY.canonical(key) in self._values

    def remove_config(self, key: str) -> bool:
        """Removes ``key``. Returns whether it was set."""
        return self._values.pop(REGISTRY.canonical(key), None) is not None

    def add_all(self, other: Configuration, prefix: str | None = None) -> Configuration:
        """Adds all pairs of ``other``, with ``prefix`` prepended to the keys. If a value is invalid, adds nothing."""
        if prefix is None:
            self._values.update(other._values)
            return self
        added = Configuration()
        for key, value in other._values.items():
            added._put(prefix + key, value)
        return self.add_all(added)

    def add_all_to_dict(self, target_dict: dict[str, Any]) -> None:
        """Adds all pairs to ``target_dict``."""
        target_dict.update(self._values)

    def to_dict(self) -> dict[str, str]:
        """All pairs as text, secrets included."""
        return dict(self._values)

    @staticmethod
    def parse_list_value(value: str, standard_yaml: bool = True) -> list[Any]:
        """The items of a list given as text: in YAML, ``[a, b]`` or one in each line, or as ``a;b``.

        ``standard_yaml`` has no effect: both forms are accepted.

        >>> Configuration.parse_list_value("[a, 1]"), Configuration.parse_list_value("a;1")
        (['a', 1], ['a', '1'])
        """
        if not value:
            return []
        try:
            found = yaml.safe_load(value)
        except yaml.YAMLError:
            found = value
        return found if isinstance(found, list) else value.split(";")

    # --- conversion from and to text

    def _put(self, key: str, value: object) -> Configuration:
        known = REGISTRY.find(key)
        if known is None:
            self._values[key] = value if isinstance(value, str) else self._as_text(key, value)
        elif isinstance(value, str):
            if not known.accepted_only:
                known.parse(value)
            self._values[known.key] = value
        else:
            self._values[known.key] = known.format(known.parse(value))
        return self

    def _as_text(self, key: str, value: object) -> str:
        """Formats the value of a key that has no option."""
        for value_type in (Text(), ListValue(), MapValue()):
            try:
                parsed = value_type.parse(value)
            except ValueError:
                continue
            return value_type.format(parsed)
        shown = REDACTED if REGISTRY.looks_secret(key) else repr(value)
        raise ConfigurationError(
            f"Invalid value {shown} for configuration key '{key}': it must be text, a number, a list or a map."
        )

    def _set_once(self, key: str, value: object) -> None:
        current = REGISTRY.canonical(key)
        if current in self._values:
            also = "" if current == key else f" (as '{key}', its deprecated name)"
            raise ConfigurationError(f"Configuration key '{current}' is set twice{also}; set it once.")
        self._put(key, value)

    def _read(self, key: str, value_type: ValueType[T], default: T) -> T:
        raw = self._values.get(REGISTRY.canonical(key))
        if raw is None:
            return default
        try:
            return value_type.parse(raw)
        except ValueError:
            shown = REGISTRY.shown(key, raw)
            raise ConfigurationError(
                f"Configuration key '{key}' is set to '{shown}', not {value_type.expects}."
            ) from None

    def __copy__(self) -> Configuration:
        return Configuration(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> Configuration:
        return Configuration(self)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Configuration) and self._values == other._values

    def __hash__(self) -> int:
        return hash(frozenset(self._values.items()))

    def __repr__(self) -> str:
        return f"Configuration({ {key: REGISTRY.shown(key, text) for key, text in sorted(self._values.items())} })"

    def __str__(self) -> str:
        return str({key: REGISTRY.shown(key, text) for key, text in sorted(self._values.items())})
