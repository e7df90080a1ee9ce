"""What a function is given, or reads from a state, can be looped over twice."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

from tidemill.common import Duration, Types, WatermarkStrategy
from tidemill.common.watermark_strategy import TimestampAssigner
from tidemill.datastream import (
    BroadcastProcessFunction,
    CoGroupFunction,
    DataStream,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    StreamExecutionEnvironment,
    TumblingEventTimeWindows,
)
from tidemill.datastream.functions.state_ttl import StateTtlConfig
from tidemill.datastream.window import CountEvictor
from tidemill.testing import run_local

Env = StreamExecutionEnvironment
FIVE = TumblingEventTimeWindows.of(5)


def twice(values: Iterable[Any]) -> tuple[int, int]:
    return sum(1 for _ in values), sum(1 for _ in values)


class States(KeyedProcessFunction):
    def __init__(self, ttl: bool) -> None:
        self.list, self.map = ListStateDescriptor("l"), MapStateDescriptor("m")
        if ttl:
            config = StateTtlConfig.new_builder(Duration.of_seconds(100)).build()
            self.list.enable_time_to_live(config)
            self.map.enable_time_to_live(config)

    def open(self, runtime_context: Any) -> None:
        self.elements = runtime_context.get_list_state(self.list)
        self.entries = runtime_context.get_map_state(self.map)

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        self.elements.add(value)
        self.entries.put(value, value)
        read = (self.elements.get(), self.entries.items(), self.entries.keys(), self.entries.values())
        yield from map(twice, read)


class Window(ProcessWindowFunction):
    def process(self, key: Any, context: Any, elements: Iterable[Any]) -> Iterator[Any]:
        yield twice(elements)


class AllWindow(ProcessAllWindowFunction):
    def process(self, context: Any, elements: Iterable[Any]) -> Iterator[Any]:
        yield twice(elements)


class Group(CoGroupFunction):
    def co_group(self, first: Iterable[Any], second: Iterable[Any]) -> Iterator[Any]:
        yield twice(first)
        yield twice(second)


class Broadcast(BroadcastProcessFunction):
    descriptor = MapStateDescriptor("rules", Types.LONG(), Types.LONG())

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        state = ctx.get_broadcast_state(self.descriptor)
        if state.contains(9):
            yield from map(twice, (state.items(), state.keys(), state.values()))

    def process_broadcast_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        state = ctx.get_broadcast_state(self.descriptor)
        state.put(value, value)
        yield from map(twice, (state.items(), state.keys(), state.values()))


class Time(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return int(value)


def timed(env: Env) -> DataStream:
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Time())
    return env.from_collection([1, 2]).assign_timestamps_and_watermarks(strategy)


def one(value: Any) -> int:
    return 1


PROGRAMS: dict[str, Callable[[Env], DataStream]] = {
    "states": lambda env: timed(env).key_by(one).process(States(ttl=False)),
    "states that expire": lambda env: timed(env).key_by(one).process(States(ttl=True)),
    "window": lambda env: timed(env).key_by(one).window(FIVE).process(Window()),
    "window with an evictor": lambda env: (
        timed(env).key_by(one).window(FIVE).evictor(CountEvictor.of(5)).process(Window())
    ),
    "window of all": lambda env: timed(env).window_all(FIVE).process(AllWindow()),
    "co_group": lambda env: timed(env).co_group(timed(env)).where(one).equal_to(one).window(FIVE).apply(Group()),
    "broadcast": lambda env: (
        timed(env).connect(env.from_collection([9]).broadcast(Broadcast.descriptor)).process(Broadcast())
    ),
}


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_the_second_loop_finds_the_same(program: str, backend: str) -> None:
    found = run_local(PROGRAMS[program], configuration={"state.backend.type": backend})
    assert found
    assert all(first == second > 0 for first, second in found)
