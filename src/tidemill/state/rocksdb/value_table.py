"""Values in a store: one row per key and namespace."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rocksdict import WriteBatch

from tidemill.state.codecs.copies import ATOMIC
from tidemill.state.files.sections import StateShape
from tidemill.state.keyed.tables import DELETED, MISSING, Layer, ValueTable
from tidemill.state.keys.key_groups import FIRST_GROUP, KeyGroup
from tidemill.state.rocksdb.cache import Encoded, kept
from tidemill.state.rocksdb.key_encoding import EXACT
from tidemill.state.rocksdb.rows import remember_original
from tidemill.state.rocksdb.tables import StoredBase, StoredTable
from tidemill.state.rocksdb.value_encoding import EntryCodec, entry_codec


class StoredValueTable(StoredTable, ValueTable):
    """One value per key and namespace."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        #: Whether records have read values that had not been read ahead.
        self._wanted = False
        #: The rows of the keys that this epoch has read.
        self._rows: dict[Any, bytes] = {}

    def discard(self) -> None:
        super().discard()
        self._rows.clear()

    def _codec(self, shape: StateShape) -> EntryCodec:
        return entry_codec(shape.stored_type)

    def _new_layer(self, namespace: Any) -> Layer:
        layer = Layer()
        layer.base = StoredValues(self, namespace, layer, self._store)
        return layer

    def wanted(self) -> None:
        """Report that a value was read that had not been read ahead."""
        self._wanted = True

    def prefetch(self, keys: list[Any]) -> None:
        layer = self._layers.get(None)
        if not self._wanted or layer is None:
            return
        cache = self.plain
        unused = set(keys).difference(cache.hot, layer.overlay)
        missing = [key for key in unused if cache.find(key, cache) is cache]
        if missing:
            loads = self.codec.loads
            rows = self._maker.rows(missing)
            self._rows.update(zip(missing, rows, strict=True))
            found: dict[Any, Any] = {}
            for key, data in zip(missing, self._store.get_many(rows), strict=True):
                if data is None:
                    found[key] = MISSING
                else:
                    value = loads(data)
                    found[key] = value if type(value) in ATOMIC else Encoded(data)
            cache.put_all(found)

    def _write(self, layer: Layer, batch: WriteBatch) -> None:
        base, dumps = layer.base, self.codec.dumps
        make, put, namespace = self._maker.row, batch.put, base.namespace
        known = self._rows if namespace is None else {}
        changed: dict[Any, Any] = {}
        for key, value in layer.overlay.items():
            row = known.get(key) or make(key, base.encoded)
            if value is DELETED:
                batch.delete(row)
                changed[key] = MISSING
            else:
                data = dumps(value)
                changed[key] = value if type(value) in ATOMIC else Encoded(data)
                put(row, data if namespace is None and type(key) in EXACT else remember_original(data, key, namespace))
        if namespace is not None:
            changed = {(namespace, key): value for key, value in changed.items()}
        base.cache.update(changed)
        known.clear()

    def scan(self, first_group: KeyGroup = FIRST_GROUP) -> Iterator[tuple[Any, Any, Any, Any]]:
        loads = self.codec.loads
        for place, _, data in self.places(first_group):
            yield place.namespace, place.key, None, loads(data)


class StoredValues(StoredBase):
    """The committed values of one namespace."""

    def get(self, key: Any, default: Any = None) -> Any:
        """The value of a key. A mutable value is a new object, which stays the same for the rest of the epoch."""
        cache = self.cache
        name = key if self.namespace is None else (self.namespace, key)
        value = cache.hot.get(name, cache)
        if value is cache:
            value = cache.find(name, cache)
            if value is cache:
                value = self._read(name, key)
        if value is MISSING:
            return default
        if type(value) is Encoded:
            fresh = self.reads.get(key, MISSING)
            if fresh is MISSING:
                fresh = self.reads[key] = self.table.codec.loads(value.data)
            return fresh
        return value

    def __contains__(self, key: Any) -> bool:
        return self.get(key, MISSING) is not MISSING

    def _read(self, name: Any, key: Any) -> Any:
        if self.namespace is None:
            self.table.wanted()
        data = self.store.get(self.table.row(key, self.encoded))
        value = MISSING if data is None else kept(self.table.codec.loads(data), data)
        self.cache.put(name, value)
        return value
