"""The number of entries is the same wherever it is shown: in metrics, for the harness, and in what is read."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from tidemill.common import Types
from tidemill.datastream import (
    DataStream,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    RuntimeContext,
    TimeDomain,
    ValueStateDescriptor,
)
from tidemill.state_processor import read
from tidemill.testing import JobHarness


class Keeping(KeyedProcessFunction):
    """Keeps each kind of state, deletes some, and moves the timer of a key with each record."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.value = runtime_context.get_state(ValueStateDescriptor("value", Types.LONG()))
        self.map = runtime_context.get_map_state(MapStateDescriptor("map", Types.LONG(), Types.LONG()))
        self.list = runtime_context.get_list_state(ListStateDescriptor("list", Types.LONG()))

    def process_element(self, value: tuple[int, int], ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        _key, number = value
        ctx.timer_service().delete_event_time_timer(1_000 + (self.value.value() or 0))
        if number < 0:
            self.value.clear()
            self.map.remove(0)
            self.list.clear()
            return
        self.value.update(number)
        self.map.put(number % 3, number)
        self.list.add(number)
        ctx.timer_service().register_event_time_timer(1_000 + number)
        yield from ()


def keeping(_env: Any, records: DataStream) -> None:
    typed = records.map(lambda record: record, Types.TUPLE([Types.LONG(), Types.LONG()]))
    typed.key_by(lambda record: record[0], Types.LONG()).process(Keeping(), Types.LONG()).uid("keeping")


@pytest.mark.parametrize("epochs", [1, 5, 20], ids=["one", "some", "merged"])
def test_entries_and_timers_agree(epochs: int) -> None:
    with JobHarness(keeping, inputs=["records"], parallelism=2) as job:
        for epoch in range(epochs):
            job.epoch(records=[(key, epoch * 7 + key) for key in range(10)])
        job.epoch(records=[(key, -1) for key in range(4)])
        (found,) = [one for one in read(job.storage).counted_operators() if one.uid == "keeping"]
        job.epoch()  # workers report what was committed before
        metrics = job.metrics()
        entries = {one.name: one.entries for one in found.states}
        keys = {**entries, "map": len(job.state("keeping", "map"))}  # workers count keys
        assert keys == {name: metrics.total("stateEntries", variables={"state": name}) for name in entries}
        assert entries == {
            "value": len(job.state("keeping", "value")),
            "map": sum(len(one) for one in job.state("keeping", "map").values()),
            "list": len(job.state("keeping", "list")),
        }
        assert entries["value"] == 6
        timers = job.timers("keeping", TimeDomain.EVENT_TIME)
        assert found.timers == len(timers) == 6
        assert metrics.total("stateEntries", variables={"state": "__timers_event"}) == 6
