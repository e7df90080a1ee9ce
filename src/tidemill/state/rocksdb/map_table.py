"""Maps in a store: one row per key, namespace and user key."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rocksdict import WriteBatch

from tidemill.state.files.sections import StateShape
from tidemill.state.keyed.tables import DELETED, MISSING, Layer, MapTable
from tidemill.state.keys.key_groups import FIRST_GROUP, KeyGroup
from tidemill.state.rocksdb.cache import Encoded, kept
from tidemill.state.rocksdb.key_encoding import decode_key, encode_key
from tidemill.state.rocksdb.rows import original_of, remember_original
from tidemill.state.rocksdb.store import end_of
from tidemill.state.rocksdb.tables import StoredBase, StoredTable
from tidemill.state.rocksdb.value_encoding import EntryCodec, entry_codec


class StoredMapTable(StoredTable, MapTable):
    """A map per key and namespace; the cost of one entry does not depend on the size of the map."""

    def _codec(self, shape: StateShape) -> EntryCodec:
        return entry_codec(shape.stored_type)

    def in_order(self, items: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
        """By encoded user key, also for changes of the epoch, so that a fold does not change the visible order."""
        return sorted(items, key=lambda item: encode_key(item[0]))

    def _new_layer(self, namespace: Any) -> Layer:
        layer = Layer()
        layer.base = StoredMaps(self, namespace, layer, self._store)
        return layer

    def _write(self, layer: Layer, batch: WriteBatch) -> None:
        base, dumps = layer.base, self.codec.dumps
        cleared = {key for key, change in layer.overlay.items() if change.cleared}
        if cleared:
            base.forget(cleared)
        changed: dict[Any, Any] = {}
        for key, change in layer.overlay.items():
            row = self.row(key, base.encoded)
            if change.cleared:
                batch.delete_range(row, end_of(row))
            for user_key, value in change.entries.items():
                if value is DELETED:
                    batch.delete(row + encode_key(user_key))
                    changed[base.name(key, user_key)] = MISSING
                else:
                    data = dumps(value)
                    batch.put(row + encode_key(user_key), remember_original(data, key, base.namespace, user_key))
                    changed[base.name(key, user_key)] = kept(value, data)
        base.cache.update(changed)

    def scan(self, first_group: KeyGroup = FIRST_GROUP) -> Iterator[tuple[Any, Any, Any, Any]]:
        loads = self.codec.loads
        for place, row, data in self.places(first_group):
            yield place.namespace, place.key, user_key_of(row, place.rest, data), loads(data)


class StoredMaps(StoredBase):
    """The committed maps of one namespace."""

    def get(self, key: Any, default: Any = None) -> StoredMap:
        """The map of a key, which may have no entries."""
        return StoredMap(self, key)

    def name(self, key: Any, user_key: Any) -> Any:
        """The name of an entry in the cache."""
        return (key, user_key) if self.namespace is None else (self.namespace, key, user_key)

    def forget(self, keys: set[Any]) -> None:
        """Remove the maps of some keys from the cache."""
        if self.namespace is None:
            self.cache.forget(lambda name: name[0] in keys)
        else:
            self.cache.forget(lambda name: name[0] == self.namespace and name[1] in keys)


class StoredMap:
    """The committed entries of one map, read individually."""

    __slots__ = ("_base", "_key")

    def __init__(self, base: StoredMaps, key: Any) -> None:
        self._base = base
        self._key = key

    def get(self, user_key: Any, default: Any = None) -> Any:
        """The value of an entry. A mutable value is a new object, which stays the same for the rest of the epoch."""
        base = self._base
        cache, name = base.cache, base.name(self._key, user_key)
        value = cache.hot.get(name, cache)
        if value is cache:
            value = cache.find(name, cache)
            if value is cache:
                data = base.store.get(base.table.row(self._key, base.encoded) + encode_key(user_key))
                value = MISSING if data is None else kept(base.table.codec.loads(data), data)
                cache.put(name, value)
        if value is MISSING:
            return default
        if type(value) is Encoded:
            fresh = base.reads.get((self._key, user_key), MISSING)
            if fresh is MISSING:
                fresh = base.reads[self._key, user_key] = base.table.codec.loads(value.data)
            return fresh
        return value

    def __contains__(self, user_key: Any) -> bool:
        return self.get(user_key, MISSING) is not MISSING

    def __bool__(self) -> bool:
        return self._key in self._base

    def __iter__(self) -> Iterator[Any]:
        for user_key, _ in self._rows():
            yield user_key

    def items(self) -> Iterator[tuple[Any, Any]]:
        """All entries, by encoded user key."""
        loads = self._base.table.codec.loads
        for user_key, data in self._rows():
            yield user_key, loads(data)

    def _rows(self) -> Iterator[tuple[Any, bytes]]:
        prefix = self._base.table.row(self._key, self._base.encoded)
        for row, data in self._base.store.scan(prefix, end_of(prefix)):
            yield user_key_of(row, len(prefix), data), data


def user_key_of(row: bytes, at: int, data: bytes) -> Any:
    """The user key of an entry."""
    if data[0] & 1 and (original := original_of(data)) is not None:
        return original[2]
    return decode_key(row, at)[0]
