"""Read-only state objects with the state of a key in a committed epoch, as returned by Flink's query client."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NoReturn

from tidemill.datastream.functions.state import (
    AggregatingState,
    Entries,
    ListState,
    MapState,
    ReducingState,
    State,
    ValueState,
)
from tidemill.errors import StateError
from tidemill.state.keyed.elements import Elements

__all__ = [
    "ImmutableAggregatingState",
    "ImmutableListState",
    "ImmutableMapState",
    "ImmutableReducingState",
    "ImmutableState",
    "ImmutableValueState",
]


class ImmutableState(State):
    """The state of a key in the committed epoch ``epoch``."""

    def __init__(self, epoch: int, content: Any) -> None:
        self.epoch = epoch
        self._content = content

    def clear(self) -> NoReturn:
        """Not supported: raises :class:`StateError`."""
        self._refuse()

    def _refuse(self, *_: Any) -> NoReturn:
        raise StateError("queried state is read-only: it is a copy of what a job has committed")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._content!r}, epoch={self.epoch})"


class ImmutableValueState(ImmutableState, ValueState[Any]):
    """One value."""

    def value(self) -> Any:
        """The value."""
        return self._content

    def update(self, value: Any) -> NoReturn:
        """Not supported: raises :class:`StateError`."""
        self._refuse()


class ImmutableReducingState(ImmutableState, ReducingState[Any]):
    """The reduced value of all values."""

    def get(self) -> Any:
        """The value."""
        return self._content

    def add(self, value: Any) -> NoReturn:
        """Not supported: raises :class:`StateError`."""
        self._refuse()


class ImmutableAggregatingState(ImmutableState, AggregatingState[Any, Any]):
    """The result of an accumulator."""

    def get(self) -> Any:
        """The result."""
        return self._content

    def add(self, value: Any) -> NoReturn:
        """Not supported: raises :class:`StateError`."""
        self._refuse()


class ImmutableListState(ImmutableState, ListState[Any]):
    """A list."""

    def get(self) -> Iterable[Any]:
        """The elements."""
        return list(self._content)

    def add(self, value: Any) -> NoReturn:
        """Not supported: raises :class:`StateError`."""
        self._refuse()

    def update(self, values: list[Any]) -> NoReturn:
        """Not supported: raises :class:`StateError`."""
        self._refuse()

    def add_all(self, values: list[Any]) -> NoReturn:
        """Not supported: raises :class:`StateError`."""
        self._refuse()


class ImmutableMapState(ImmutableState, MapState[Any, Any]):
    """A map."""

    def get(self, key: Any) -> Any:
        """The value of one entry, None if there is none."""
        return self._content.get(key)

    def contains(self, key: Any) -> bool:
        """Whether the entry exists."""
        return key in self._content

    def items(self) -> Iterable[tuple[Any, Any]]:
        """All entries."""
        return Elements(self._content.items())

    def keys(self) -> Iterable[Any]:
        """The keys of all entries."""
        return Elements(self._content)

    def values(self) -> Iterable[Any]:
        """The values of all entries."""
        return Elements(self._content.values())

    def is_empty(self) -> bool:
        """Whether there are no entries."""
        return not self._content

    def put(self, key: Any, value: Any) -> NoReturn:
        """Not supported: raises :class:`StateError`."""
        self._refuse()

    def put_all(self, dict_value: Entries[Any, Any]) -> NoReturn:
        """Not supported: raises :class:`StateError`."""
        self._refuse()

    def remove(self, key: Any) -> NoReturn:
        """Not supported: raises :class:`StateError`."""
        self._refuse()
