"""What the tests of stores share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tidemill.state.keyed.backend import BackendPlace
from tidemill.state.keys.key_groups import KeyGroupRange, Subtask
from tidemill.state.rocksdb import RocksDBBackend, RocksDBSettings
from tidemill.state.rocksdb.store import Store

MAX_PARALLELISM = 16


def place(subtask: int = 0, *, program: str = "p", job_id: str = "job", parallelism: int = 1) -> BackendPlace:
    number = Subtask(subtask)
    groups = KeyGroupRange.for_subtask(MAX_PARALLELISM, parallelism, number)
    return BackendPlace("op", "operator 'op'", groups, MAX_PARALLELISM, job_id=job_id, subtask=number, program=program)


def open_store(directory: Path, **options: Any) -> Store:
    return Store(place(**options), RocksDBSettings(directories=(str(directory),)))


def open_backend(directory: Path, settings: dict[str, Any] | None = None, **options: Any) -> RocksDBBackend:
    return RocksDBBackend(place(**options), RocksDBSettings(directories=(str(directory),), **(settings or {})))
