"""Simulates what a killed worker leaves on its local disk, for workers that are not separate processes.

A killed process releases its locks immediately, and its files on disk stay unchanged. A chain that is merely dropped
would instead keep its locks until it is garbage collected, and RocksDB would then flush its memory to disk.
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
    """Simulate that the process of these chains was killed; see :func:`leave_store`."""
    for chain in chains:
        for backend in chain.backends:
            if isinstance(backend, RocksDBBackend):
                leave_store(backend._store, flushed=flushed)


def leave_store(store: Store, *, flushed: bool) -> None:
    """Simulate that the process that owned a store was killed. The next worker in its place finds what is on disk.

    With ``flushed`` that is everything, else only what RocksDB has already written to files by itself. RocksDB must not
    be writing files during the call.
    """
    if store._db is None:
        return
    path = Path(store.path)
    if not flushed:
        # Keep a copy: RocksDB flushes everything to the original when it is closed.
        copy = Path(tempfile.mkdtemp(prefix=f"{path.name.partition('-')[0]}-", dir=path.parent))
        shutil.copytree(path, copy, dirs_exist_ok=True)
    store._close_db()
    store._directory.close(remove=not flushed)
