"""The interface of a state backend: the keyed state of one operator in one subtask, its timers, the current key.

``keyed_state`` registers a state under its descriptor's name and returns the object that user functions use. An epoch
consists of ``begin_epoch``, reads and writes, and ``export_delta``; then ``fold`` if its manifest named this attempt,
or ``discard``. ``load`` applies sections of committed state, oldest first, before or after their state is registered.
The differences between the kinds of state are in :mod:`tidemill.state.keyed.kinds`.

Backends differ only in where the committed base is: as Python objects in memory (:mod:`tidemill.state.keyed.hashmap`),
or on local disk (:mod:`tidemill.state.rocksdb`). The changes of an epoch are always in memory, and the durable sections
are the same for all backends, so a job can change its backend from one start to the next.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tidemill.common.configuration import Configuration
from tidemill.common.typeinfo import BasicTypeInfo, TupleTypeInfo, TypeInformation
from tidemill.datastream.functions.state_descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from tidemill.errors import StateError, StateMigrationError
from tidemill.state.codecs.normal_form import key_form, normal_form
from tidemill.state.codecs.ttl import StampedTypeInfo
from tidemill.state.files.replacing import replaced_groups, replacing_groups, without_replaced
from tidemill.state.files.section_kinds import section_kind
from tidemill.state.files.sections import TIMER_SHAPE, StateShape, check_types, read_rows, start_empty, write_rows
from tidemill.state.files.state_file import GROUP_COLUMN, Section
from tidemill.state.files.ttl_declared import DeclaredTtl, OperatorTime, StandingTime, stored_ttl
from tidemill.state.files.ttl_rows import clock_of, with_counting_times
from tidemill.state.keyed.collection_states import KeyedListState, KeyedMapState
from tidemill.state.keyed.context import KeyContext
from tidemill.state.keyed.keyed_state import KeyedState
from tidemill.state.keyed.kinds import StateKind, kind_of
from tidemill.state.keyed.single_states import KeyedAggregatingState, KeyedReducingState, KeyedValueState
from tidemill.state.keyed.tables import Table
from tidemill.state.keyed.timers import Timers
from tidemill.state.keyed.ttl import expires, expiring_state
from tidemill.state.keyed.undo import UndoLog
from tidemill.state.keys.key_groups import GroupCache, KeyGroup, KeyGroupRange, Subtask
from tidemill.state.keys.stable_hash import stable_hash

EVENT_TIMERS = "__timers_event"
PROCESSING_TIMERS = "__timers_processing"


@dataclass(frozen=True)
class BackendPlace:
    """The place of a backend's state: the operator, the key groups, the job and the subtask.

    ``where`` names the operator in messages. ``program`` is equal for all workers that run the same start of a program,
    and different for all others: workers with equal values can read each other's files on a disk.
    """

    operator: str
    where: str
    groups: KeyGroupRange
    max_parallelism: int
    key_type: TypeInformation | None = None
    job_id: str = "job"
    subtask: Subtask = Subtask(0)
    program: str = ""
    #: ``pipeline.strict-types``.
    strict_types: bool = False


@dataclass(frozen=True)
class StateVersion:
    """A committed state, identified by its manifest: the slot in the log, the lineage and the epoch."""

    lineage: str
    slot: int
    epoch: int


class KeyedStateBackend(ABC):
    """Keyed state: the interface, and the code that all backends share."""

    #: Whether :meth:`prefetch` has an effect; checked once per batch.
    prefetches = False
    #: Whether reading an entry costs no more than a dict lookup.
    in_memory = False

    def __init__(self, place: BackendPlace) -> None:
        # configuration
        self.operator = place.operator
        self.groups = place.groups
        self._where = place.where
        self._key_type = place.key_type
        self._strict_types = place.strict_types
        # transient
        self.context = KeyContext(place.where)
        self._group_of = GroupCache(place.max_parallelism)
        self._states: dict[str, tuple[StateDescriptor, Any]] = {}
        self._unclaimed: dict[str, list[Section]] = {}
        #: States changed by a migration, with the first key group that has not been rewritten yet.
        self._migrating: dict[str, KeyGroup] = {}
        #: The key groups of these states that the delta of this epoch contains completely.
        self._replacing: dict[str, list[tuple[KeyGroup, KeyGroup]]] = {}
        #: Whether a state may contain objects that user code can change after it has read or written them.
        self.mutable = False
        #: The clock of states with a time to live: the operator itself, once it is set.
        self.time: OperatorTime = StandingTime()
        #: Whether a state's time to live uses event time.
        self.event_time_ttl = False
        self._undo: UndoLog | None = None
        #: The approximate recent size of a stored entry by state, for states in which a row is a whole entry.
        self._entry_bytes: dict[str, float] = {}
        # checkpointed
        self._tables: dict[str, Table] = {}
        self._shapes: dict[str, StateShape] = {}
        self.event_timers: Timers = self._new_timers(EVENT_TIMERS)
        self.processing_timers: Timers = self._new_timers(PROCESSING_TIMERS)

    # --- what a backend must implement

    @classmethod
    def create(cls, place: BackendPlace, settings: Any) -> KeyedStateBackend:
        """Create a backend at a place; ``settings`` is the result of :meth:`settings`."""
        return cls(place)

    @classmethod
    def settings(cls, configuration: Configuration) -> Any:
        """The settings of the backend from the job's configuration; they are pickled and sent to the workers."""
        return None

    @abstractmethod
    def _new_table(self, name: str, shape: StateShape) -> Table:
        """An empty table for the entries of a state, or one with the content of a reused version of the state."""

    @abstractmethod
    def _new_timers(self, name: str) -> Timers:
        """The timers of one time domain."""

    @abstractmethod
    def memory(self) -> int:
        """The approximate number of bytes of the worker's memory that the committed state uses."""

    def _parked(self, section: Section) -> Section:
        """The form in which a section is kept until its state is registered."""
        return section

    def _slices(self, section: Section) -> Iterable[Section]:
        """The parts in which a section is loaded."""
        return (section,)

    # --- registering states

    def keyed_state(self, descriptor: StateDescriptor) -> Any:
        """Register a state of any kind, or return it if it is already registered."""
        known = self._states.get(descriptor.name)
        if known is not None:
            self._check_same(known[0], descriptor)
            return known[1]
        self._check_queryable(descriptor)
        kind = kind_of(descriptor)
        state: Any
        if expires(descriptor):
            state = expiring_state(self, descriptor, self._unclaimed.get(descriptor.name, ()))
        else:
            state = self._bound(kind, self._table_for(kind, descriptor), *kind.arguments(descriptor))
        self._states[descriptor.name] = (descriptor, state)
        return state

    def value_state(self, descriptor: ValueStateDescriptor) -> KeyedValueState:
        """Register a value state, or return it if it is already registered."""
        found: KeyedValueState = self.keyed_state(descriptor)
        return found

    def list_state(self, descriptor: ListStateDescriptor) -> KeyedListState:
        """Register a list state, or return it if it is already registered."""
        found: KeyedListState = self.keyed_state(descriptor)
        return found

    def map_state(self, descriptor: MapStateDescriptor) -> KeyedMapState:
        """Register a map state, or return it if it is already registered."""
        found: KeyedMapState = self.keyed_state(descriptor)
        return found

    def reducing_state(self, descriptor: ReducingStateDescriptor) -> KeyedReducingState:
        """Register a reducing state, or return it if it is already registered."""
        found: KeyedReducingState = self.keyed_state(descriptor)
        return found

    def aggregating_state(self, descriptor: AggregatingStateDescriptor) -> KeyedAggregatingState:
        """Register an aggregating state, or return it if it is already registered."""
        found: KeyedAggregatingState = self.keyed_state(descriptor)
        return found

    def storing_state(self, descriptor: StateDescriptor, ttl: DeclaredTtl) -> KeyedState:
        """The state that stores the values of a state whose entries expire. Only the state around it is registered."""
        kind = kind_of(descriptor)
        return self._bound(kind.stored_by or kind, self._table_for(kind, descriptor, ttl))

    def note_changes_in(self, undo: UndoLog) -> None:
        """Enable undo for calls of the user function; must be called before any state is registered."""
        self._undo = undo
        undo.watch_timers(self.event_timers)
        undo.watch_timers(self.processing_timers)

    def keys(self, state: str, namespace: Any = None) -> Iterator[Any]:
        """The keys that have a value in a state.

        The order (by key group, then by stable hash) does not depend on the worker's history.
        """
        table = self._tables.get(state)
        if table is None:
            return iter(())
        return iter(sorted(table.keys(namespace), key=lambda key: (self._group_of[key], stable_hash(key))))

    def scan(self, state: str) -> Iterator[tuple[Any, Any, Any, Any]]:
        """The committed entries of a registered state as (namespace, key, user key of a map or None, stored value).

        The iterator may be paused and resumed in a later epoch: it then returns the entries of that time, may miss new
        ones, and misses none that existed the whole time. The returned values must not be changed.
        """
        return self._tables[state].scan()

    def group_of(self, key: Any) -> KeyGroup:
        """The key group of a key."""
        return self._group_of[key]

    # --- the lifecycle of an epoch

    def prefetch(self, keys: list[Any]) -> None:
        """Announce the keys of the next batch of records, whose state may be read ahead."""

    def begin_epoch(self) -> None:
        """Prepare all states for a new epoch; the changes of the last one must have been folded or discarded."""
        for name in list(self._migrating):
            self._rewrite(name)
        for _, state in self._states.values():
            state.begin_epoch()

    def export_delta(self) -> list[Section]:
        """The changes of the epoch, one section per changed state."""
        return self._sections(lambda table: table.export_delta())

    def export_all(self) -> list[Section]:
        """The whole committed state; the epoch must not have changed anything yet."""
        return self._sections(lambda table: table.export_all())

    def fold(self, version: StateVersion | None = None) -> None:
        """Make the last delta part of the base; the manifest identified by ``version`` has committed it."""
        for table in self._all_tables():
            table.fold()
        self._replacing.clear()

    def discard(self) -> None:
        """Drop the changes of the last epoch, which was not committed, and return to the base."""
        for table in self._all_tables():
            table.discard()
        self._migrating.update({name: spans[0][0] for name, spans in self._replacing.items()})
        self._replacing.clear()

    def load(self, section: Section) -> None:
        """Apply one section of committed state; sections must be applied oldest first."""
        if section.state in (EVENT_TIMERS, PROCESSING_TIMERS):
            timers = self.event_timers if section.state == EVENT_TIMERS else self.processing_timers
            self._load(timers, section, TIMER_SHAPE.with_key(self._key_type))
        elif section.state in self._tables:
            self._load(self._tables[section.state], section, self._shapes[section.state])
        else:
            self._unclaimed.setdefault(section.state, []).append(self._parked(section))

    def version(self) -> StateVersion | None:
        """The committed state that a new backend found on its disk: only later changes have to be loaded."""
        return None

    def kept_ttl(self, state: str) -> Mapping[str, Any] | None:
        """The time to live under which the newest entries of a state that were found on disk were stored."""
        return None

    def reset(self) -> None:
        """Discard the version found on disk, if there is one."""

    def loaded(self, version: StateVersion) -> None:
        """Mark ``version`` as completely loaded."""

    def close(self, *, forget: bool = True) -> None:
        """Release the resources of the backend; with ``forget`` also delete its files on local disk.

        No durable state depends on this call.
        """

    def entries(self) -> int:
        """Number of committed entries, over all states and timers."""
        return sum(table.entries() for table in self._all_tables())

    def queryable_names(self) -> tuple[tuple[str, str], ...]:
        """The names under which states are queried, with the names of the states."""
        descriptors = (descriptor for descriptor, _ in self._states.values())
        return tuple((one.queryable_name, one.name) for one in descriptors if one.queryable_name is not None)

    def sizes(self) -> dict[str, tuple[int, int | None]]:
        """The number of committed entries and their approximate size in bytes, if known, by state and for timers.

        An empty name stands for all of them together, if nothing more specific is known.
        """
        tables: dict[str, Any] = {
            **self._tables,
            EVENT_TIMERS: self.event_timers,
            PROCESSING_TIMERS: self.processing_timers,
        }
        entries = {name: table.entries() for name, table in tables.items()}
        sizes = self._entry_bytes
        return {
            name: (count, int(count * sizes[name]) if name in sizes else None)
            for name, count in entries.items()
            if count or name in self._tables
        }

    def declared(self) -> dict[str, StateShape]:
        """The registered states by name, as the program declares them."""
        return dict(self._shapes)

    def state_names(self) -> list[str]:
        """The names of the registered states."""
        return list(self._states)

    def state(self, name: str) -> Any:
        """The object of a registered state."""
        return self._states[name][1]

    def _bound(self, kind: StateKind, table: Table, *arguments: Any) -> KeyedState:
        state = kind.state(self.context, table, *arguments)
        if self._undo is not None:
            self._undo.watch_state(state, kind.watched)
        return state

    def _table_for(self, kind: StateKind, descriptor: StateDescriptor, ttl: DeclaredTtl | None = None) -> Table:
        """A table for a state that is new to this backend, with the sections loaded before it was registered."""
        value_type, user_key_type = kind.value_type(descriptor), kind.user_key_type(descriptor)
        shape = kind.shape(descriptor, self._key_type, ttl)
        table = self._new_table(descriptor.name, shape)
        content_type = value_type if ttl is None else StampedTypeInfo(value_type, ttl)
        table.form = normal_form(content_type, strict=self._strict_types)
        if user_key_type is not None:
            table.key_form = normal_form(user_key_type)
            table.form_keys = key_form(user_key_type)
        self._tables[descriptor.name] = table
        self.mutable = self.mutable or not immutable_type(value_type)
        self._shapes[descriptor.name] = shape
        claimed = self._unclaimed.pop(descriptor.name, [])
        for first, last in (span for section in claimed for span in replaced_groups(section.schema)):
            table.drop_groups(first, last)
        clock = clock_of(None if shape.ttl is None else shape.ttl.describe())
        stored = with_counting_times(without_replaced(claimed), clock)
        migrated: list[KeyGroup] = []  # the first group of each section
        for section in stored:  # checked before any value is read
            stored_kind = section.schema.get("types", {}).get("kind")
            if section.kind != shape.kind or (stored_kind is not None and stored_kind != kind.name):
                raise StateMigrationError(
                    f"{self._where}: state {descriptor.name!r} is stored as {stored_kind or section.kind} state, "
                    f"but the program now declares it as {kind.name} state; {start_empty(descriptor.name)}"
                )
            changes = check_types(section, shape, self._where)
            # Added or removed times are written immediately, because a later program may enable the time to live again.
            new_times = clock_of(stored_ttl(section.schema)) != clock
            if new_times or any(change.migration for change in changes.values()):
                migrated.append(KeyGroup(int(section.table.column(GROUP_COLUMN).to_numpy().min())))
        for section in stored:
            self._load(table, section, shape)
        if migrated:
            self._migrating[descriptor.name] = min(migrated)
            self._rewrite(descriptor.name)
        return table

    def _rewrite(self, name: str) -> None:
        """Write the next part of a migrated state completely into this epoch's delta, replacing older sections."""
        first = self._migrating.pop(name)
        last = self._tables[name].rewrite(first)
        self._replacing.setdefault(name, []).append((first, self.groups.last if last is None else last))
        if last is not None:
            self._migrating[name] = KeyGroup(last + 1)

    def _load(self, table: Any, section: Section, shape: StateShape) -> None:
        self._note_size(section)
        for part in self._slices(section):
            table.load(read_rows(part, shape, group_of=self._group_of))

    def _check_same(self, known: StateDescriptor, descriptor: StateDescriptor) -> None:
        if known.kind != descriptor.kind or known.type_info != descriptor.type_info:
            raise StateError(
                f"{self._where}: state {descriptor.name!r} was registered twice with different types: "
                f"first {known!r}, now {descriptor!r}"
            )

    def _check_queryable(self, descriptor: StateDescriptor) -> None:
        for known, _ in self._states.values():
            if known.queryable_name is not None and known.queryable_name == descriptor.queryable_name:
                raise StateError(
                    f"{self._where}: states {known.name!r} and {descriptor.name!r} both have the queryable name "
                    f"{known.queryable_name!r}; give one of them another name"
                )

    def _all_tables(self) -> list[Any]:
        return [*self._tables.values(), self.event_timers, self.processing_timers]

    def _sections(self, export: Callable[[Any], Any]) -> list[Section]:
        sections = []
        for name, table in self._tables.items():
            rows = export(table)
            if rows is not None:
                shape = self._shapes[name]
                section = write_rows(self.operator, name, shape, rows, self._group_of, self._where, table.form)
                if name in self._replacing:
                    section = replace(section, schema={**section.schema, **replacing_groups(self._replacing[name])})
                self._note_size(section)
                sections.append(section)
        timers = ((EVENT_TIMERS, self.event_timers), (PROCESSING_TIMERS, self.processing_timers))
        for name, queue in timers:
            rows = export(queue)
            if rows is not None:
                shape = TIMER_SHAPE.with_key(self._key_type)
                sections.append(write_rows(self.operator, name, shape, rows, self._group_of, self._where))
                self._note_size(sections[-1])
        return sections

    def _note_size(self, section: Section) -> None:
        """Update the size estimate of entries; a row of a list or map is only a part of an entry, and is ignored."""
        rows = section.table.num_rows
        if rows and section_kind(section.kind).rows_are_entries:
            size = section.table.nbytes / rows
            self._entry_bytes[section.state] = (3 * self._entry_bytes.get(section.state, size) + size) / 4


def immutable_type(type_info: TypeInformation) -> bool:
    """Whether all values of a type are immutable."""
    if isinstance(type_info, TupleTypeInfo):
        return all(map(immutable_type, type_info.get_field_types()))
    return isinstance(type_info, BasicTypeInfo)
