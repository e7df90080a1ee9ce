"""Taking back what one call of a user function did to keyed state and timers.

An operator that puts failing records aside goes on behind a call that raised, so what the call had changed by then must
be as it was before. States of such an operator are *watched*: before the first change or read of an entry in a call
they note how the entry was. A read counts too, as it hands out an object that the function may change in place. What is
noted is what the call touches: an entry of a map, the length of a list that is appended to. Operators without such a
policy have plain states, and pay nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final

from tidemill.state.codecs.copies import ATOMIC, detached
from tidemill.state.keyed.keyed_states import (
    KeyedAggregatingState,
    KeyedListState,
    KeyedMapState,
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
    """What must be done to take a call back. Nothing is noted outside of :meth:`begin` and its end."""

    def __init__(self) -> None:
        self._active = False
        self._steps: list[Step] = []
        self._noted: set[Any] = set()

    def begin(self) -> None:
        """A call begins."""
        self._active = True
        self._steps.clear()
        self._noted.clear()

    def keep(self) -> None:
        """The call has succeeded: nothing is taken back."""
        self._active = False

    def roll_back(self) -> None:
        """Everything is as it was when the call began."""
        self._active = False  # a step may use a watched method
        for step in reversed(self._steps):
            step()

    def first(self, place: Any) -> bool:
        """Whether something is to be noted now, for the first time in this call."""
        if not self._active or place in self._noted:
            return False
        self._noted.add(place)
        return True

    def note(self, step: Step) -> None:
        """Remember how to take something back. ``step`` must hold whatever the place given to :meth:`first` is the id
        of: then nothing else can get that id during the call."""
        if self._active:
            self._steps.append(step)

    def watch_state(self, state: Any, watched: type) -> None:
        """Note what a state's methods are about to change; it has just been registered. ``watched`` is the class that
        does so for states of its kind."""
        state.__class__ = watched
        state._undo = self

    def watch_timers(self, timers: Timers) -> None:
        """Note which timers are set and deleted. A timer that fires is gone for good."""
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


#: Types of what needs no copy.
_NEVER_CHANGED: Final = ATOMIC | {type(MISSING)}


def _copied(table: Table, value: Any) -> Any:
    return value if type(value) in _NEVER_CHANGED or table.unshared else detached(value)


class WatchedSingleState(SingleValueState):
    """Value, reducing and aggregating state: the value is noted as a copy, where it can be changed in place."""

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

    def _note_each(self, keys: Iterable[Any]) -> list[Any]:
        noted = []
        for self._context.key in keys:
            self._note()
            noted.append(self._context.key)
        return noted


class WatchedValueState(WatchedSingleState, KeyedValueState):
    """ValueState whose calls can be taken back."""

    def value(self) -> Any:
        self._note()
        return super().value()

    def update(self, value: Any) -> None:
        self._note()
        super().update(value)


class WatchedReducingState(WatchedSingleState, KeyedReducingState):
    """ReducingState whose calls can be taken back."""

    def add_each(self, keys: Iterable[Any], values: Iterable[Any]) -> list[Any]:
        return super().add_each(self._note_each(keys), values)


class WatchedAggregatingState(WatchedSingleState, KeyedAggregatingState):
    """AggregatingState whose calls can be taken back."""

    def add_each(self, keys: Iterable[Any], values: Iterable[Any]) -> list[Any]:
        return super().add_each(self._note_each(keys), values)


class WatchedListState(KeyedListState):
    """ListState whose calls can be taken back: appending notes a length only, reading notes the elements."""

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
    """MapState whose calls can be taken back, entry by entry."""

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
        """Note all entries with their order, which is lost where one is taken out."""
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

    def put_all(self, dict_value: dict[Any, Any]) -> None:
        for key in dict_value:
            self._note_entry(key if type(key) in SIMPLE_TYPES else self._checked(key))
        super().put_all(dict_value)

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


#: Stands for all entries of a map.
_WHOLE: Final = object()
