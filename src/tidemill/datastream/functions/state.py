"""Keyed state as a user function sees it, and the descriptors that declare it."""

from __future__ import annotations

import abc
from collections.abc import Iterable, Iterator
from typing import Any, Generic, TypeVar

from tidemill.datastream.functions.state_descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from tidemill.datastream.functions.state_ttl import StateTtlConfig

__all__ = [
    "AggregatingState",
    "AggregatingStateDescriptor",
    "AppendingState",
    "BroadcastState",
    "ListState",
    "ListStateDescriptor",
    "MapState",
    "MapStateDescriptor",
    "MergingState",
    "OperatorStateStore",
    "ReadOnlyBroadcastState",
    "ReducingState",
    "ReducingStateDescriptor",
    "State",
    "StateDescriptor",
    "StateTtlConfig",
    "ValueState",
    "ValueStateDescriptor",
]

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")
IN = TypeVar("IN")
OUT = TypeVar("OUT")


class State(abc.ABC):
    """State of the current key. Access outside a key, for instance in ``open()``, raises ``StateError``.

    State from an :class:`OperatorStateStore` belongs to the subtask, and has no key.
    """

    @abc.abstractmethod
    def clear(self) -> None:
        """Forget everything held for the current key."""


class ValueState(State, Generic[T]):
    """One value per key."""

    @abc.abstractmethod
    def value(self) -> T:
        """The value of the current key; the descriptor's default (None) if there is none."""

    @abc.abstractmethod
    def update(self, value: T) -> None:
        """Replace the value. Updating with None clears it."""


class AppendingState(State, Generic[IN, OUT]):
    """State that values are added to."""

    @abc.abstractmethod
    def get(self) -> OUT:
        """What was added amounts to."""

    @abc.abstractmethod
    def add(self, value: IN) -> None:
        """Add one value."""


class MergingState(AppendingState[IN, OUT]):
    """Appending state of which two can be made one, as merging windows need."""


class ReducingState(MergingState[T, T]):
    """One value per key, reduced from all values added; None if there were none."""


class AggregatingState(MergingState[IN, OUT]):
    """One accumulator per key, read as the aggregate function's result; None if nothing was added."""


class ListState(MergingState[T, Iterable[T]]):
    """A list per key."""

    @abc.abstractmethod
    def update(self, values: list[T]) -> None:
        """Replace the whole list."""

    @abc.abstractmethod
    def add_all(self, values: list[T]) -> None:
        """Add several values at the end."""

    def __iter__(self) -> Iterator[T]:
        return iter(self.get())


class MapState(State, Generic[K, V]):
    """A map per key."""

    @abc.abstractmethod
    def get(self, key: K) -> V:
        """The value of one entry, None if there is none."""

    @abc.abstractmethod
    def put(self, key: K, value: V) -> None:
        """Set one entry."""

    @abc.abstractmethod
    def put_all(self, dict_value: dict[K, V]) -> None:
        """Set several entries."""

    @abc.abstractmethod
    def remove(self, key: K) -> None:
        """Remove one entry; without effect if there is none."""

    @abc.abstractmethod
    def contains(self, key: K) -> bool:
        """Whether there is an entry."""

    @abc.abstractmethod
    def items(self) -> Iterable[tuple[K, V]]:
        """All entries."""

    @abc.abstractmethod
    def keys(self) -> Iterable[K]:
        """The keys of all entries."""

    @abc.abstractmethod
    def values(self) -> Iterable[V]:
        """The values of all entries."""

    @abc.abstractmethod
    def is_empty(self) -> bool:
        """Whether there are no entries."""

    def __getitem__(self, key: K) -> V:
        return self.get(key)

    def __setitem__(self, key: K, value: V) -> None:
        self.put(key, value)

    def __delitem__(self, key: K) -> None:
        self.remove(key)

    def __contains__(self, key: K) -> bool:
        return self.contains(key)

    def __iter__(self) -> Iterator[K]:
        return iter(self.keys())


class ReadOnlyBroadcastState(State, Generic[K, V]):
    """Broadcast state as the data side sees it: a map, equal on all subtasks, that only the broadcast side changes.

    Trying to change it raises ``StateError``. What it returns are copies: changing one changes no state.
    """

    @abc.abstractmethod
    def get(self, key: K) -> V:
        """The value of one entry, None if there is none."""

    @abc.abstractmethod
    def contains(self, key: K) -> bool:
        """Whether there is an entry."""

    @abc.abstractmethod
    def items(self) -> Iterable[tuple[K, V]]:
        """All entries, in the order in which their keys were first put."""

    @abc.abstractmethod
    def keys(self) -> Iterable[K]:
        """The keys of all entries."""

    @abc.abstractmethod
    def values(self) -> Iterable[V]:
        """The values of all entries."""

    @abc.abstractmethod
    def is_empty(self) -> bool:
        """Whether there are no entries."""

    def __getitem__(self, key: K) -> V:
        return self.get(key)

    def __contains__(self, key: K) -> bool:
        return self.contains(key)

    def __iter__(self) -> Iterator[K]:
        return iter(self.keys())


class BroadcastState(ReadOnlyBroadcastState[K, V]):
    """Broadcast state as the broadcast side sees it.

    Every subtask keeps its own copy. All of them get the same elements in the same order, so the copies stay equal if
    what is done with an element depends on nothing but the element and the broadcast state.
    """

    @abc.abstractmethod
    def put(self, key: K, value: V) -> None:
        """Set one entry."""

    @abc.abstractmethod
    def put_all(self, dict_value: dict[K, V]) -> None:
        """Set several entries."""

    @abc.abstractmethod
    def remove(self, key: K) -> None:
        """Remove one entry; without effect if there is none."""

    def __setitem__(self, key: K, value: V) -> None:
        self.put(key, value)

    def __delitem__(self, key: K) -> None:
        self.remove(key)


class OperatorStateStore(abc.ABC):
    """Gives access to the state of a subtask, whatever the key.

    The kinds differ in what a subtask gets back when the parallelism has changed. A state is registered in
    ``initialize_state``, each time in the same way.
    """

    @abc.abstractmethod
    def get_list_state(self, state_descriptor: ListStateDescriptor) -> ListState[Any]:
        """A list whose elements are dealt out evenly; with the same parallelism each subtask gets its own back."""

    @abc.abstractmethod
    def get_union_list_state(self, state_descriptor: ListStateDescriptor) -> ListState[Any]:
        """A list that each subtask gets back as the elements of all subtasks.

        It then reads what all had, and goes on storing its own part only: ``add`` adds to that, ``update`` and
        ``clear`` replace it.
        """

    @abc.abstractmethod
    def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> BroadcastState[Any, Any]:
        """A map that is equal on all subtasks; a new subtask gets a copy."""

    @abc.abstractmethod
    def get_registered_state_names(self) -> set[str]:
        """The names of the list states, registered or restored."""

    @abc.abstractmethod
    def get_registered_broadcast_state_names(self) -> set[str]:
        """The names of the broadcast states, registered or restored."""
