"""Undoes the changes that one call of a user function made to keyed state and timers.

An operator that diverts failing records continues after a call that raised, so the changes of that call must be undone.
The states of such an operator are *watched*: before the first change or read of an entry in a call, they record the
previous content of the entry. Reads are recorded too, because they return an object that the function may change in
place. Only what the call touches is recorded: an entry of a map, the length of a list that is appended to. Operators
without such a policy have plain states, at no cost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Final

from tidemill.datastream.functions.state import Entries, pairs_of
from tidemill.state.codecs.copies import ATOMIC, detached
from tidemill.state.keyed.collection_states import KeyedListState, KeyedMapState
from tidemill.state.keyed.single_states import (
    KeyedAggregatingState,
    KeyedReducingState,
    KeyedValueState,
    SingleValueState,
)
from tidemill.state.keyed.tables import MISSING, Table
from tidemill.state.keyed.timers import Timers
from tidemill.state.keys.canonical_key import SIMPLE_TYPES

__all__ = [
    "UndoLog",
    "WatchedAggregatingState",
    "WatchedListState",
    "WatchedMapState",
    "WatchedReducingState",
    "WatchedSingleState",
    "WatchedValueState",
]

Step = Callable[[], object]


class UndoLog:
    """The steps to undo a call. Nothing is recorded outside of :meth:`begin` and its end."""

    def __init__(self) -> None:
        self._active = False
        self._steps: list[Step] = []
        self._noted: set[Any] = set()

    def begin(self) -> None:
        """Begin a call."""
        self._active = True
        self._steps.clear()
        self._noted.clear()

    def keep(self) -> None:
        """End a successful call: nothing is undone."""
        self._active = False

    def roll_back(self) -> None:
        """Restore everything to the state at the beginning of the call."""
        self._active = False  # a step may use a watched method
        for step in reversed(self._steps):
            step()

    def first(self, place: Any) -> bool:
        """Whether ``place`` must be recorded now, because this is its first use in this call."""
        if not self._active or place in self._noted:
            return False
        self._noted.add(place)
        return True

    def note(self, step: Step) -> None:
        """Record how to undo a change.

        ``step`` must keep a reference to the object whose id is part of the place passed to :meth:`first`, so that no
        other object can get that id during the call.
        """
        if self._active:
            self._steps.append(step)

    def watch_state(self, state: Any, watched: type) -> None:
        """Record what the methods of a newly registered state are about to change.

        ``watched`` is the class that does so for states of its kind.
        """
        state.__class__ = watched
        state._undo = self

    def watch_timers(self, timers: Timers) -> None:
        """Record which timers are registered and deleted. A timer that has fired is not restored."""
        register, delete = timers.register, timers.delete

        def noted_register(time: int, key: Any, namespace: Any = None) -> None:
            if self._active and (time, key, namespace) not in timers:
                self.note(lambda: delete(time, key, namespace))
            register(time, key, namespace)

        def noted_delete(time: int, key: Any, namespace: Any = None) -> None:
            if self._active and (time, key, namespace) in timers:
                self.note(lambda: register(time, key, namespace))
            delete(time, key, namespace)

        timers.register = noted_register  # type: ignore[method-assign]
        timers.delete = noted_delete  # type: ignore[method-assign]


#: Types whose values need no copy.
_NEVER_CHANGED: Final = ATOMIC | {type(MISSING)}


def _copied(table: Table, value: Any) -> Any:
    return value if type(value) in _NEVER_CHANGED or table.unshared else detached(value)


class WatchedSingleState(SingleValueState):
    """Value, reducing and aggregating state: records the value, as a copy if it can be changed in place."""

    _undo: UndoLog

    def _note(self) -> None:
        undo, overlay, key = self._undo, self._overlay, self._context.key
        if undo.first((id(overlay), key)):
            before = overlay.get(key, MISSING)
            undo.note(partial(_put_back_read, overlay, key, _copied(self._table, before), self._reads))

    def _get(self) -> Any:
        self._note()
        return super()._get()

    def clear(self) -> None:
        self._note()
        super().clear()

    def get_each(self, keys: Sequence[Any]) -> list[Any]:
        return super().get_each(self._note_each(keys))

    def put_each(self, keys: Sequence[Any], contents: Sequence[Any]) -> None:
        super().put_each(self._note_each(keys), contents)

    def _note_each(self, keys: Iterable[Any]) -> list[Any]:
        noted = []
        for self._context.key in keys:
            self._note()
            noted.append(self._context.key)
        return noted


class WatchedValueState(WatchedSingleState, KeyedValueState):
    """ValueState whose calls can be undone."""

    def value(self) -> Any:
        self._note()
        return super().value()

    def update(self, value: Any) -> None:
        self._note()
        super().update(value)


class WatchedReducingState(WatchedSingleState, KeyedReducingState):
    """ReducingState whose calls can be undone."""

    def add_each(self, keys: Iterable[Any], values: Iterable[Any]) -> list[Any]:
        return super().add_each(self._note_each(keys), values)


class WatchedAggregatingState(WatchedSingleState, KeyedAggregatingState):
    """AggregatingState whose calls can be undone."""

    def add_each(self, keys: Iterable[Any], values: Iterable[Any]) -> list[Any]:
        return super().add_each(self._note_each(keys), values)


class WatchedListState(KeyedListState):
    """ListState whose calls can be undone: an append records only a length, a read records the elements."""

    _undo: UndoLog

    def _note(self) -> None:
        key, overlay, reads = self._context.key, self._overlay, self._reads
        if self._undo.first((id(overlay), key)):
            before = overlay.get(key, MISSING)
            length = 0 if before is MISSING else len(before.items)

            def restore() -> None:
                _put_back(overlay, key, before)
                if before is not MISSING:
                    del before.items[length:]
                reads.clear()

            self._undo.note(restore)

    def _note_elements(self) -> None:
        self._note()
        change = self._overlay.get(self._context.key)
        if change is not None and self._undo.first((id(change), "elements")):
            items = [_copied(self._table, item) for item in change.items]

            def restore() -> None:
                change.items[:] = items

            self._undo.note(restore)

    def get(self) -> list[Any]:
        self._note_elements()
        return super().get()

    def add(self, value: Any) -> None:
        self._note()
        super().add(value)

    def add_all(self, values: Iterable[Any]) -> None:
        self._note()
        super().add_all(values)

    def add_each(self, keys: Iterable[Any], values: Iterable[Any]) -> list[Any]:
        noted = []
        for self._context.key in keys:
            self._note()
            noted.append(self._context.key)
        return super().add_each(noted, values)

    def update(self, values: Iterable[Any]) -> None:
        self._note()
        super().update(values)

    def clear(self) -> None:
        self._note()
        super().clear()


class WatchedMapState(KeyedMapState):
    """MapState whose calls can be undone, entry by entry."""

    _undo: UndoLog

    def _note(self) -> None:
        key, overlay, reads = self._context.key, self._overlay, self._reads
        if self._undo.first((id(overlay), key)):
            self._undo.note(partial(_put_back_read, overlay, key, overlay.get(key, MISSING), reads))

    def _note_entry(self, user_key: Any) -> None:
        self._note()
        change = self._overlay.get(self._context.key)
        if change is not None and self._undo.first((id(change.entries), user_key)):
            entries, before = change.entries, _copied(self._table, change.entries.get(user_key, MISSING))
            self._undo.note(partial(_put_back, entries, user_key, before))

    def _note_all(self) -> None:
        """Record all entries with their order, which is lost when one is removed."""
        self._note()
        change = self._overlay.get(self._context.key)
        if change is not None and self._undo.first((id(change.entries), _WHOLE)):
            entries = change.entries
            before = {user_key: _copied(self._table, value) for user_key, value in entries.items()}

            def restore() -> None:
                entries.clear()
                entries.update(before)

            self._undo.note(restore)

    def _entry(self, user_key: Any) -> Any:
        self._note_entry(user_key)
        return super()._entry(user_key)

    def _items(self) -> list[tuple[Any, Any]]:
        self._note_all()
        return super()._items()

    def put(self, key: Any, value: Any) -> None:
        self._note_entry(key if type(key) in SIMPLE_TYPES else self._checked(key))
        super().put(key, value)

    def put_all(self, dict_value: Entries[Any, Any]) -> None:
        pairs = list(pairs_of(dict_value))
        for key, _ in pairs:
            self._note_entry(key if type(key) in SIMPLE_TYPES else self._checked(key))
        super().put_all(pairs)

    def remove(self, key: Any) -> None:
        self._note_all()
        super().remove(key)

    def clear(self) -> None:
        self._note()
        super().clear()


def _put_back_read(entries: dict[Any, Any], key: Any, before: Any, reads: dict[Any, Any]) -> None:
    _put_back(entries, key, before)
    reads.clear()


def _put_back(entries: dict[Any, Any], key: Any, before: Any) -> None:
    if before is MISSING:
        entries.pop(key, None)
    else:
        entries[key] = before


#: Represents all entries of a map.
_WHOLE: Final = object()
