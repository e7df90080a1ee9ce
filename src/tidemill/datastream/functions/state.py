"""The interfaces of keyed and operator state for user functions, and the descriptors that declare state."""

from __future__ import annotations

import abc
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Generic, TypeAlias, TypeVar

from tidemill.datastream.functions.state_descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from tidemill.datastream.functions.state_ttl import StateTtlConfig
from tidemill.python_versions import Self

__all__ = [
    "AggregatingState",
    "AggregatingStateDescriptor",
    "AppendingState",
    "BroadcastState",
    "Entries",
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
    "pairs_of",
]

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")
IN = TypeVar("IN")
OUT = TypeVar("OUT")

#: Entries of a map: a dict, which PyFlink documents, or pairs, which it takes.
Entries: TypeAlias = Mapping[K, V] | Iterable[tuple[K, V]]


def pairs_of(entries: Entries[K, V]) -> Iterable[tuple[K, V]]:
    """Return entries as pairs."""
    return entries.items() if isinstance(entries, Mapping) else entries


class State(abc.ABC):
    """State of the current key. Access without a current key, for example in ``open()``, raises ``StateError``.

    State from an :class:`OperatorStateStore` belongs to the subtask and has no key.
    """

    @abc.abstractmethod
    def clear(self) -> None:
        """Remove the state of the current key."""

    def get_internal_state(self) -> Self:
        """The state itself: PyFlink's state has another object inside, with the same methods."""
        return self


class ValueState(State, Generic[T]):
    """One value per key."""

    @abc.abstractmethod
    def value(self) -> T:
        """The value of the current key, or the default of the descriptor (None) if there is no value."""

    @abc.abstractmethod
    def update(self, value: T) -> None:
        """Replace the value. Updating with None clears it."""


class AppendingState(State, Generic[IN, OUT]):
    """State that values are added to."""

    @abc.abstractmethod
    def get(self) -> OUT:
        """The result of all values added."""

    @abc.abstractmethod
    def add(self, value: IN) -> None:
        """Add one value."""


class MergingState(AppendingState[IN, OUT]):
    """Appending state that can be merged, as merging windows require."""


class ReducingState(MergingState[T, T]):
    """One value per key, which is the reduction of all values added; None if nothing was added."""


class AggregatingState(MergingState[IN, OUT]):
    """One accumulator per key. ``get`` returns the aggregate function's result, or None if nothing was added."""


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
        """The value of an entry, or None if the entry does not exist."""

    @abc.abstractmethod
    def put(self, key: K, value: V) -> None:
        """Set one entry."""

    @abc.abstractmethod
    def put_all(self, dict_value: Entries[K, V]) -> None:
        """Set several entries, given as a dict or as pairs."""

    @abc.abstractmethod
    def remove(self, key: K) -> None:
        """Remove an entry. No effect if it does not exist."""

    @abc.abstractmethod
    def contains(self, key: K) -> bool:
        """Whether the entry exists."""

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
    """Broadcast state on the data side: a map that is the same on all subtasks. Only the broadcast side can change it.

    An attempt to change it raises ``StateError``. Returned values are copies: modifying them does not change the state.
    """

    @abc.abstractmethod
    def get(self, key: K) -> V:
        """The value of an entry, or None if the entry does not exist."""

    @abc.abstractmethod
    def contains(self, key: K) -> bool:
        """Whether the entry exists."""

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
    """Broadcast state on the broadcast side.

    Every subtask has its own copy. All subtasks receive the same elements in the same order, so the copies stay equal
    if the changes depend only on the element and the broadcast state.
    """

    @abc.abstractmethod
    def put(self, key: K, value: V) -> None:
        """Set one entry."""

    @abc.abstractmethod
    def put_all(self, dict_value: Entries[K, V]) -> None:
        """Set several entries, given as a dict or as pairs."""

    @abc.abstractmethod
    def remove(self, key: K) -> None:
        """Remove an entry. No effect if it does not exist."""

    def __setitem__(self, key: K, value: V) -> None:
        self.put(key, value)

    def __delitem__(self, key: K) -> None:
        self.remove(key)


class OperatorStateStore(abc.ABC):
    """Provides access to operator state, which belongs to a subtask and not to a key.

    The kinds of state differ in how they are redistributed when the parallelism changes. A state is registered in
    ``initialize_state``, with the same kind and descriptor every time.
    """

    @abc.abstractmethod
    def get_list_state(self, state_descriptor: ListStateDescriptor) -> ListState[Any]:
        """A list whose elements are redistributed evenly. With unchanged parallelism, each subtask keeps its list."""

    @abc.abstractmethod
    def get_union_list_state(self, state_descriptor: ListStateDescriptor) -> ListState[Any]:
        """A list of which each subtask is restored with the elements of all subtasks.

        The subtask reads the elements of all, but stores only its own part: ``add`` adds to that part, ``update`` and
        ``clear`` replace it.
        """

    @abc.abstractmethod
    def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> BroadcastState[Any, Any]:
        """A map that is the same on all subtasks. A new subtask gets a copy."""

    @abc.abstractmethod
    def get_registered_state_names(self) -> set[str]:
        """The names of the list states, registered or restored."""

    @abc.abstractmethod
    def get_registered_broadcast_state_names(self) -> set[str]:
        """The names of the broadcast states, registered or restored."""
