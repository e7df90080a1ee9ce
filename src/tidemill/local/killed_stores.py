"""What a killed worker leaves on its local disk, for workers that only pretend to be processes.

A process that is killed gives its locks back at once, and what it had on disk stays as it is. A chain that is dropped
would instead keep its locks until somebody collects it, and RocksDB would then write to disk what it has in memory.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path

from tidemill.runtime.task.chain import Chain
from tidemill.state.rocksdb import RocksDBBackend
from tidemill.state.rocksdb.store import Store

__all__ = ["leave_store", "leave_stores"]


def leave_stores(chains: Iterable[Chain], *, flushed: bool) -> None:
    """The process of these chains is gone; see :func:`leave_store`."""
    for chain in chains:
        for backend in chain.backends:
            if isinstance(backend, RocksDBBackend):
                leave_store(backend._store, flushed=flushed)


def leave_store(store: Store, *, flushed: bool) -> None:
    """The process that owned a store is gone. The next worker at its place finds what had reached the disk.

    That is all of it with ``flushed``, and else only what RocksDB has written to files by itself, which must not be
    writing any now.
    """
    if store._db is None:
        return
    path = Path(store.path)
    if not flushed:
        # Only a copy stays as it is: RocksDB writes all it has when it is closed.
        copy = Path(tempfile.mkdtemp(prefix=f"{path.name.partition('-')[0]}-", dir=path.parent))
        shutil.copytree(path, copy, dirs_exist_ok=True)
    store._close_db()
    store._directory.close(remove=not flushed)
