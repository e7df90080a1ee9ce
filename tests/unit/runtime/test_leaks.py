"""A job that sees new keys for ever and clears their state: neither memory nor files nor manifests grow with it."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.thorough import how_many
from tidemill.checkpoint.names import manifest_name
from tidemill.checkpoint.storage.storages import LocalStorage, MemoryStorage, Storage
from tidemill.common import Types
from tidemill.datastream import DataStream, StreamExecutionEnvironment
from tidemill.datastream.functions import KeyedProcessFunction, RuntimeContext
from tidemill.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from tidemill.runtime.exchange.routes import KeyRoute
from tidemill.runtime.task.chain import Chain
from tidemill.testing import JobHarness
from tidemill.testing.simulation.functions import Mean

Env = StreamExecutionEnvironment

#: Epochs between two looks at the memory.
STRETCH = how_many(30, 50)
#: New keys per epoch. Each is seen in two epochs; in the second one its state is cleared.
KEYS = 40


class Visit(KeyedProcessFunction):
    """Fills every kind of state when a key comes, and clears it when it goes; timers are set, deleted and fired."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.value = runtime_context.get_state(ValueStateDescriptor("value", Types.LONG()))
        self.items = runtime_context.get_list_state(ListStateDescriptor("items", Types.LONG()))
        self.map = runtime_context.get_map_state(MapStateDescriptor("map", Types.LONG(), Types.LONG()))
        self.most = runtime_context.get_reducing_state(ReducingStateDescriptor("most", max, Types.LONG()))
        self.mean = runtime_context.get_aggregating_state(AggregatingStateDescriptor("mean", Mean()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        key, comes = value
        timers = ctx.timer_service()
        if comes:
            self.value.update(key)
            self.items.add(key)
            self.map.put(key, key)
            self.most.add(key)
            self.mean.add(key)
            timers.register_event_time_timer(10**15)
            timers.register_processing_time_timer(10**15)
            timers.register_processing_time_timer(0)
        else:
            for state in (self.value, self.items, self.map, self.most, self.mean):
                state.clear()
            timers.delete_event_time_timer(10**15)
            timers.delete_processing_time_timer(10**15)
        return ()

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterable[Any]:
        return ()


def visits(env: Env, records: DataStream) -> None:
    records.key_by(lambda r: r[0], Types.LONG()).process(Visit()).uid("visits").print()


def live(job: JobHarness, first: int, last: int) -> None:
    """Epochs in each of which new keys come, and those of the epoch before go."""
    for epoch in range(first, last):
        came = range((epoch - 1) * KEYS, epoch * KEYS)
        new = range(epoch * KEYS, (epoch + 1) * KEYS)
        job.epoch(records=[*((key, True) for key in new), *((key, False) for key in came)])
        for script in job.inputs.values():
            script.epochs[-1] = []  # the input, which a test keeps for restarts


def leave(job: JobHarness, epoch: int) -> None:
    """The last keys go, too."""
    job.epoch(records=[(key, False) for key in range((epoch - 1) * KEYS, epoch * KEYS)])
    job.epoch()


def chains(job: JobHarness) -> list[Chain]:
    return [warm.chain for worker in job._engine.workers for warm in worker._chains.values()]


@pytest.fixture
def small_caches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidemill.state.keys.key_groups._CACHE_FLOOR", 3 * KEYS)


@pytest.mark.usefixtures("small_caches")
def test_keys_that_are_gone_leave_nothing_in_memory() -> None:
    with JobHarness(visits, inputs=["records"], parallelism=2) as job:
        live(job, 0, 60)
        leave(job, 60)
        keyed = [chain for chain in chains(job) if chain.backends]
        assert len(keyed) == 2
        for chain in keyed:
            (backend,) = chain.backends
            assert backend.entries() == 0
            for table in backend._tables.values():
                assert [
                    len(layer.base) + len(layer.overlay) + len(layer.reads) for layer in table._layers.values()
                ] == [0]
            for timers in (backend.event_timers, backend.processing_timers):
                assert len(timers) == 0
                assert len(timers._heap) <= 64  # type: ignore[attr-defined]
            assert len(backend._group_of) <= 4 * KEYS
        routes = [port.sender._route for chain in chains(job) for port in chain.ports.values() if port.sender]
        sizes = [len(route._target_of) for route in routes if isinstance(route, KeyRoute)]
        assert sizes
        assert max(sizes) <= 12 * KEYS  # four times the keys of an epoch, and what one epoch adds


@pytest.mark.usefixtures("small_caches")
def test_memory_does_not_grow(tmp_path: Path) -> None:
    tracemalloc.start()
    try:
        with JobHarness(visits, inputs=["records"], storage=LocalStorage(str(tmp_path), durable=False)) as job:
            live(job, 0, STRETCH)
            sizes = [measured()]
            for first in (STRETCH, 2 * STRETCH):
                live(job, first, first + STRETCH)
                sizes.append(measured())
    finally:
        tracemalloc.stop()
    # A leak of one dict entry for each new key would be 100 bytes for each of them, every time.
    # Once there may be other reasons: rates remember the last minute, and other threads of the process count, too.
    assert min(after - before for before, after in pairwise(sizes)) < 50 * STRETCH * KEYS


def measured() -> int:
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


def test_files_and_manifests_do_not_grow(tmp_path: Path) -> None:
    storage: Storage = MemoryStorage()
    manifests, stored, end = [], [], how_many(160, 320)
    with JobHarness(visits, inputs=["records"], storage=storage, merge_after=4) as job:
        for epoch in range(0, end, 4):
            live(job, epoch, epoch + 4)
            manifests.append(storage.size(manifest_name(job.head.slot)))
            stored.append(sum(storage.size(name) for name in storage.list()))
        leave(job, end)
        for _ in range(40):
            job.epoch()
        half = len(manifests) // 2
        assert max(manifests[half:]) <= 1.2 * max(manifests[:half])
        assert max(stored[half:]) <= 1.2 * max(stored[:half])
        # After a merge of everything no file holds a trace of any key.
        live(job, 1000, 1016)
        leave(job, 1016)
        for name in ("value", "items", "map", "most", "mean"):
            assert job.state("visits", name) == {}
        assert job.timers("visits") == []


def test_a_merge_of_all_runs_leaves_no_tombstones() -> None:
    with JobHarness(visits, inputs=["records"], merge_after=2) as job:
        live(job, 0, 6)
        leave(job, 6)
        # Nothing changes any more but one key of another operator's size: runs are merged until one is left.
        for _ in range(8):
            job.epoch(records=[(10**9, True)])
            job.epoch(records=[(10**9, False)])
        bytes_left = sum(run.bytes for run in job.head.runs)
        rows = 10 * 6 * KEYS
        assert bytes_left < 10 * rows, "six epochs of forty keys and ten states and timers are gone"
