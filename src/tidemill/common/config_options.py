"""Builder for user-defined configuration options."""

from __future__ import annotations

from typing import Generic, TypeVar

from tidemill.config import ConfigOption
from tidemill.config.secret_names import looks_secret
from tidemill.config.values import Bool, Float, Int, Text, ValueType

__all__ = ["ConfigOption", "ConfigOptions"]

T = TypeVar("T")


class ConfigOptions:
    """Builds a :class:`ConfigOption`.

    >>> tmp = ConfigOptions.key("tmp.dir").string_type().default_value("/tmp")
    >>> tmp.key, tmp.default
    ('tmp.dir', '/tmp')
    >>> ConfigOptions.key("user.name").string_type().no_default_value().default is None
    True
    """

    @staticmethod
    def key(key: str) -> ConfigOptions.OptionBuilder:
        """Starts an option with this key."""
        return ConfigOptions.OptionBuilder(key)

    class OptionBuilder:
        """Has a key; its methods set the type."""

        def __init__(self, key: str) -> None:
            self._key = key

        def boolean_type(self) -> ConfigOptions.TypedConfigOptionBuilder[bool]:
            return ConfigOptions.TypedConfigOptionBuilder(self._key, Bool())

        def int_type(self) -> ConfigOptions.TypedConfigOptionBuilder[int]:
            return ConfigOptions.TypedConfigOptionBuilder(self._key, Int(-(1 << 31), (1 << 31) - 1))

        def long_type(self) -> ConfigOptions.TypedConfigOptionBuilder[int]:
            return ConfigOptions.TypedConfigOptionBuilder(self._key, Int(-(1 << 63), (1 << 63) - 1))

        def float_type(self) -> ConfigOptions.TypedConfigOptionBuilder[float]:
            return ConfigOptions.TypedConfigOptionBuilder(self._key, Float())

        def double_type(self) -> ConfigOptions.TypedConfigOptionBuilder[float]:
            return ConfigOptions.TypedConfigOptionBuilder(self._key, Float())

        def string_type(self) -> ConfigOptions.TypedConfigOptionBuilder[str]:
            return ConfigOptions.TypedConfigOptionBuilder(self._key, Text())

    class TypedConfigOptionBuilder(Generic[T]):
        """Has a key and a type; its methods set the default and build the option."""

        def __init__(self, key: str, value_type: ValueType[T]) -> None:
            self._key = key
            self._type = value_type

        def default_value(self, value: T) -> ConfigOption[T]:
            return ConfigOption(self._key, self._type, self._type.parse(value), secret=looks_secret(self._key))

        def no_default_value(self) -> ConfigOption[T | None]:
            return ConfigOption(self._key, self._type, None, secret=looks_secret(self._key))
