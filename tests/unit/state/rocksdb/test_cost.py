"""What an access costs, in rows read and written: the shape of the state decides, not its size."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.unit.state.rocksdb.stores import open_backend
from tidemill.common.typeinfo import Types
from tidemill.datastream.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from tidemill.state.keyed.backend import KeyedStateBackend
from tidemill.state.rocksdb.store import Store


@pytest.fixture
def backend(tmp_path: Path) -> Iterator[KeyedStateBackend]:
    backend = open_backend(tmp_path)
    yield backend
    backend.close()


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Calls that read from the store."""
    seen: Counter[str] = Counter()
    for name in ("get", "get_many", "first"):
        original = getattr(Store, name)

        def counted(self: Store, *args: Any, name: str = name, original: Any = original) -> Any:
            seen[name] += 1
            return original(self, *args)

        monkeypatch.setattr(Store, name, counted)
    return seen


def commit(backend: KeyedStateBackend) -> int:
    rows: int = sum(section.table.num_rows for section in backend.export_delta())
    backend.fold()
    backend.begin_epoch()
    return rows


def test_appending_to_a_list_reads_nothing_and_writes_what_is_appended(
    backend: KeyedStateBackend, reads: Counter[str]
) -> None:
    state = backend.list_state(ListStateDescriptor("l", Types.LONG()))
    backend.context.key = "a"
    state.add_all(range(10_000))
    commit(backend)
    reads.clear()
    state.add(1)
    assert commit(backend) == 1
    assert not reads
    assert len(list(state.get())) == 10_001


def test_one_entry_of_a_large_map_is_one_row(backend: KeyedStateBackend, reads: Counter[str]) -> None:
    state = backend.map_state(MapStateDescriptor("m", Types.LONG(), Types.LONG()))
    backend.context.key = "a"
    state.put_all({n: n for n in range(10_000)})
    commit(backend)
    for table in backend._tables.values():
        table.plain.forget(lambda name: True)  # type: ignore[attr-defined]
    reads.clear()
    state.put(5, state.get(5) + 1)
    assert commit(backend) == 1
    assert reads == {"get": 1}
    state.clear()
    reads.clear()
    assert commit(backend) == 1
    assert not reads
    assert state.is_empty()


def test_a_batch_is_read_ahead_at_once(backend: KeyedStateBackend, reads: Counter[str]) -> None:
    state = backend.value_state(ValueStateDescriptor("v", Types.LONG()))
    keys = list(range(100))
    for key in keys:
        backend.context.key = key
        state.update((state.value() or 0) + 1)
    commit(backend)
    backend._tables["v"].plain.forget(lambda name: True)  # type: ignore[attr-defined]
    reads.clear()
    backend.prefetch([*keys, *keys])
    for key in keys:
        backend.context.key = key
        state.update((state.value() or 0) + 1)
    assert reads == {"get_many": 1}
    commit(backend)
    backend.context.key = 7
    assert state.value() == 2


def test_what_is_cached_is_not_read_again(backend: KeyedStateBackend, reads: Counter[str]) -> None:
    state = backend.value_state(ValueStateDescriptor("v", Types.LONG()))
    backend.context.key = "a"
    state.update(1)
    commit(backend)
    reads.clear()
    for _ in range(3):
        state.update(state.value() + 1)
        commit(backend)
    assert not reads


def test_memory_is_what_is_cached(backend: KeyedStateBackend) -> None:
    state = backend.value_state(ValueStateDescriptor("v", Types.LONG()))
    assert backend.memory() == 0
    for key in range(50):
        backend.context.key = key
        state.update(key)
    commit(backend)
    assert 0 < backend.memory() <= 50 * 200
