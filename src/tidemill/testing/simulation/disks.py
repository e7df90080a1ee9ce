"""The local disks of simulated workers: what is on them outlives a worker, as far as it got there."""

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
    """A directory in memory, if there is one with some room: opening a RocksDB on a disk takes ten times as long."""
    memory = "/dev/shm"  # noqa: S108 - a directory of its own is made in it
    return memory if os.access(memory, os.W_OK) and shutil.disk_usage(memory).free > 1 << 30 else None


class LocalDisks:
    """The stores of all workers of a simulated job, in one folder.

    RocksDB writes what it has in memory to disk now and then, between any two batches. What a killed worker leaves is
    what it wrote last.
    """

    def __init__(self, dice: random.Random, worker: Callable[[], int | None]) -> None:
        """``worker`` says which worker runs now."""
        self.folder = tempfile.mkdtemp(prefix="tidemill-simulation-", dir=fast_directory())
        #: Whether the worker that runs has been killed: what it closes on its way out is left as it is.
        self.dying = False
        self._dice = dice
        self._worker = worker
        self._stores: list[_Owned] = []

    def open(self, place: BackendPlace, settings: RocksDBSettings) -> Store:
        """A store for the worker that runs; takes the place of :class:`Store`."""
        store = _LosableStore(self, place, settings)
        self._stores.append(_Owned(place.program, self._worker(), store))
        return store

    def lose(self, program: str, worker: int) -> None:
        """A worker of a driver is gone."""
        self.dying = False
        for owned in [owned for owned in self._stores if (owned.program, owned.worker) == (program, worker)]:
            self._stores.remove(owned)
            self.leave(owned.store)

    def leave(self, store: Store) -> None:
        """The owner of a store is gone: all it wrote got to the disk, or only what was written to files before."""
        leave_store(store, flushed=self._dice.random() < 0.5)

    def closed(self, store: Store) -> None:
        """A store is nobody's any more."""
        self._stores = [owned for owned in self._stores if owned.store is not store]

    def flush_is_due(self) -> bool:
        """Whether RocksDB writes to disk now."""
        return self._dice.random() < 0.3

    def close(self) -> None:
        """Close what nobody has closed, and remove all that is left."""
        for owned in list(self._stores):
            owned.store.close(remove=True)
        shutil.rmtree(self.folder, ignore_errors=True)


@dataclass(frozen=True)
class _Owned:
    program: str
    worker: int | None
    store: Store


class _LosableStore(Store):
    """A store whose owner may die at any moment."""

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
