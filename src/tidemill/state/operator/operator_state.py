"""The operator state of one operator in one subtask: list, union list, broadcast and raw state.

It is stored in sections like any other state: list rows (list, union and raw state) and map rows (broadcast state)
whose key is the number of the subtask that wrote them, and whose ``schema`` has ``operator_state``: how the state is
redistributed. All rows belong to key group 0, whatever the max parallelism: they are redistributed by subtask, not by
key. An additional section contains the parallelism at which each subtask wrote.

A restored subtask gets the sections of all former subtasks. If the parallelism was different, its first delta updates
storage accordingly: each subtask writes its current state, and the entries of former subtasks that no longer exist are
deleted (:mod:`tidemill.state.operator.redistribution` decides which subtask does so).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Final

from tidemill.common.typeinfo import Types
from tidemill.datastream.functions.state import OperatorStateStore
from tidemill.datastream.functions.state_descriptors import ListStateDescriptor, MapStateDescriptor, StateDescriptor
from tidemill.errors import StateError, StateMigrationError
from tidemill.state.codecs.column_codecs import codec_for
from tidemill.state.codecs.normal_form import NormalForm, normal_form, one_key_form
from tidemill.state.files.replacing import replacing_subtasks, without_replaced
from tidemill.state.files.rows import DELETE, PUT, Rows
from tidemill.state.files.section_kinds import VALUE
from tidemill.state.files.sections import StateShape, check_types, read_rows, write_rows
from tidemill.state.files.state_file import Section
from tidemill.state.keyed.kinds import kind_of, shape_of, tables_of
from tidemill.state.keyed.tables import ValueTable
from tidemill.state.keyed.undo import UndoLog
from tidemill.state.keys.key_groups import GroupCache, KeyGroup, Subtask
from tidemill.state.operator.lists import OperatorListState
from tidemill.state.operator.maps import OperatorMapState
from tidemill.state.operator.redistribution import copied_from, dealt, given_up, union

__all__ = [
    "BROADCAST",
    "FILES",
    "LAYOUT",
    "ONLY_GROUP",
    "OPERATOR_STATE",
    "SPLIT",
    "OperatorStateBackend",
    "is_operator_state",
    "stored_name",
]

#: The entry of a section's schema that specifies how its state is redistributed.
OPERATOR_STATE: Final = "operator_state"
#: The key group of all rows.
ONLY_GROUP: Final = KeyGroup(0)

SPLIT: Final = "split"
UNION: Final = "union"
BROADCAST: Final = "broadcast"
RAW: Final = "raw"
LAYOUT: Final = "layout"
#: Belongs to the driver, and is not redistributed (:mod:`tidemill.runtime.driver.files_read`).
FILES: Final = "files"

#: The assumed size of an element for memory budgets: the element, its slot in a list, and its fingerprint.
ENTRY_BYTES: Final = 200

_LAYOUT_STATE: Final = "__operator_subtasks"
_RAW_STATE: Final = "__raw_operator_state"
_PREFIXES: Final = {SPLIT: "__operator:", UNION: "__operator:", BROADCAST: "__broadcast:", RAW: ""}

OperatorState = OperatorListState | OperatorMapState


def is_operator_state(section: Section) -> bool:
    """Whether a section contains operator state; other sections contain keyed state."""
    return OPERATOR_STATE in section.schema


def stored_name(mode: str, name: str) -> str:
    """The name of a state in storage; it is prefixed, because states of different modes may have the same name."""
    return f"{_PREFIXES[mode]}{name}"


@dataclass
class _Registered:
    """A state and its declaration; ``gone`` are former subtasks whose entries this one still has to delete.

    ``migrated``: the state was migrated, and no delta that contains it completely has been committed yet.
    """

    mode: str
    state: OperatorState
    shape: StateShape
    descriptor: StateDescriptor | None
    gone: list[Subtask]
    migrated: bool = False


class OperatorStateBackend(OperatorStateStore):
    """Operator state in memory, for every backend of keyed state.

    ``load`` applies sections of committed state, oldest first, before anything is registered. An epoch consists of
    ``begin_epoch``, reads and writes, and ``export_delta``; then ``fold`` if its manifest named this attempt.
    Otherwise, the object is dropped.
    """

    def __init__(
        self, operator: str, where: str, subtask: Subtask, parallelism: int, *, strict_types: bool = False
    ) -> None:
        # configuration
        self.operator = operator
        self._where = where
        self._subtask = subtask
        self._parallelism = parallelism
        self._strict_types = strict_types
        # transient
        self._unclaimed: dict[str, list[Section]] = {}
        self._group_of = GroupCache(1)
        # checkpointed
        self._states: dict[str, _Registered] = {}
        self._layout = ValueTable()

    # --- called by functions

    def get_list_state(self, state_descriptor: ListStateDescriptor) -> OperatorListState:
        """A list whose elements are redistributed evenly."""
        return self._list(SPLIT, state_descriptor)

    def get_union_list_state(self, state_descriptor: ListStateDescriptor) -> OperatorListState:
        """A list that is restored to each subtask with the elements of all subtasks."""
        return self._list(UNION, state_descriptor)

    def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> OperatorMapState:
        """A map that is the same on all subtasks."""
        if not isinstance(state_descriptor, MapStateDescriptor):
            raise self._wrong_descriptor("broadcast", MapStateDescriptor, state_descriptor)
        state: OperatorMapState = self._register(BROADCAST, state_descriptor)
        return state

    def get_registered_state_names(self) -> set[str]:
        """The names of the list states, registered or restored."""
        return self._names(SPLIT)

    def get_registered_broadcast_state_names(self) -> set[str]:
        """The names of the broadcast states, registered or restored."""
        return self._names(BROADCAST)

    def raw_state(self) -> OperatorListState:
        """The partitions of raw state."""
        return self._list(RAW, ListStateDescriptor(_RAW_STATE, Types.PRIMITIVE_ARRAY(Types.BYTE())))

    def has_raw_state(self) -> bool:
        """Whether raw state was ever written."""
        return _RAW_STATE in self._states or _RAW_STATE in self._unclaimed

    # --- called by the runtime

    def load(self, section: Section) -> None:
        """Apply one section of committed state; sections must be applied oldest first."""
        if section.state == _LAYOUT_STATE:
            self._layout.load(read_rows(section))
        else:
            self._unclaimed.setdefault(section.state, []).append(section)

    def begin_epoch(self) -> None:
        """Begin a new epoch; the changes of the last one have been folded."""
        for registered in self._states.values():
            if isinstance(registered.state, OperatorMapState):
                registered.state.begin_epoch()

    def note_changes_in(self, undo: UndoLog) -> None:
        """Record the current content of all states when a call begins; the cost is proportional to their size."""
        for registered in self._states.values():
            undo.note(registered.state.undo_point())

    def export_delta(self) -> list[Section]:
        """The changes since the last fold, one section per changed state."""
        if self._former_parallelism() not in (None, self._parallelism):
            self._claim_all()
        sections = []
        for name, registered in self._states.items():
            rows = Rows()
            for former in registered.gone:
                registered.state.export_removal(rows, former)
            registered.state.export_delta(rows, self._subtask)
            shape = registered.shape
            if registered.migrated:
                whole = replacing_subtasks([self._subtask, *registered.gone])
                shape = replace(shape, schema={**shape.schema, **whole})
            sections += self._section(name, shape, rows, registered.state.form)
        return [*sections, *self._export_layout()]

    def export_all(self) -> list[Section]:
        """Everything that this subtask stores, after a fold."""
        self._claim_all()
        sections = []
        for name, registered in self._states.items():
            rows = Rows()
            registered.state.export_all(rows, self._subtask)
            sections += self._section(name, registered.shape, rows, registered.state.form)
        if self._states:
            sections += self._section(_LAYOUT_STATE, _LAYOUT_SHAPE, self._layout_row())
        return sections

    def fold(self) -> None:
        """Mark the last delta as committed."""
        for registered in self._states.values():
            registered.state.fold()
            registered.gone.clear()
            registered.migrated = False
        self._layout.replay(self._layout_change())
        self._layout.fold()

    def declared(self) -> dict[str, StateShape]:
        """The registered states by their name in storage, as the program declares them."""
        return {name: registered.shape for name, registered in self._states.items()}

    def entries(self) -> int:
        """The number of elements and entries over all states."""
        return sum(registered.state.entries() for registered in self._states.values())

    def sizes(self) -> dict[str, tuple[int, int | None]]:
        """The number of elements or entries by state; their size in bytes is unknown."""
        return {
            name.removeprefix(_PREFIXES[registered.mode]): (registered.state.entries(), None)
            for name, registered in self._states.items()
        }

    def memory(self) -> int:
        """The approximate number of bytes of the worker's memory that the state uses."""
        return self.entries() * ENTRY_BYTES

    def content(self, name: str) -> Any:
        """The content of a state as its function sees it: a list, or for broadcast state a dict."""
        for mode in (SPLIT, BROADCAST):
            registered = self._states.get(stored_name(mode, name))
            if registered is not None:
                return registered.state.content()
        known = sorted({*self._names(SPLIT), *self._names(BROADCAST)})
        raise StateError(f"{self._where} registered no operator state {name!r}, only {', '.join(known) or 'none'}")

    # --- registering

    def _list(self, mode: str, descriptor: ListStateDescriptor) -> OperatorListState:
        if not isinstance(descriptor, ListStateDescriptor):
            raise self._wrong_descriptor("list", ListStateDescriptor, descriptor)
        state: OperatorListState = self._register(mode, descriptor)
        return state

    def _register(self, mode: str, descriptor: StateDescriptor) -> Any:
        if descriptor.ttl_config is not None:
            raise StateError(f"{self._where}: operator state {descriptor.name!r} cannot have a time to live")
        name = stored_name(mode, descriptor.name)
        known = self._states.get(name)
        if known is not None and known.descriptor is not None:
            if known.mode != mode or known.descriptor.type_info != descriptor.type_info:
                raise StateError(
                    f"{self._where}: operator state {descriptor.name!r} was registered twice: first as {known.mode} "
                    f"state {known.descriptor!r}, now as {mode} state {descriptor!r}"
                )
            return known.state
        shape = shape_of(descriptor, Types.LONG())
        shape = replace(shape, schema={**shape.schema, OPERATOR_STATE: mode})
        return self._claim(name, mode, shape, descriptor).state

    def _claim(self, name: str, mode: str, shape: StateShape, descriptor: StateDescriptor | None) -> _Registered:
        """Register a state with the content that is stored under a name, if any."""
        table = tables_of(shape.kind).memory()
        sections = without_replaced(self._unclaimed.pop(name, ()))
        migrated = False
        for section in sections:  # checked before any value is read
            found = section.schema[OPERATOR_STATE]
            if found != mode:
                raise StateMigrationError(
                    f"{self._where}: operator state {name.partition(':')[2]!r} is stored as {found} state, but the "
                    f"program now registers it as {mode} state; give it another name"
                )
            changes = check_types(section, shape, self._where)
            migrated = migrated or any(change.migration for change in changes.values())
        for section in sections:
            table.load(read_rows(section, shape))
        rows = table.export_all() or Rows()
        state: OperatorState
        if mode == BROADCAST:
            state = self._broadcast_of(rows, descriptor, migrated)
        else:
            state = self._list_of(rows, mode, descriptor, migrated)
        gone = given_up(set(rows.keys), self._subtask, self._parallelism)
        registered = self._states[name] = _Registered(mode, state, shape, descriptor, gone, migrated)
        return registered

    def _claim_all(self) -> None:
        """Claim states that the program does not register, so that they are redistributed and kept like all others."""
        for name, sections in list(self._unclaimed.items()):
            last, unknown = sections[-1], codec_for(None)
            shape = StateShape(last.kind, unknown, unknown, unknown, schema=last.schema)
            self._claim(name, last.schema[OPERATOR_STATE], shape, None)

    def _list_of(self, rows: Rows, mode: str, descriptor: StateDescriptor | None, migrated: bool) -> OperatorListState:
        stored = dict(zip(rows.keys, rows.values, strict=True))
        parts = dealt(stored, self._former_parallelism() or self._parallelism, self._parallelism)
        everybodys = union(stored) if mode == UNION and stored else None
        mine = parts[self._subtask]
        # Migrated state is rewritten completely; if none is left, the stored entry must still be deleted.
        before = () if migrated and mine else stored.get(self._subtask, ())
        return OperatorListState(mine, before, everybodys, self._form_of(descriptor))

    def _broadcast_of(self, rows: Rows, descriptor: StateDescriptor | None, migrated: bool) -> OperatorMapState:
        stored: dict[Subtask, dict[Any, Any]] = {}
        for subtask, key, value in zip(rows.keys, rows.user_keys, rows.values, strict=True):
            stored.setdefault(subtask, {})[key] = value
        former = self._former_parallelism() or self._parallelism
        mine = stored.get(self._subtask, {}) if self._subtask < former and not migrated else None
        whole = stored.get(copied_from(self._subtask, former), {})
        keys = None if descriptor is None else kind_of(descriptor).user_key_type(descriptor)
        return OperatorMapState(whole, mine, self._form_of(descriptor), one_key_form(keys))

    # --- at which parallelism

    def _former_parallelism(self) -> int | None:
        """The number of subtasks that wrote the stored state, None if nothing is stored."""
        rows = self._layout.export_all()
        return None if rows is None else int(rows.values[0])

    def _layout_row(self) -> Rows:
        return Rows(keys=[self._subtask], ops=[PUT], values=[self._parallelism])

    def _layout_change(self) -> Rows:
        stored = self._layout.export_all() or Rows()
        known = dict(zip(stored.keys, stored.values, strict=True))
        rows = Rows()
        if self._states and known.get(self._subtask) != self._parallelism:
            rows = self._layout_row()
        if self._states:
            for former in given_up(known, self._subtask, self._parallelism):
                rows.keys.append(former)
                rows.ops.append(DELETE)
                rows.values.append(None)
        return rows

    def _export_layout(self) -> list[Section]:
        return self._section(_LAYOUT_STATE, _LAYOUT_SHAPE, self._layout_change())

    def _section(self, name: str, shape: StateShape, rows: Rows, form: NormalForm | None = None) -> list[Section]:
        if not rows.keys:
            return []
        return [write_rows(self.operator, name, shape, rows, self._group_of, self._where, form)]

    def _names(self, mode: str) -> set[str]:
        prefix = _PREFIXES[mode]
        known: Iterable[str] = {*self._states, *self._unclaimed}
        return {name.removeprefix(prefix) for name in known if name.startswith(prefix)}

    def _form_of(self, descriptor: StateDescriptor | None) -> NormalForm | None:
        """The form of stored values of a state that the program declares."""
        if descriptor is None:
            return None
        return normal_form(kind_of(descriptor).value_type(descriptor), strict=self._strict_types)

    def _wrong_descriptor(self, kind: str, wanted: type, found: Any) -> StateError:
        return StateError(
            f"{self._where}: {kind} state is registered with a {wanted.__name__}, not {type(found).__name__}"
        )


_LAYOUT_SHAPE: Final = StateShape(
    VALUE.name, codec_for(Types.LONG()), codec_for(Types.LONG()), schema={OPERATOR_STATE: LAYOUT}
)
