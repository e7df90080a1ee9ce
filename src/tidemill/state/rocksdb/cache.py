"""A cache of the most recently read or written values, as Python objects."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Any

from tidemill.state.codecs.copies import ATOMIC


class Encoded:
    """A mutable value, which is kept as bytes so that every reader gets its own object."""

    __slots__ = ("data",)

    def __init__(self, data: bytes) -> None:
        self.data = data


def kept(value: Any, data: bytes) -> Any:
    """The form in which a cache keeps a value; ``data`` are its bytes."""
    return value if type(value) in ATOMIC else Encoded(data)


class ValueCache:
    """At most about ``limit`` values, in two generations: values not used for a whole generation are evicted.

    Absence is cached as MISSING. If a name is not in ``hot``, callers use :meth:`find`.
    """

    __slots__ = ("_cold", "_half", "hot")

    def __init__(self, limit: int) -> None:
        self._half = (limit + 1) // 2
        self.hot: dict[Any, Any] = {}
        self._cold: dict[Any, Any] = {}

    def __len__(self) -> int:
        return len(self.hot) + len(self._cold)

    def find(self, name: Any, default: Any) -> Any:
        """A value of the previous generation, which becomes hot again."""
        value = self._cold.get(name, default)
        if value is not default:
            self.put(name, value)
        return value

    def put(self, name: Any, value: Any) -> None:
        """Keep a value."""
        if self._half:
            self.hot[name] = value
            if len(self.hot) > self._half:
                self._cold, self.hot = self.hot, {}

    def put_all(self, values: dict[Any, Any]) -> None:
        """Keep values that are used immediately: they may exceed the limit until the next call."""
        if len(self.hot) + len(values) > self._half:
            self._cold, self.hot = (self.hot if self._half else {}), values
        else:
            self.hot.update(values)

    def update(self, values: dict[Any, Any]) -> None:
        """Replace the values under these names."""
        if len(values) > self._half:
            # Keep the last ones, as good a choice as any; no older value may be found.
            self.hot = {}
            self._cold = dict(islice(values.items(), len(values) - self._half, None))
        else:
            self.hot.update(values)
            if len(self.hot) > self._half:
                self._cold, self.hot = self.hot, {}

    def forget(self, gone: Callable[[Any], bool]) -> None:
        """Remove the values whose names match ``gone``."""
        self.hot = {name: value for name, value in self.hot.items() if not gone(name)}
        self._cold = {name: value for name, value in self._cold.items() if not gone(name)}


__all__ = ["Encoded", "ValueCache", "kept"]
