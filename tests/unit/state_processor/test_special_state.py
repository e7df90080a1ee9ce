"""State with a time to live, operator state and broadcast state as data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from tidemill import state_processor
from tidemill.common import Types
from tidemill.common.time import Duration
from tidemill.datastream import DataStream, KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment
from tidemill.datastream.functions import MapFunction
from tidemill.datastream.functions.broadcast import BroadcastProcessFunction
from tidemill.datastream.functions.checkpointed import CheckpointedFunction
from tidemill.datastream.state import ListStateDescriptor, MapStateDescriptor, StateTtlConfig, ValueStateDescriptor
from tidemill.errors import StateError
from tidemill.testing import JobHarness

Env = StreamExecutionEnvironment


class Expiring(KeyedProcessFunction):
    """All kinds of state, with or without a time to live."""

    def __init__(self, ttl: int | None) -> None:
        self.ttl = ttl

    def open(self, runtime_context: RuntimeContext) -> None:
        value = ValueStateDescriptor("value", Types.LONG())
        items = ListStateDescriptor("list", Types.STRING())
        entries = MapStateDescriptor("map", Types.STRING(), Types.LONG())
        if self.ttl is not None:
            for descriptor in (value, items, entries):
                descriptor.enable_time_to_live(StateTtlConfig.new_builder(Duration.of_millis(self.ttl)).build())
        self.value = runtime_context.get_state(value)
        self.list = runtime_context.get_list_state(items)
        self.map = runtime_context.get_map_state(entries)

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        self.value.update(len(value))
        self.list.add(value)
        self.map.put(value, len(value))
        yield value


def with_ttl(ttl: int | None) -> Any:
    def build(env: Env, words: DataStream) -> DataStream:
        return words.key_by(lambda word: word[0], Types.STRING()).process(Expiring(ttl)).uid("op")

    return build


def test_state_with_a_time_to_live_shows_values_and_when_they_were_accessed() -> None:
    with JobHarness(with_ttl(1000), inputs=["words"], processing_time=5) as job:
        job.epoch(words=["ab"])
        job.set_processing_time(7)
        job.epoch(words=["a"])
        state = state_processor.read(job.storage)
        assert state.keyed_state("op", "value").to_pylist() == [{"key": "a", "value": 1, "last_access": 7}]
        assert state.keyed_state("op", "list").to_pylist() == [
            {"key": "a", "value": ["ab", "a"], "last_access": [5, 7]}
        ]
        assert state.keyed_state("op", "map").to_pylist() == [
            {"key": "a", "map_key": "ab", "value": 2, "last_access": 5},
            {"key": "a", "map_key": "a", "value": 1, "last_access": 7},
        ]
        assert state.get("op", "list", "a") == ["ab", "a"]
        assert state.get("op", "map", "a") == {"ab": 2, "a": 1}
        assert state.operators()[0].states[0].types == {"key": "String", "value": "Long"}


def test_entries_from_before_a_time_to_live_were_accessed_when_it_was_turned_on() -> None:
    with JobHarness(with_ttl(None), inputs=["words"]) as job:
        job.epoch(words=["ab", "b"])
        job.set_processing_time(7)
        job.restart(build=with_ttl(10**6))
        job.epoch(words=["a"])
        table = state_processor.read(job.storage).keyed_state("op", "value").sort_by("key")
        assert table.column("value").to_pylist() == [1, 1]
        assert table.column("last_access").to_pylist() == [7, 7]


class Buffer(MapFunction, CheckpointedFunction):
    """Split, union and broadcast-like state of a function without keys."""

    def initialize_state(self, context: Any) -> None:
        store = context.get_operator_state_store()
        self.split = store.get_list_state(ListStateDescriptor("seen", Types.LONG()))
        self.union = store.get_union_list_state(ListStateDescriptor("all", Types.STRING()))

    def snapshot_state(self, context: Any) -> None:
        pass

    def map(self, value: int) -> int:
        self.split.add(value)
        self.union.add(str(value))
        return value


def buffer(env: Env, numbers: DataStream) -> DataStream:
    return numbers.rebalance().map(Buffer()).uid("buffer")


def test_operator_state_has_a_row_per_element() -> None:
    with JobHarness(buffer, inputs=["numbers"], parallelism=2) as job:
        job.epoch(numbers=[1, 2, 3])
        job.epoch(numbers=[4])
        state = state_processor.read(job.storage)
        table = state.operator_state("buffer", "seen")
        assert table.schema == pa.schema([("subtask", pa.int64()), ("value", pa.int64())])
        assert sorted(table.column("value").to_pylist()) == [1, 2, 3, 4]
        assert set(table.column("subtask").to_pylist()) == {0, 1}
        assert sorted(state.operator_state("buffer", "all").column("value").to_pylist()) == ["1", "2", "3", "4"]
        (operator,) = state.operators()
        assert [(info.name, info.kind) for info in operator.operator_states] == [("seen", "split"), ("all", "union")]
        assert operator.states == ()
        with pytest.raises(StateError, match="no state 'seem' of the operator with uid 'buffer'; did you mean 'seen'"):
            state.operator_state("buffer", "seem")
        with pytest.raises(StateError, match="is operator state: use operator_state"):
            state.keyed_state("buffer", "__operator:seen")


RULES = MapStateDescriptor("rules", Types.STRING(), Types.LONG())


class Rules(BroadcastProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        yield value

    def process_broadcast_element(self, value: Any, ctx: Any) -> None:
        ctx.get_broadcast_state(RULES).put(*value)


def test_broadcast_state_is_shown_once() -> None:
    def build(env: Env, words: DataStream, rules: DataStream) -> DataStream:
        return words.connect(rules.broadcast(RULES)).process(Rules()).uid("op")

    with JobHarness(build, inputs=["words", "rules"], parallelism=3) as job:
        job.epoch(rules=[("a", 1), ("b", 2)])
        job.epoch(rules=[("a", 3)])
        table = state_processor.read(job.storage).operator_state("op", "rules")
        assert table.to_pylist() == [{"map_key": "a", "value": 3}, {"map_key": "b", "value": 2}]


def test_keyed_state_is_not_operator_state() -> None:
    with JobHarness(with_ttl(None), inputs=["words"]) as job:
        job.epoch(words=["ab"])
        with pytest.raises(StateError, match="is keyed state: use keyed_state"):
            state_processor.read(job.storage).operator_state("op", "value")
