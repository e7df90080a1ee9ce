"""The kinds of keyed state: everything that distinguishes one kind from another is defined here.

To add a kind, write:

1. its descriptor (``datastream/functions/state_descriptors.py``) and its user interface (``.../state.py``);
2. the method that returns it, ``get_..._state`` of ``KeyedStateStore`` (``datastream/functions/base.py``);
3. the re-exports in ``datastream/functions/state.py``, ``datastream/state.py`` and ``datastream/__init__.py``;
4. the classes that implement it, in modules of this package;
5. one entry in :data:`KINDS`.

``tests/contract/made_up_kinds.py`` has two examples, without steps 2 and 3, and
``tests/contract/test_new_state_kind.py`` tests them. Backends, time to live, undo, the state processor and queryable
state then support the kind: they look it up when a state is registered, loaded or read as data, and never per record.
``KeyedStateBackend.keyed_state`` registers a state of any kind; ``value_state`` and the like are typed shortcuts to it.

Most kinds can be stored as one of the existing kinds of sections (:mod:`tidemill.state.files.section_kinds`): as single
values, lists or maps. A kind that cannot needs an entry there, which changes the file format, and tables.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from tidemill.common.typeinfo import TypeInformation
from tidemill.datastream.functions.state_descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from tidemill.errors import StateError
from tidemill.state.codecs.serializers import StateTypes
from tidemill.state.files.section_kinds import SectionKind, section_kind
from tidemill.state.files.sections import StateShape
from tidemill.state.files.ttl_declared import DeclaredTtl
from tidemill.state.keyed.collection_states import KeyedListState, KeyedMapState
from tidemill.state.keyed.immutable_states import (
    ImmutableAggregatingState,
    ImmutableListState,
    ImmutableMapState,
    ImmutableReducingState,
    ImmutableState,
    ImmutableValueState,
)
from tidemill.state.keyed.keyed_state import KeyedState
from tidemill.state.keyed.single_states import KeyedAggregatingState, KeyedReducingState, KeyedValueState
from tidemill.state.keyed.tables import ListTable, MapTable, Table, ValueTable
from tidemill.state.keyed.timers import TimerQueue
from tidemill.state.keyed.ttl_states import (
    TtlAggregatingState,
    TtlListState,
    TtlMapState,
    TtlReducingState,
    TtlState,
    TtlValueState,
)
from tidemill.state.keyed.undo import (
    WatchedAggregatingState,
    WatchedListState,
    WatchedMapState,
    WatchedReducingState,
    WatchedValueState,
)

__all__ = ["KINDS", "StateKind", "StateTables", "kind_of", "shape_of", "tables_of"]


@dataclass(frozen=True)
class StateTables:
    """The tables for entries that are stored in sections of one kind: in memory, and in RocksDB.

    The latter is a dotted name, because that package depends on this one, and its library is loaded only if it is used.
    """

    memory: type[Table | TimerQueue]
    rocksdb: str

    @property
    def section_kind(self) -> SectionKind:
        """The kind of the sections."""
        return self.memory.section_kind

    def rocksdb_table(self) -> Any:
        """The class of the table in RocksDB."""
        module, _, name = self.rocksdb.rpartition(".")
        return getattr(importlib.import_module(module), name)


VALUES: Final = StateTables(ValueTable, "tidemill.state.rocksdb.value_table.StoredValueTable")
LISTS: Final = StateTables(ListTable, "tidemill.state.rocksdb.list_table.StoredListTable")
MAPS: Final = StateTables(MapTable, "tidemill.state.rocksdb.map_table.StoredMapTable")
#: Timers are not a kind of state, but their stored rows are merged and read like state.
TIMERS: Final = StateTables(TimerQueue, "tidemill.state.rocksdb.timers.StoredTimers")


def _type_info(descriptor: Any) -> TypeInformation:
    declared: TypeInformation = descriptor.type_info
    return declared


def _nothing(descriptor: Any) -> Any:
    return None


def _no_arguments(descriptor: Any) -> tuple[Any, ...]:
    return ()


def _as_stored(descriptor: Any, stored: Any) -> Any:
    return stored


@dataclass(frozen=True)
class StateKind:
    """One kind of keyed state. Its name is the ``kind`` of its descriptors, and is stored in files."""

    descriptor: type[StateDescriptor]
    tables: StateTables
    #: The object that user functions use, and the one whose calls can be undone.
    state: type[KeyedState]
    watched: type[KeyedState]
    #: The object that user functions use if entries expire.
    expiring: type[TtlState]
    #: The object that a client gets when it queries the state.
    immutable: type[ImmutableState]
    #: The type of one value, element or entry, and that of the keys of a map, by descriptor.
    value_type: Callable[[Any], TypeInformation] = _type_info
    user_key_type: Callable[[Any], TypeInformation | None] = _nothing
    #: The additional arguments of ``state`` and ``expiring``, besides a table or the state that stores the values.
    arguments: Callable[[Any], tuple[Any, ...]] = _no_arguments
    #: The value to show, by descriptor, for a stored value.
    shown: Callable[[Any, Any], Any] = _as_stored
    #: The kind whose state object stores values that expire, each with the time of its last access. It is created
    #: without arguments. None: this kind itself.
    stored_by: StateKind | None = None

    @property
    def name(self) -> str:
        """The name of the kind in files, errors and reports."""
        return self.descriptor.kind

    def shape(
        self, descriptor: StateDescriptor, key_type: TypeInformation | None, ttl: DeclaredTtl | None = None
    ) -> StateShape:
        """The column layout for the entries of a state; ``ttl`` is set if they are stored with their times."""
        types = StateTypes(self.name, key_type, self.value_type(descriptor), self.user_key_type(descriptor))
        return StateShape.of(descriptor, self.tables.section_kind, types, ttl)

    def queried(self, descriptor: StateDescriptor, epoch: int, stored: Any) -> ImmutableState:
        """The object that a client gets for the stored state of a key."""
        return self.immutable(epoch, self.shown(descriptor, stored))


_VALUE: Final = StateKind(
    ValueStateDescriptor,
    VALUES,
    state=KeyedValueState,
    watched=WatchedValueState,
    expiring=TtlValueState,
    immutable=ImmutableValueState,
    arguments=lambda descriptor: (descriptor.default_value,),
)

_LIST: Final = StateKind(
    ListStateDescriptor,
    LISTS,
    state=KeyedListState,
    watched=WatchedListState,
    expiring=TtlListState,
    immutable=ImmutableListState,
    value_type=lambda descriptor: descriptor.elem_type_info,
)

_MAP: Final = StateKind(
    MapStateDescriptor,
    MAPS,
    state=KeyedMapState,
    watched=WatchedMapState,
    expiring=TtlMapState,
    immutable=ImmutableMapState,
    value_type=lambda descriptor: descriptor.value_type_info,
    user_key_type=lambda descriptor: descriptor.key_type_info,
)

_REDUCING: Final = StateKind(
    ReducingStateDescriptor,
    VALUES,
    state=KeyedReducingState,
    watched=WatchedReducingState,
    expiring=TtlReducingState,
    immutable=ImmutableReducingState,
    arguments=lambda descriptor: (descriptor.get_reduce_function().reduce,),
    stored_by=_VALUE,
)

_AGGREGATING: Final = StateKind(
    AggregatingStateDescriptor,
    VALUES,
    state=KeyedAggregatingState,
    watched=WatchedAggregatingState,
    expiring=TtlAggregatingState,
    immutable=ImmutableAggregatingState,
    arguments=lambda descriptor: (descriptor.get_agg_function(),),
    shown=lambda descriptor, accumulator: descriptor.get_agg_function().get_result(accumulator),
    stored_by=_VALUE,
)

#: All kinds of keyed state by name.
KINDS: Final[dict[str, StateKind]] = {kind.name: kind for kind in (_VALUE, _LIST, _MAP, _REDUCING, _AGGREGATING)}


def kind_of(descriptor: StateDescriptor) -> StateKind:
    """The kind of state that a descriptor declares. Raises :class:`StateError` if the kind is unknown.

    >>> kind_of(ListStateDescriptor("names")).name
    'list'
    """
    found = KINDS.get(getattr(descriptor, "kind", ""))
    if found is None:
        raise StateError(f"{descriptor!r} declares no kind of keyed state; there are {', '.join(KINDS)}")
    return found


def shape_of(descriptor: StateDescriptor, key_type: TypeInformation | None) -> StateShape:
    """The column layout for the entries of the state that a descriptor declares."""
    return kind_of(descriptor).shape(descriptor, key_type)


def tables_of(name: str) -> StateTables:
    """The tables for sections of a kind, by the name of that kind.

    Raises :class:`~tidemill.errors.SerializationError` for an unknown kind of sections.
    """
    wanted = section_kind(name)
    for kind in KINDS.values():
        if kind.tables.memory.section_kind is wanted:
            return kind.tables
    return TIMERS
