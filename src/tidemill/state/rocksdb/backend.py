"""The ``rocksdb`` backend: committed state on local disk."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from tidemill.common.configuration import Configuration
from tidemill.state.files.sections import StateShape
from tidemill.state.files.state_file import Section
from tidemill.state.keyed.backend import BackendPlace, KeyedStateBackend, StateVersion
from tidemill.state.keyed.hashmap import ENTRY_BYTES
from tidemill.state.keyed.kinds import tables_of
from tidemill.state.keyed.timers import TimerQueue, Timers
from tidemill.state.keys.key_groups import GroupCache
from tidemill.state.rocksdb.settings import RocksDBSettings
from tidemill.state.rocksdb.store import Store
from tidemill.state.rocksdb.tables import StoredTable
from tidemill.state.rocksdb.timers import StoredTimers

#: The number of keys whose group is kept in memory: a few batches of records.
_KNOWN_GROUPS: Final = 100_000
#: Up to this many entries are counted exactly, which takes about 10 ms; above it RocksDB's estimate is good enough.
_COUNTED: Final = 10_000


class RocksDBBackend(KeyedStateBackend):
    """Keyed state in a RocksDB on local disk, limited by disk space, with a configurable amount of memory."""

    prefetches = True

    def __init__(self, place: BackendPlace, settings: RocksDBSettings | None = None) -> None:
        self._settings = settings or RocksDBSettings()
        self._store = Store(place, self._settings)
        self._parked_files = 0
        super().__init__(place)
        self._tables: dict[str, StoredTable] = {}  # type: ignore[assignment]
        self._group_of = GroupCache(place.max_parallelism, _KNOWN_GROUPS)

    @classmethod
    def create(cls, place: BackendPlace, settings: Any) -> KeyedStateBackend:
        return cls(place, settings)

    @classmethod
    def settings(cls, configuration: Configuration) -> RocksDBSettings:
        return RocksDBSettings.of(configuration)

    @property
    def directory(self) -> str:
        """The directory of the store."""
        return self._store.path

    def prefetch(self, keys: list[Any]) -> None:
        for table in self._tables.values():
            table.prefetch(keys)

    def fold(self, version: StateVersion | None = None) -> None:
        for name, shape in self._shapes.items():
            if shape.ttl is not None:
                self._store.notes[name] = shape.ttl.describe()
        with self._store.writing(self._whole(version)):
            super().fold(version)

    def version(self) -> StateVersion | None:
        return self._store.version

    def kept_ttl(self, state: str) -> Mapping[str, Any] | None:
        return self._store.notes.get(state)

    def reset(self) -> None:
        if self._store.version is not None:  # otherwise it contains no rows
            self._store.reset()

    def loaded(self, version: StateVersion) -> None:
        with self._store.writing(self._whole(version)):
            pass

    def close(self, *, forget: bool = True) -> None:
        self._unclaimed.clear()
        self._store.close(remove=forget)

    def entries(self) -> int:
        rows = self._store.estimated_rows()
        return super().entries() if rows <= _COUNTED else rows

    def sizes(self) -> dict[str, tuple[int, int | None]]:
        # Counting the rows of one state would require reading them.
        return {"": (self.entries(), self._store.estimated_bytes())}

    def memory(self) -> int:
        return sum(table.cached() for table in self._tables.values()) * ENTRY_BYTES

    def _whole(self, version: StateVersion | None) -> StateVersion | None:
        """The version if it is completely in the store, so that another worker could build upon it; otherwise None.

        The progress of an unfinished migration is in memory only: which key groups are still stored in the old type.
        """
        return None if self._unclaimed or self._migrating or self._settings.timers_on_heap else version

    def _new_table(self, name: str, shape: StateShape) -> StoredTable:
        table = tables_of(shape.kind).rocksdb_table()
        made: StoredTable = table(name, shape, self._store, self._group_of, self._settings.cached_values)
        return made

    def _new_timers(self, name: str) -> Timers:
        if self._settings.timers_on_heap:
            return TimerQueue()
        return StoredTimers(name, self._store, self._settings.timer_cache)

    def _slices(self, section: Section) -> Iterable[Section]:
        """Parts of about the size of a write batch, because they are temporarily converted to Python objects."""
        table = section.table
        rows = max(1, table.num_rows * self._settings.write_batch // max(1, table.nbytes))
        for start in range(0, table.num_rows, rows):
            yield replace(section, table=table.slice(start, rows))

    def _parked(self, section: Section) -> Section:
        """Stored on disk and memory-mapped: it uses no memory until it is read."""
        self._parked_files += 1
        path = Path(self._store.path) / f"section-{self._parked_files}.arrow"
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, section.table.schema) as writer:
            writer.write_table(section.table)
        with pa.memory_map(str(path)) as source:
            return replace(section, table=pa.ipc.open_file(source).read_all())
