"""Two kinds of keyed state that Tidemill does not have, each as an engineer would add it.

A *counter* is stored as a value is. A *set* has a kind of sections of its own, and so tables of its own. Besides these
classes, all that makes them known are the entries in :func:`add_made_up_kinds`.
"""

from __future__ import annotations

import operator
from typing import Any, Final

import pytest

from tidemill.common.typeinfo import TypeInformation, Types
from tidemill.datastream.functions.state import State
from tidemill.datastream.state import StateDescriptor
from tidemill.state.files.section_kinds import SECTION_KINDS, SectionKind
from tidemill.state.keyed.collection_states import KeyedMapState
from tidemill.state.keyed.immutable_states import ImmutableState
from tidemill.state.keyed.kinds import KINDS, VALUES, StateKind, StateTables
from tidemill.state.keyed.single_states import SingleValueState
from tidemill.state.keyed.tables import MISSING, MapTable
from tidemill.state.keyed.ttl_states import TtlMapState, TtlSingleState
from tidemill.state.keyed.undo import WatchedMapState, WatchedSingleState
from tidemill.state.rocksdb.map_table import StoredMapTable

# --- counter


class CounterStateDescriptor(StateDescriptor):
    kind = "counter"

    def __init__(self, name: str) -> None:
        super().__init__(name, Types.LONG())


class KeyedCounterState(SingleValueState, State):
    def get(self) -> int:
        value = self._get()
        return 0 if value is MISSING else int(value)

    def increment(self, by: int = 1) -> None:
        self._put(self.get() + by)

    def peek(self) -> int:
        return self.get()


class WatchedCounterState(WatchedSingleState, KeyedCounterState):
    """All goes through ``_get`` and ``clear``, which are watched."""


class TtlCounterState(TtlSingleState, State):
    def get(self) -> int:
        found = self._read()
        return 0 if found is None else int(found.value)

    def increment(self, by: int = 1) -> None:
        self._accessed()
        self._combine(by, self._ttl.access_time(), operator.add)

    def peek(self) -> int:
        found = self._visible(self._inner.value())
        return 0 if found is None else int(found.value)


class ImmutableCounterState(ImmutableState):
    def get(self) -> int:
        return int(self._content)


COUNTER: Final = StateKind(
    CounterStateDescriptor,
    VALUES,
    state=KeyedCounterState,
    watched=WatchedCounterState,
    expiring=TtlCounterState,
    immutable=ImmutableCounterState,
    stored_by=KINDS["value"],
)


# --- set: a map whose values say nothing

ELEMENTS: Final = SectionKind("elements", entry_column="user_key")


class SetStateDescriptor(StateDescriptor):
    kind = "set"

    def __init__(self, name: str, element_type: TypeInformation) -> None:
        super().__init__(name, Types.LIST(element_type))
        self.element_type = element_type


class SetTable(MapTable):
    section_kind = ELEMENTS


class StoredSetTable(StoredMapTable):
    section_kind = ELEMENTS


class KeyedSetState(KeyedMapState):
    def add(self, element: Any) -> None:
        self.put(element, True)

    def get_all(self) -> set[Any]:
        return set(self.keys())

    def peek(self) -> set[Any]:
        return self.get_all()

    def replace(self, content: Any) -> None:
        super().replace(dict.fromkeys(content, True))


class WatchedSetState(WatchedMapState, KeyedSetState):
    pass


class TtlSetState(TtlMapState):
    def add(self, element: Any) -> None:
        self.put(element, True)

    def get_all(self) -> set[Any]:
        return set(self.keys())


class ImmutableSetState(ImmutableState):
    def get_all(self) -> set[Any]:
        return set(self._content)


SET: Final = StateKind(
    SetStateDescriptor,
    StateTables(SetTable, f"{__name__}.StoredSetTable"),
    state=KeyedSetState,
    watched=WatchedSetState,
    expiring=TtlSetState,
    immutable=ImmutableSetState,
    value_type=lambda descriptor: Types.BOOLEAN(),
    user_key_type=lambda descriptor: descriptor.element_type,
    shown=lambda descriptor, stored: set(stored),
)


def add_made_up_kinds(patch: pytest.MonkeyPatch) -> None:
    """What an engineer writes into the two registries, until the patch is taken back."""
    patch.setitem(SECTION_KINDS, ELEMENTS.name, ELEMENTS)
    for kind in (COUNTER, SET):
        patch.setitem(KINDS, kind.name, kind)
