"""What a map state held when it was read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar

T = TypeVar("T")


class Elements(list[T]):
    """The entries, keys or values of a map, as they were when they were read.

    It can be looped over as often as needed. Changing it changes no state. It answers ``next()`` as an iterator would,
    which PyFlink's maps return.

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
