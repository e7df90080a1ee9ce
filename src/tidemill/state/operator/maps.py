"""Broadcast state of a subtask: a map in memory that tracks which of its entries changed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NoReturn

from tidemill.datastream.functions.state import BroadcastState, Entries, ReadOnlyBroadcastState, pairs_of
from tidemill.errors import StateError
from tidemill.state.codecs.copies import ATOMIC, detached
from tidemill.state.codecs.normal_form import NormalForm
from tidemill.state.files.rows import CLEAR, DELETE, PUT, Rows
from tidemill.state.keyed.elements import Elements
from tidemill.state.keyed.tables import MISSING
from tidemill.state.keys.key_groups import Subtask


class OperatorMapState(BroadcastState[Any, Any]):
    """The map of one subtask. Values are copied on write and on read: only ``put`` changes an entry.

    Entries keep the order in which they were first put, even after a restore.
    """

    kind: Final = "map"

    def __init__(
        self,
        own: Mapping[Any, Any],
        stored: Mapping[Any, Any] | None,
        form: NormalForm | None = None,
        formed_key: Callable[[Any], Any] = lambda key: key,
    ) -> None:
        """``own`` is the subtask's map, ``stored`` the stored one: the same, or None if nothing is stored.

        ``form`` is the form of stored values, None: unchanged; ``formed_key`` converts keys to their stored form.
        """
        # configuration
        self.form = form
        self._formed_key = formed_key
        # transient
        self._cleared = False
        #: Keys changed since the last fold, in the order in which they were added; the value is whether they are
        #: stored.
        self._touched: dict[Any, bool] = dict.fromkeys(own, False) if stored is None else {}
        #: Those of these keys that are stored at another position of the order.
        self._moved: set[Any] = set()
        self._reads: dict[Any, Any] = {}
        # checkpointed
        self._entries = dict(own)

    def get(self, key: Any) -> Any:
        """The value of one entry, None if it does not exist."""
        return detached(self._entries.get(self._formed_key(key)))

    def contains(self, key: Any) -> bool:
        """Whether the entry exists."""
        return self._formed_key(key) in self._entries

    def items(self) -> Elements[tuple[Any, Any]]:
        """All entries, in the order in which their keys were first put."""
        return Elements([(key, detached(value)) for key, value in self._entries.items()])

    def keys(self) -> Elements[Any]:
        """The keys of all entries."""
        return Elements(self._entries)

    def values(self) -> Elements[Any]:
        """The values of all entries."""
        return Elements([detached(value) for value in self._entries.values()])

    def is_empty(self) -> bool:
        """Whether there are no entries."""
        return not self._entries

    def put(self, key: Any, value: Any) -> None:
        """Set one entry."""
        key = self._formed_key(key)
        stored = self._is_stored(key)
        if key not in self._entries:
            # It is added after all others, and so is its record.
            self._touched.pop(key, None)
            if stored:
                self._moved.add(key)
        self._touched[key] = stored
        self._entries[key] = detached(value if self.form is None else self.form.put(value))
        self._reads.pop(key, None)

    def put_all(self, dict_value: Entries[Any, Any]) -> None:
        """Set several entries."""
        for key, value in pairs_of(dict_value):
            self.put(key, value)

    def remove(self, key: Any) -> None:
        """Remove one entry; no effect if it does not exist."""
        key = self._formed_key(key)
        if key in self._entries:
            self._touched[key] = self._is_stored(key)
            del self._entries[key]
            self._reads.pop(key, None)

    def clear(self) -> None:
        """Remove all entries."""
        # Keys that were removed earlier are still in storage.
        self._cleared = self._cleared or any(map(self._is_stored, {**self._touched, **self._entries}))
        self._touched.clear()
        self._moved.clear()
        self._entries.clear()
        self._reads.clear()

    def undo_point(self) -> Callable[[], None]:
        """A function that restores the current map."""
        cleared, touched, moved, entries = self._cleared, dict(self._touched), set(self._moved), dict(self._entries)

        def restore() -> None:
            self._cleared, self._touched, self._moved, self._entries = cleared, touched, moved, entries
            self._reads.clear()

        return restore

    def begin_epoch(self) -> None:
        """Drop the copies that were returned to readers."""
        self._reads.clear()

    def content(self) -> dict[Any, Any]:
        """All entries."""
        return dict(self.items())

    def entries(self) -> int:
        """Number of entries."""
        return len(self._entries)

    def export_delta(self, rows: Rows, subtask: Subtask) -> None:
        """Add the changes since the last fold: first deletions, then existing entries, new keys in their order."""
        if self._cleared:
            _append(rows, subtask, CLEAR, None, None)
        for key, stored in self._touched.items():
            if stored and (key in self._moved or key not in self._entries):
                _append(rows, subtask, DELETE, key, None)
        for key in self._touched:
            if key in self._entries:
                _append(rows, subtask, PUT, key, self._entries[key])

    def export_all(self, rows: Rows, subtask: Subtask) -> None:
        """Add all entries."""
        for key, value in self._entries.items():
            _append(rows, subtask, PUT, key, value)

    def fold(self) -> None:
        """Mark the last export as committed. Values then have the form in which storage returns them."""
        if self.form is not None:
            changed = [key for key in self._touched if key in self._entries]
            values = [self._entries[key] for key in changed]
            if (settled := self.form.settled(values)) is not values:
                self._entries.update(zip(changed, settled, strict=True))
                self._reads.clear()
        self._cleared = False
        self._touched.clear()
        self._moved.clear()

    @staticmethod
    def export_removal(rows: Rows, subtask: Subtask) -> None:
        """Add the deletion of the state of a former subtask."""
        _append(rows, subtask, CLEAR, None, None)

    def read(self, key: Any) -> Any:
        """A value for the non-broadcast side: one copy per epoch and change, however often it is read."""
        key = self._formed_key(key)
        value = self._entries.get(key)
        if type(value) in ATOMIC:
            return value
        copied = self._reads.get(key, MISSING)
        if copied is MISSING:
            copied = self._reads[key] = detached(value)
        return copied

    def _is_stored(self, key: Any) -> bool:
        """Whether storage has an entry with this key that was not cleared since."""
        known = self._touched.get(key)
        return known if known is not None else key in self._entries


class ReadOnlyMapState(ReadOnlyBroadcastState[Any, Any]):
    """Broadcast state as the non-broadcast side sees it."""

    def __init__(self, state: OperatorMapState, name: str, where: str) -> None:
        self._state = state
        self._name = name
        self._where = where

    def get(self, key: Any) -> Any:
        """The value of one entry, None if it does not exist."""
        return self._state.read(key)

    def contains(self, key: Any) -> bool:
        """Whether the entry exists."""
        return self._state.contains(key)

    def items(self) -> Elements[tuple[Any, Any]]:
        """All entries, in the order in which their keys were first put."""
        return Elements([(key, self._state.read(key)) for key in self._state])

    def keys(self) -> Elements[Any]:
        """The keys of all entries."""
        return self._state.keys()

    def values(self) -> Elements[Any]:
        """The values of all entries."""
        return Elements([self._state.read(key) for key in self._state])

    def is_empty(self) -> bool:
        """Whether there are no entries."""
        return self._state.is_empty()

    def put(self, key: Any, value: Any) -> NoReturn:
        """Not supported: raises :class:`StateError`."""
        self._refuse("put()")

    def put_all(self, dict_value: Entries[Any, Any]) -> NoReturn:
        """Not supported: raises :class:`StateError`."""
        self._refuse("put_all()")

    def remove(self, key: Any) -> NoReturn:
        """Not supported: raises :class:`StateError`."""
        self._refuse("remove()")

    def clear(self) -> NoReturn:
        """Not supported: raises :class:`StateError`."""
        self._refuse("clear()")

    def __setitem__(self, key: Any, value: Any) -> NoReturn:
        self._refuse("assigning an entry")

    def __delitem__(self, key: Any) -> NoReturn:
        self._refuse("deleting an entry")

    def _refuse(self, what: str) -> NoReturn:
        raise StateError(
            f"{what} of broadcast state {self._name!r} of {self._where}: on this side it can only be read. "
            "Change it in process_broadcast_element(), which every subtask runs for the same elements."
        )


def _append(rows: Rows, subtask: Subtask, op: int, key: Any, value: Any) -> None:
    rows.keys.append(subtask)
    rows.ops.append(op)
    rows.user_keys.append(key)
    rows.values.append(value)
