"""The local disks of simulated workers. Data that has reached the disk survives a worker."""

from __future__ import annotations

import os
import random
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from rocksdict import WriteBatch

from tidemill.local.killed_stores import leave_store
from tidemill.state.keyed.backend import BackendPlace, StateVersion
from tidemill.state.rocksdb.settings import RocksDBSettings
from tidemill.state.rocksdb.store import Store


def fast_directory() -> str | None:
    """Return a directory in memory, if one has enough space: opening a RocksDB on a disk takes ten times as long."""
    memory = "/dev/shm"  # noqa: S108 - a separate directory is created in it
    return memory if os.access(memory, os.W_OK) and shutil.disk_usage(memory).free > 1 << 30 else None


class LocalDisks:
    """The stores of all workers of a simulated job, in one folder.

    RocksDB flushes its memory to disk from time to time, between any two batches. A killed worker leaves the data of
    its last flush.
    """

    def __init__(self, dice: random.Random, worker: Callable[[], int | None]) -> None:
        """``worker`` returns the worker that is currently running."""
        self.folder = tempfile.mkdtemp(prefix="tidemill-simulation-", dir=fast_directory())
        #: Whether the running worker has been killed: stores that it closes while it unwinds are left as they are.
        self.dying = False
        self._dice = dice
        self._worker = worker
        self._stores: list[_Owned] = []

    def open(self, place: BackendPlace, settings: RocksDBSettings) -> Store:
        """Open a store for the running worker; replaces the constructor of :class:`Store`."""
        store = _LosableStore(self, place, settings)
        self._stores.append(_Owned(place.program, self._worker(), store))
        return store

    def lose(self, program: str, worker: int) -> None:
        """Handle the loss of a worker of a driver."""
        self.dying = False
        for owned in [owned for owned in self._stores if (owned.program, owned.worker) == (program, worker)]:
            self._stores.remove(owned)
            self.leave(owned.store)

    def leave(self, store: Store) -> None:
        """Handle the death of a store's owner: either all its writes reached the disk, or only those flushed before."""
        leave_store(store, flushed=self._dice.random() < 0.5)

    def closed(self, store: Store) -> None:
        """Remove a store that has been closed."""
        self._stores = [owned for owned in self._stores if owned.store is not store]

    def flush_is_due(self) -> bool:
        """Whether RocksDB flushes to disk now."""
        return self._dice.random() < 0.3

    def close(self) -> None:
        """Close all open stores, and remove the folder."""
        for owned in list(self._stores):
            owned.store.close(remove=True)
        shutil.rmtree(self.folder, ignore_errors=True)


@dataclass(frozen=True)
class _Owned:
    program: str
    worker: int | None
    store: Store


class _LosableStore(Store):
    """A store whose owner may die at any time."""

    def __init__(self, disks: LocalDisks, place: BackendPlace, settings: RocksDBSettings) -> None:
        self._disks = disks
        super().__init__(place, settings)

    @contextmanager
    def writing(self, version: StateVersion | None) -> Iterator[WriteBatch]:
        with super().writing(version) as batch:
            yield batch
        if self._disks.flush_is_due():
            self._open_db().flush()

    def close(self, *, remove: bool) -> None:
        if self._disks.dying:
            self._disks.leave(self)
        else:
            super().close(remove=remove)
        self._disks.closed(self)
