"""Keyed states of several entries per key, on the tables of any backend: list and map state."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tidemill.datastream.functions.state import Entries, ListState, MapState, pairs_of
from tidemill.state.codecs.copies import ATOMIC
from tidemill.state.codecs.normal_form import Unknown
from tidemill.state.keyed.context import KeyContext
from tidemill.state.keyed.elements import Elements
from tidemill.state.keyed.keyed_state import KeyedState
from tidemill.state.keyed.tables import DELETED, MISSING, ListChange, ListTable, MapChange, MapTable
from tidemill.state.keys.canonical_key import SIMPLE_TYPES, canonical_key
from tidemill.state.keys.stable_hash import stable_hash


class KeyedListState(KeyedState, ListState[Any]):
    """ListState: an append records only the element, whatever the length of the list."""

    def __init__(self, context: KeyContext, table: ListTable) -> None:
        super().__init__(context, table)

    def get(self) -> list[Any]:
        """The current elements of the current key in order; changes to the returned list do not change the state."""
        key = self._context.key
        change = self._overlay.get(key)
        if change is None:
            return self._committed(key)[:]
        if change.replaced:
            items: list[Any] = change.items[:]
            return items
        return [*self._committed(key), *change.items]

    def add(self, value: Any) -> None:
        """Append one element."""
        if type(value) is not self._kind:
            value = self._formed(value)
        key = self._context.key
        change = self._overlay.get(key)
        if change is None:
            self._overlay[key] = ListChange(False, [value])
        else:
            change.items.append(value)

    def add_all(self, values: Iterable[Any]) -> None:
        """Append several elements; appends nothing if one of them is None."""
        kind, formed = self._kind, self._formed
        items = [value if type(value) is kind else formed(value) for value in values]
        change = self._overlay.get(self._context.key)
        if change is not None:
            change.items += items
        elif items:
            self._overlay[self._context.key] = ListChange(False, items)

    def add_each(self, keys: Iterable[Any], values: Iterable[Any]) -> list[Any]:
        """Like :meth:`add`, one element for each key; returns the keys that are new in this epoch."""
        context, overlay = self._context, self._overlay
        new = []
        for key, value in zip(keys, values, strict=True):
            context.key = key
            change = overlay.get(key)
            if change is None or value is None:
                new.append(key)
                self.add(value)
            else:
                change.items.append(value)
        return new

    def update(self, values: Iterable[Any]) -> None:
        """Replace the whole list."""
        kind, formed = self._kind, self._formed
        items = [value if type(value) is kind else formed(value) for value in values]
        self._overlay[self._context.key] = ListChange(True, items)

    def clear(self) -> None:
        """Remove the list of the current key."""
        key = self._context.key
        if key in self._base:
            self._overlay[key] = ListChange(True, [])
        else:
            self._overlay.pop(key, None)

    def merge_namespaces(self, target: Any, sources: Iterable[Any]) -> None:
        """Append the elements of several namespaces to the target's, for the current key."""
        moved: list[Any] = []
        for source in sources:
            self.set_current_namespace(source)
            moved.extend(self.get())
            self.clear()
        self.set_current_namespace(target)
        self.add_all(moved)

    def peek(self) -> Any:
        return self.get()

    def replace(self, content: Any) -> None:
        self.update(content)

    def _formed(self, value: Any) -> Any:
        if value is None:
            raise ValueError("None cannot be an element of a list state")
        return super()._formed(value)

    def _committed(self, key: Any) -> list[Any]:
        copied: list[Any] | None = self._reads.get(key)
        if copied is None:
            items = self._base.get(key)
            if items is None:
                return []
            # Lists only grow by a fold, and a fold clears the reads: one check per key and epoch.
            copied = items if ATOMIC.issuperset(map(type, items)) else [self._table.detached(item) for item in items]
            self._reads[key] = copied
        return copied


def checked_key(key: Any) -> Any:
    """A user key of a map in its canonical form; raises :class:`InvalidKeyError` if it has no stable identity."""
    canonical = canonical_key(key)
    stable_hash(canonical)
    return canonical


class KeyedMapState(KeyedState, MapState[Any, Any]):
    """MapState: each entry is read and written separately.

    In memory, entries are iterated in the order in which they were first put; in RocksDB, in the order of their keys.
    """

    _table: MapTable

    def __init__(self, context: KeyContext, table: MapTable) -> None:
        super().__init__(context, table)
        form = table.key_form
        #: User keys of this type are stored unchanged.
        self._key_kind: type = form.kind if form is not None and form.kind in SIMPLE_TYPES else Unknown
        self._convert_key = None if form is None else form.convert
        self._form_keys = table.form_keys

    def get(self, key: Any) -> Any:
        """The value of a map entry, or None."""
        value = self._entry(key if type(key) in SIMPLE_TYPES else self._checked(key))
        return None if value is MISSING else value

    def put(self, key: Any, value: Any) -> None:
        """Set one map entry. Raises :class:`InvalidKeyError` for a key that could not be found after a restore."""
        if type(value) is not self._kind:
            value = self._formed(value)
        self._change().entries[key if type(key) is self._key_kind else self._formed_key(key)] = value

    def put_all(self, dict_value: Entries[Any, Any]) -> None:
        """Set several map entries."""
        formed_key, formed = self._formed_key, self._formed
        entries = {formed_key(key): formed(value) for key, value in pairs_of(dict_value)}
        self._change().entries.update(entries)

    def remove(self, key: Any) -> None:
        """Remove one map entry, if it exists."""
        key = key if type(key) in SIMPLE_TYPES else self._checked(key)
        if self._entry(key) is MISSING:
            return
        change = self._change()
        if change.cleared or key not in self._base.get(self._context.key, ()):
            del change.entries[key]
            if not change.entries and not change.cleared:
                del self._overlay[self._context.key]
        else:
            change.entries[key] = DELETED

    def contains(self, key: Any) -> bool:
        """Whether the map has an entry."""
        return self._entry(key if type(key) in SIMPLE_TYPES else self._checked(key)) is not MISSING

    def items(self) -> Elements[tuple[Any, Any]]:
        """All entries, in the order of the backend."""
        return Elements(self._items())

    def keys(self) -> Elements[Any]:
        """All user keys, in the order of the entries."""
        return Elements([user_key for user_key, _ in self._items()])

    def values(self) -> Elements[Any]:
        """All values, in the order of the entries."""
        return Elements([value for _, value in self._items()])

    def is_empty(self) -> bool:
        """Whether the map has no entries."""
        change = self._overlay.get(self._context.key)
        if change is None:
            return not self._base.get(self._context.key)
        return not self._items()

    def clear(self) -> None:
        """Remove all entries of the current key."""
        key = self._context.key
        if key in self._base:
            self._overlay[key] = MapChange(cleared=True)
        else:
            self._overlay.pop(key, None)

    def peek(self) -> Any:
        return dict(self._items())

    def replace(self, content: Any) -> None:
        self.clear()
        self.put_all(content)

    def _formed_key(self, key: Any) -> Any:
        """Convert a user key that is not of the expected type to its stored form."""
        if self._convert_key is not None:
            key = self._convert_key(key)
        if type(key) not in SIMPLE_TYPES:
            return self._checked(key)
        if self._convert_key is None:
            self._key_kind = type(key)
        return key

    def _checked(self, key: Any) -> Any:
        """A user key that is not simple, in its stored form."""
        return checked_key(key if self._form_keys is None else self._form_keys([key])[0])

    def _change(self) -> MapChange:
        key = self._context.key
        change: MapChange | None = self._overlay.get(key)
        if change is None:
            change = self._overlay[key] = MapChange(cleared=False)
        return change

    def _entry(self, user_key: Any) -> Any:
        key = self._context.key
        change = self._overlay.get(key)
        if change is not None:
            value = change.entries.get(user_key, MISSING)
            if value is DELETED:
                return MISSING
            if value is not MISSING:
                return value
            if change.cleared:
                return MISSING
        entries = self._base.get(key)
        if entries is None:
            return MISSING
        value = entries.get(user_key, MISSING)
        return value if value is MISSING or type(value) in ATOMIC else self._copy_of(key, user_key, value)

    def _copy_of(self, key: Any, user_key: Any, value: Any) -> Any:
        if self._table.unshared:
            return value
        copied = self._reads.get((key, user_key), MISSING)
        if copied is MISSING:
            copied = self._reads[key, user_key] = self._table.detached(value)
        return copied

    def _items(self) -> list[tuple[Any, Any]]:
        key = self._context.key
        change = self._overlay.get(key)
        found: dict[Any, Any] = {}
        if change is None or not change.cleared:
            for user_key, value in self._base.get(key, {}).items():
                found[user_key] = value if type(value) in ATOMIC else self._copy_of(key, user_key, value)
        if change is None:
            return list(found.items())
        found.update(change.entries)
        return self._table.in_order([item for item in found.items() if item[1] is not DELETED])
