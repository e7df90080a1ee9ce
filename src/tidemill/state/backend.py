"""The keyed state of one operator in one subtask: its states, its timers, the current key.

The backend contract. ``*_state`` register a state under its descriptor's name and return the object user functions
work with. An epoch is ``begin_epoch``, reads and writes, ``export_delta``; then ``fold`` if its manifest named this
attempt, or ``discard``. ``load`` applies sections of committed state, oldest first, before or after the state they
belong to is registered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from tidemill.common.typeinfo import BasicTypeInfo, TupleTypeInfo, TypeInformation
from tidemill.datastream.state_descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from tidemill.errors import StateError
from tidemill.state.context import KeyContext
from tidemill.state.key_groups import GroupCache, KeyGroupRange
from tidemill.state.keyed_states import (
    HeapAggregatingState,
    HeapListState,
    HeapMapState,
    HeapReducingState,
    HeapValueState,
)
from tidemill.state.sections import TIMER_SHAPE, StateShape, read_rows, write_rows
from tidemill.state.state_file import Section
from tidemill.state.tables import ListTable, MapTable, Table, ValueTable
from tidemill.state.timers import TimerQueue

EVENT_TIMERS = "__timers_event"
PROCESSING_TIMERS = "__timers_processing"

_TABLES: dict[str, type[Table]] = {
    "value": ValueTable,
    "reducing": ValueTable,
    "aggregating": ValueTable,
    "list": ListTable,
    "map": MapTable,
}

S = TypeVar("S")


class KeyedStateBackend:
    """Keyed state in memory (``hashmap``)."""

    def __init__(
        self,
        operator: str,
        where: str,
        groups: KeyGroupRange,
        max_parallelism: int,
        key_type: TypeInformation | None,
    ) -> None:
        # configuration
        self.operator = operator
        self.groups = groups
        self._where = where
        self._key_type = key_type
        # transient
        self.context = KeyContext(where)
        self._group_of = GroupCache(max_parallelism)
        self._states: dict[str, tuple[StateDescriptor, Any]] = {}
        self._unclaimed: dict[str, list[Section]] = {}
        #: Whether a state may hold objects that user code can change after it has read or written them.
        self.mutable = False
        # checkpointed
        self._tables: dict[str, Table] = {}
        self._shapes: dict[str, StateShape] = {}
        self.event_timers = TimerQueue()
        self.processing_timers = TimerQueue()

    def value_state(self, descriptor: ValueStateDescriptor) -> HeapValueState:
        """Register or find a value state."""
        return self._register(descriptor, lambda table: HeapValueState(self.context, table, descriptor.default_value))

    def list_state(self, descriptor: ListStateDescriptor) -> HeapListState:
        """Register or find a list state."""
        return self._register(descriptor, lambda table: HeapListState(self.context, table))

    def map_state(self, descriptor: MapStateDescriptor) -> HeapMapState:
        """Register or find a map state."""
        return self._register(descriptor, lambda table: HeapMapState(self.context, table))

    def reducing_state(self, descriptor: ReducingStateDescriptor) -> HeapReducingState:
        """Register or find a reducing state."""
        reduce = descriptor.get_reduce_function().reduce
        return self._register(descriptor, lambda table: HeapReducingState(self.context, table, reduce))

    def aggregating_state(self, descriptor: AggregatingStateDescriptor) -> HeapAggregatingState:
        """Register or find an aggregating state."""
        aggregate = descriptor.get_agg_function()
        return self._register(descriptor, lambda table: HeapAggregatingState(self.context, table, aggregate))

    def keys(self, state: str, namespace: Any = None) -> Iterator[Any]:
        """The keys that have a value in a state, in an order that does not depend on the worker's history."""
        table = self._tables.get(state)
        if table is None:
            return iter(())
        return iter(sorted(table.keys(namespace), key=self._group_of.__getitem__))

    def group_of(self, key: Any) -> int:
        """The key group of a key."""
        return self._group_of[key]

    def begin_epoch(self) -> None:
        """Get all states ready for a new epoch; what the last one changed must be folded or discarded."""
        for _, state in self._states.values():
            state.begin_epoch()

    def export_delta(self) -> list[Section]:
        """What the epoch changed, one section per state that changed."""
        return self._sections(lambda table: table.export_delta())

    def export_all(self) -> list[Section]:
        """The whole committed state; the epoch must have changed nothing yet."""
        return self._sections(lambda table: table.export_all())

    def fold(self) -> None:
        """The last delta is committed: make it the base."""
        for table in self._all_tables():
            table.fold()

    def discard(self) -> None:
        """The last epoch did not count: go back to the base."""
        for table in self._all_tables():
            table.discard()

    def load(self, section: Section) -> None:
        """Apply one section of committed state; sections must come oldest first."""
        if section.state == EVENT_TIMERS:
            self.event_timers.load(read_rows(section))
        elif section.state == PROCESSING_TIMERS:
            self.processing_timers.load(read_rows(section))
        elif section.state in self._tables:
            self._tables[section.state].load(read_rows(section, self._shapes[section.state]))
        else:
            self._unclaimed.setdefault(section.state, []).append(section)

    def entries(self) -> int:
        """Number of committed entries, over all states and timers."""
        return sum(table.entries() for table in self._all_tables())

    def state_names(self) -> list[str]:
        """The names of the registered states."""
        return list(self._states)

    def state(self, name: str) -> Any:
        """The object of a registered state."""
        return self._states[name][1]

    def _register(self, descriptor: Any, build: Callable[[Any], S]) -> S:
        known = self._states.get(descriptor.name)
        if known is not None:
            self._check_same(known[0], descriptor)
            found: S = known[1]
            return found
        shape = StateShape.of(descriptor, self._key_type)
        table = _TABLES[descriptor.kind]()
        self._tables[descriptor.name] = table
        self.mutable = self.mutable or not _immutable(_entry_type(descriptor))
        self._shapes[descriptor.name] = shape
        for section in self._unclaimed.pop(descriptor.name, ()):
            if section.kind != table.kind:
                raise StateError(
                    f"{self._where}: state {descriptor.name!r} is stored as {section.kind} state, "
                    f"but the program now declares it as {descriptor.kind} state; give it another name"
                )
            table.load(read_rows(section, shape))
        state = build(table)
        self._states[descriptor.name] = (descriptor, state)
        return state

    def _check_same(self, known: StateDescriptor, descriptor: StateDescriptor) -> None:
        if known.kind != descriptor.kind or known.type_info != descriptor.type_info:
            raise StateError(
                f"{self._where}: state {descriptor.name!r} was registered twice with different types: "
                f"first {known!r}, now {descriptor!r}"
            )

    def _all_tables(self) -> list[Any]:
        return [*self._tables.values(), self.event_timers, self.processing_timers]

    def _sections(self, export: Callable[[Any], Any]) -> list[Section]:
        sections = []
        for name, table in self._tables.items():
            rows = export(table)
            if rows is not None:
                sections.append(write_rows(self.operator, name, self._shapes[name], rows, self._group_of, self._where))
        timers = ((EVENT_TIMERS, self.event_timers), (PROCESSING_TIMERS, self.processing_timers))
        for name, queue in timers:
            rows = export(queue)
            if rows is not None:
                shape = TIMER_SHAPE.with_key(self._key_type)
                sections.append(write_rows(self.operator, name, shape, rows, self._group_of, self._where))
        return sections


def _entry_type(descriptor: StateDescriptor) -> TypeInformation:
    """The type of what one entry of a state holds: an element of a list, a value of a map."""
    if isinstance(descriptor, ListStateDescriptor):
        return descriptor.elem_type_info
    return descriptor.value_type_info if isinstance(descriptor, MapStateDescriptor) else descriptor.type_info


def _immutable(type_info: TypeInformation) -> bool:
    if isinstance(type_info, TupleTypeInfo):
        return all(map(_immutable, type_info.get_field_types()))
    return isinstance(type_info, BasicTypeInfo)
