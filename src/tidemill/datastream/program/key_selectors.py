"""Key selectors: the arguments of ``key_by`` as objects that can extract the keys of a whole batch.

The runtime calls ``selector(value)`` for one key and, if the selector has this method, ``selector.bulk(values)`` for a
batch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tidemill.datastream.functions.base import RuntimeContext
from tidemill.datastream.functions.basic import KeySelector, Partitioner
from tidemill.datastream.functions.field_access import column, get_field
from tidemill.errors import InvalidKeyError


@dataclass(frozen=True)
class PositionSelector:
    """Selects the element at a position of a tuple, list or Row.

    >>> PositionSelector(1).bulk([("a", 1), ("b", 2)])
    [1, 2]
    """

    position: int

    def __call__(self, value: Any) -> Any:
        try:
            return get_field(value, self.position)
        except LookupError as error:
            raise InvalidKeyError(f"key_by({self.position}): {error.args[0]}") from None

    def bulk(self, values: list[Any]) -> list[Any]:
        """The keys of all values."""
        try:
            return column(values, self.position)
        except LookupError as error:
            raise InvalidKeyError(f"key_by({self.position}): {error.args[0]}") from None


@dataclass(frozen=True)
class FieldSelector:
    """Selects a field by name or dotted path, from Rows, dicts, NamedTuples, dataclasses and other objects.

    >>> FieldSelector("user.id").bulk([{"user": {"id": 7}}, {"user": {"id": 8}}])
    [7, 8]
    """

    path: str

    def __call__(self, value: Any) -> Any:
        try:
            return get_field(value, self.path)
        except LookupError as error:
            raise InvalidKeyError(f"key_by({self.path!r}): {error.args[0]}") from None

    def bulk(self, values: list[Any]) -> list[Any]:
        """The keys of all values."""
        try:
            return column(values, self.path)
        except LookupError as error:
            raise InvalidKeyError(f"key_by({self.path!r}): {error.args[0]}") from None


@dataclass(frozen=True)
class FunctionKeySelector:
    """Wraps a user's :class:`KeySelector` as a callable. The runtime calls its ``open`` and ``close``."""

    function: KeySelector

    def __call__(self, value: Any) -> Any:
        return self.function.get_key(value)

    def bulk(self, values: list[Any]) -> list[Any]:
        """The keys of all values."""
        get_key = self.function.get_key
        return [get_key(value) for value in values]

    def open(self, runtime_context: RuntimeContext) -> None:
        """Open the user's selector."""
        self.function.open(runtime_context)

    def close(self) -> None:
        """Close the user's selector."""
        self.function.close()


@dataclass(frozen=True)
class FunctionPartitioner:
    """Wraps a user's :class:`Partitioner` as a callable of key and number of partitions."""

    function: Partitioner

    def __call__(self, key: Any, num_partitions: int) -> int:
        return self.function.partition(key, num_partitions)

    def open(self, runtime_context: RuntimeContext) -> None:
        """Open the user's partitioner."""
        self.function.open(runtime_context)

    def close(self) -> None:
        """Close the user's partitioner."""
        self.function.close()


def as_key_selector(key: Any) -> Callable[[Any], Any]:
    """Convert an argument of ``key_by`` to a callable: a position, a field name, a KeySelector or a callable.

    >>> as_key_selector(0), as_key_selector("a.b")
    (PositionSelector(position=0), FieldSelector(path='a.b'))
    """
    if isinstance(key, bool):
        raise TypeError("a key must be a position, a field name, a KeySelector or a callable, not a bool")
    if isinstance(key, int):
        if key < 0:
            raise ValueError(f"key_by({key}): positions start at 0")
        return PositionSelector(key)
    if isinstance(key, str):
        if not all(key.split(".")):
            raise ValueError(f"key_by({key!r}): a field path has the form 'a' or 'a.b'")
        return FieldSelector(key)
    if isinstance(key, KeySelector):
        return FunctionKeySelector(key)
    if callable(key):
        selector: Callable[[Any], Any] = key
        return selector
    raise TypeError(f"a key must be a position, a field name, a KeySelector or a callable, not {type(key).__name__}")


def as_partitioner(partitioner: Any) -> Callable[[Any, int], int]:
    """Convert an argument of ``partition_custom`` to a callable of key and number of partitions."""
    if isinstance(partitioner, Partitioner):
        return FunctionPartitioner(partitioner)
    if callable(partitioner):
        function: Callable[[Any, int], int] = partitioner
        return function
    raise TypeError(
        f"a partitioner must be a Partitioner or a callable of key and number of partitions, "
        f"not {type(partitioner).__name__}"
    )
