"""The content of a map state at the time it was read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar

T = TypeVar("T")


class Elements(list[T]):
    """The entries, keys or values of a map at the time they were read.

    It can be iterated any number of times. Changing it does not change the state. It supports ``next()`` like the
    iterators that PyFlink's maps return.

    >>> elements = Elements(["a", "b"])
    >>> [*elements, *elements]
    ['a', 'b', 'a', 'b']
    >>> next(elements), next(elements), next(elements, None)
    ('a', 'b', None)
    """

    __slots__ = ("_iterator",)

    _iterator: Iterator[T]

    def __next__(self) -> T:
        try:
            iterator = self._iterator
        except AttributeError:
            iterator = self._iterator = iter(self)
        return next(iterator)

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return list, (list(self),)
