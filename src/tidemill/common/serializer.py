"""Base class of user-defined serializers for a type."""

from __future__ import annotations

from abc import ABC, abstractmethod
from io import BytesIO
from typing import Generic, TypeVar

__all__ = ["TypeSerializer"]

T = TypeVar("T")


class TypeSerializer(ABC, Generic[T]):
    """Writes values to a stream and reads them back.

    Two serializers are equal if their classes and attributes are equal.
    """

    @abstractmethod
    def serialize(self, element: T, stream: BytesIO) -> None:
        """Writes ``element``. The format must let :meth:`deserialize` detect where the element ends."""

    @abstractmethod
    def deserialize(self, stream: BytesIO) -> T:
        """Reads one element."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self)) and self.__dict__ == other.__dict__

    def __hash__(self) -> int:
        return hash(type(self))

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"
