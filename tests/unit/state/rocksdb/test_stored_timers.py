"""Timers in a store fire as the queue in memory does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.thorough import examples
from tests.unit.state.rocksdb.stores import open_store
from tidemill.state.keyed.timers import TimerQueue
from tidemill.state.rocksdb.store import Store
from tidemill.state.rocksdb.timers import StoredTimers


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = open_store(tmp_path)
    yield store
    store.close(remove=True)


keys = st.sampled_from(["a", "b", 1, 1.0, True, None, ("a", 1), 2.5])
times = st.integers(-3, 6)
namespaces = st.sampled_from([None, "v", "w"])
steps = st.one_of(
    st.tuples(st.just("register"), times, keys, namespaces),
    st.tuples(st.just("register"), times, keys, namespaces),
    st.tuples(st.just("delete"), times, keys, namespaces),
    st.tuples(st.just("pop"), times),
    st.tuples(st.sampled_from(["fold", "discard", "reload"])),
)


@settings(
    max_examples=examples(150),
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(st.lists(steps, max_size=40), st.integers(1, 3))
def test_the_same_as_in_memory(store: Store, script: list[Any], read_ahead: int) -> None:
    store.reset()
    queue, stored = TimerQueue(), StoredTimers("timers", store, read_ahead)
    for step in script:
        if step[0] in ("fold", "discard"):
            assert shown(stored.export_delta()) == shown(queue.export_delta())
            getattr(queue, step[0])()
            getattr(stored, step[0])()
        elif step[0] == "reload":
            # What another worker would find.
            queue.fold()
            stored.fold()
            stored = StoredTimers("timers", store, read_ahead)
        elif step[0] == "pop":
            assert stored.pop_due(step[1]) == queue.pop_due(step[1])
        else:
            getattr(queue, step[0])(*step[1:])
            getattr(stored, step[0])(*step[1:])
        assert stored.peek() == queue.peek()
        assert list(stored.pending()) == list(queue.pending())
        assert len(stored) == len(queue)


def shown(rows: Any) -> Any:
    if rows is None:
        return None
    return sorted(zip(rows.values, map(repr, rows.keys), map(repr, rows.namespaces), rows.ops, strict=True))


def test_only_a_few_timers_are_read(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    timers = StoredTimers("timers", store, read_ahead=4)
    for time in range(1000):
        timers.register(time, "k")
    timers.fold()
    read: list[int] = []
    first = store.first

    def counted(start: bytes, end: bytes, count: int) -> list[tuple[bytes, bytes]]:
        read.append(count)
        return first(start, end, count)

    monkeypatch.setattr(store, "first", counted)
    assert [timers.pop_due(5) for _ in range(3)] == [(0, "k", None), (1, "k", None), (2, "k", None)]
    assert sum(read) <= 8


def test_what_has_fired_is_not_passed_again(store: Store) -> None:
    timers = StoredTimers("timers", store, read_ahead=8)
    for time in range(100):
        timers.register(time, "k")
    timers.fold()
    while timers.pop_due(90) is not None:
        pass
    timers.register(95, "before the end")
    timers.fold()
    assert timers._floor == timers._row((91, "k", None))
    timers.register(3, "late")
    timers.fold()
    assert timers.pop_due(10) == (3, "late", None)
    assert timers.peek() == 91
