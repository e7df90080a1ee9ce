"""Lists in a store: one row per key, namespace and fold that appended to the list."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rocksdict import WriteBatch

from tidemill.common.typeinfo import Types
from tidemill.state.files.sections import StateShape
from tidemill.state.keyed.tables import Layer, ListTable
from tidemill.state.keys.key_groups import FIRST_GROUP, KeyGroup
from tidemill.state.rocksdb.rows import RowPlace, remember_original
from tidemill.state.rocksdb.store import end_of
from tidemill.state.rocksdb.tables import StoredBase, StoredTable
from tidemill.state.rocksdb.value_encoding import EntryCodec, entry_codec


class StoredListTable(StoredTable, ListTable):
    """A list per key and namespace; an append does not read anything."""

    def _codec(self, shape: StateShape) -> EntryCodec:
        return entry_codec(None if shape.stored_type is None else Types.LIST(shape.stored_type))

    def _new_layer(self, namespace: Any) -> Layer:
        layer = Layer()
        layer.base = StoredLists(self, namespace, layer, self._store)
        return layer

    def _write(self, layer: Layer, batch: WriteBatch) -> None:
        base, dumps = layer.base, self.codec.dumps
        number = self._store.sequence.to_bytes(8, "big")
        for key, change in layer.overlay.items():
            row = self.row(key, base.encoded)
            if change.replaced:
                batch.delete_range(row, end_of(row))
            if change.items:
                batch.put(row + number, remember_original(dumps(change.items), key, base.namespace))

    def scan(self, first_group: KeyGroup = FIRST_GROUP) -> Iterator[tuple[Any, Any, Any, Any]]:
        loads = self.codec.loads
        last = b""
        current: RowPlace | None = None
        items: list[Any] = []
        for place, row, data in self.places(first_group):
            if row[: place.rest] != last:
                if current is not None:
                    yield current.namespace, current.key, None, items
                last, current, items = row[: place.rest], place, []
            items += loads(data)
        if current is not None:
            yield current.namespace, current.key, None, items


class StoredLists(StoredBase):
    """The committed lists of one namespace."""

    def get(self, key: Any, default: Any = None) -> Any:
        """The elements of a key, as new objects."""
        loads = self.table.codec.loads
        prefix = self.table.row(key, self.encoded)
        items: list[Any] = []
        for _, data in self.store.scan(prefix, end_of(prefix)):
            items += loads(data)
        return items or default
