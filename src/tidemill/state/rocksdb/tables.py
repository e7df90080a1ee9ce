"""Tables whose committed base is in a local store; the overlay of the epoch is the same as in all tables.

Values and map entries are separate rows. A list has one row for each epoch that appended to it: a fold writes only the
appended elements. Iteration is ordered by key group and encoded key; within a map, by encoded user key.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from rocksdict import WriteBatch

from tidemill.state.files.rows import Rows
from tidemill.state.files.sections import StateShape
from tidemill.state.keyed.tables import Layer, Table
from tidemill.state.keys.key_groups import FIRST_GROUP, GroupCache, KeyGroup
from tidemill.state.rocksdb.cache import ValueCache
from tidemill.state.rocksdb.key_encoding import NONE_KEY, encode_key
from tidemill.state.rocksdb.rows import KEY_AT, RowMaker, RowPlace, original_of, place_of
from tidemill.state.rocksdb.store import Store, end_of
from tidemill.state.rocksdb.value_encoding import EntryCodec

#: The number of entries rewritten in one epoch after a migration: some ten megabytes of Python objects.
REWRITTEN_AT_ONCE: Final = 100_000


class StoredTable(Table):
    """The common part of tables in a store."""

    # Every read from a store returns a new object, and every write converts to bytes, so no copies are needed.
    detached = staticmethod(lambda value: value)

    def __init__(self, name: str, shape: StateShape, store: Store, group_of: GroupCache, cache_size: int) -> None:
        super().__init__()
        # configuration
        self._store = store
        self._maker = RowMaker(store.prefix(name), group_of)
        self.codec = self._codec(shape)
        self._has_user_keys = self.section_kind.has_user_keys
        # transient
        #: Caches for the usual case without namespace, and for all other namespaces.
        self.plain, self.named = ValueCache(cache_size), ValueCache(cache_size)

    def _codec(self, shape: StateShape) -> EntryCodec:
        raise NotImplementedError

    def prefetch(self, keys: list[Any]) -> None:
        """Read ahead the state that a batch of records with these keys will read."""

    def cached(self) -> int:
        """The number of values in memory."""
        return len(self.plain) + len(self.named)

    def row(self, key: Any, namespace: bytes) -> bytes:
        """The row of a key, or the prefix of its rows."""
        return self._maker.row(key, namespace)

    def settle(self) -> None:
        with self._store.joining() as batch:
            for layer in self._touched.values():
                if layer.overlay:
                    self._write(layer, batch)
                    layer.overlay.clear()
                layer.reads.clear()
        # Layers are cheap to create again, and there may be as many as there are windows.
        self._layers = {None: self._layers[None]} if None in self._layers else {}
        self._touched = dict(self._layers)

    def _write(self, layer: Layer, batch: WriteBatch) -> None:
        raise NotImplementedError

    def namespaces(self) -> list[Any]:
        found = {place.namespace: None for place, _, _ in self.places()}
        return list({**self._layers, **found})

    def entries(self) -> int:
        return sum(1 for _ in self._distinct())

    def rewrite(self, first_group: KeyGroup) -> KeyGroup | None:
        rows, group_of = Rows(), self._maker.group_of
        last = first_group
        for namespace, key, user_key, value in self.scan(first_group):
            group = group_of(key)
            if group != last and len(rows.keys) >= REWRITTEN_AT_ONCE:
                break
            last = group
            self._append(rows, namespace, key, user_key, value)
        else:
            self.replay(rows)
            return None
        self.replay(rows)
        return last

    def drop_groups(self, first: KeyGroup, last: KeyGroup) -> None:
        start, end = (group.to_bytes(2, "big") for group in (first, last))
        with self._store.joining() as batch:
            batch.delete_range(self._maker.prefix + start, end_of(self._maker.prefix + end))

    def scan(self, first_group: KeyGroup = FIRST_GROUP) -> Iterator[tuple[Any, Any, Any, Any]]:
        """Like :meth:`Table.scan`, starting from a key group; ordered by key group."""
        raise NotImplementedError

    def places(self, first_group: KeyGroup = FIRST_GROUP) -> Iterator[tuple[RowPlace, bytes, bytes]]:
        """All rows, starting from a key group, with their keys and namespaces."""
        prefix = self._maker.prefix
        for row, data in self._store.scan(prefix + first_group.to_bytes(2, "big"), end_of(prefix)):
            place = place_of(row)
            if data[0] & 1 and (original := original_of(data)) is not None:
                place = RowPlace(original[0], original[1], place.rest)
            yield place, row, data

    def _distinct(self) -> Iterator[tuple[Any, Any]]:
        """The keys and namespaces that have rows."""
        last = b""
        for place, row, _ in self.places():
            if row[: place.rest] != last:
                last = row[: place.rest]
                yield place.key, place.namespace

    def export_all(self) -> Rows | None:
        rows = Rows()
        for entry in self.scan():
            self._append(rows, *entry)
        return rows if rows.keys else None

    def _append(self, rows: Rows, namespace: Any, key: Any, user_key: Any, value: Any) -> None:
        rows.keys.append(key)
        rows.namespaces.append(namespace)
        rows.values.append(value)
        if self._has_user_keys:
            rows.user_keys.append(user_key)

    def _detach(self, overlay: dict[Any, Any]) -> None:
        """Not needed: written values are converted to bytes, which cannot be changed."""


class StoredBase:
    """The committed entries of one namespace, read like a dict. ``reads`` are the values that this epoch has read."""

    def __init__(self, table: Any, namespace: Any, layer: Layer, store: Store) -> None:
        self.table = table
        self.store = store
        self.namespace = namespace
        self.encoded = NONE_KEY if namespace is None else encode_key(namespace)
        self.reads = layer.reads
        self.cache: ValueCache = table.plain if namespace is None else table.named

    def __iter__(self) -> Iterator[Any]:
        for key, namespace in self.table._distinct():
            if namespace == self.namespace:
                yield key

    def __contains__(self, key: Any) -> bool:
        prefix = self.table.row(key, self.encoded)
        return bool(self.store.first(prefix, end_of(prefix), 1))


__all__ = ["KEY_AT", "StoredBase", "StoredTable"]
