"""Names and shapes of functions, contexts, tags and descriptors."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from tidemill.common import Duration, Row, Time, Types
from tidemill.datastream import functions, state
from tidemill.datastream.functions import (
    AggregateFunction,
    CallableReduceFunction,
    KeyedProcessFunction,
    MapFunction,
    ReduceFunction,
    RichMapFunction,
)
from tidemill.datastream.functions.state import Entries
from tidemill.datastream.output_tag import OutputTag
from tidemill.datastream.slot_sharing_group import MemorySize, SlotSharingGroup
from tidemill.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapState,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)


class Twice(MapFunction):
    def map(self, value: Any) -> Any:
        return 2 * value


class Largest(ReduceFunction):
    def reduce(self, value1: Any, value2: Any) -> Any:
        return max(value1, value2)


class Collect(AggregateFunction):
    def create_accumulator(self) -> Any:
        return ()

    def add(self, value: Any, accumulator: Any) -> Any:
        return (*accumulator, value)

    def get_result(self, accumulator: Any) -> Any:
        return list(accumulator)

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return acc_a + acc_b


#: Bases, a finished function, and what is implemented beside a function.
OTHERS = (
    "BaseBroadcastProcessFunction",
    "CallableReduceFunction",
    "CheckpointedFunction",
    "Function",
    "KeyedStateFunction",
    "SourceFunction",
)


def test_every_function_has_a_life_cycle_and_an_abstract_method() -> None:
    for name in functions.__all__:
        kind = getattr(functions, name)
        if name.endswith("Function") and name not in OTHERS:
            assert issubclass(kind, functions.Function)
            assert kind.__abstractmethods__


def test_rich_functions_are_the_plain_ones() -> None:
    assert RichMapFunction is MapFunction


def test_all_state_names_exist() -> None:
    assert all(hasattr(state, name) for name in state.__all__)


def test_on_timer_context_is_a_context() -> None:
    assert issubclass(KeyedProcessFunction.OnTimerContext, KeyedProcessFunction.Context)


class TestOutputTag:
    def test_equality_is_by_id(self) -> None:
        assert OutputTag("late") == OutputTag("late", Types.STRING()) != OutputTag("early")
        assert len({OutputTag("a"), OutputTag("a"), OutputTag("b")}) == 2

    def test_survives_pickling(self) -> None:
        copy = pickle.loads(pickle.dumps(OutputTag("late", Types.STRING())))
        assert copy == OutputTag("late")
        assert copy.type_info == Types.STRING()

    def test_a_list_of_types_is_a_row(self) -> None:
        assert OutputTag("row", [Types.STRING(), Types.LONG()]).type_info == Types.ROW([Types.STRING(), Types.LONG()])

    def test_refuses_an_empty_id_and_a_wrong_type(self) -> None:
        with pytest.raises(ValueError, match="cannot be None or empty"):
            OutputTag("")
        with pytest.raises(TypeError, match="'x'"):
            OutputTag("x", "STRING")  # type: ignore[arg-type]


class TestDescriptors:
    def test_kinds_and_types(self) -> None:
        descriptors = [
            ValueStateDescriptor("v", Types.LONG()),
            ListStateDescriptor("l", Types.LONG()),
            MapStateDescriptor("m", Types.STRING(), Types.LONG()),
            ReducingStateDescriptor("r", Largest(), Types.LONG()),
            AggregatingStateDescriptor("a", Collect(), Types.PICKLED_BYTE_ARRAY()),
        ]
        assert [one.kind for one in descriptors] == ["value", "list", "map", "reducing", "aggregating"]
        assert [one.get_name() for one in descriptors] == ["v", "l", "m", "r", "a"]
        assert descriptors[1].type_info == Types.LIST(Types.LONG())
        assert descriptors[2].type_info == Types.MAP(Types.STRING(), Types.LONG())

    def test_value_state_has_a_default(self) -> None:
        assert ValueStateDescriptor("v", Types.LONG()).default_value is None
        assert ValueStateDescriptor("v", Types.LONG(), 7).default_value == 7

    def test_a_list_of_types_is_a_row(self) -> None:
        assert ValueStateDescriptor("v", [Types.INT()]).type_info == Types.ROW([Types.INT()])

    def test_a_callable_becomes_a_reduce_function(self) -> None:
        function = ReducingStateDescriptor("r", max, Types.LONG()).get_reduce_function()
        assert isinstance(function, CallableReduceFunction)
        assert function.reduce(1, 2) == 2

    @pytest.mark.parametrize(
        ("build", "error"),
        [
            (lambda: ValueStateDescriptor(""), ValueError),
            (lambda: ValueStateDescriptor("v", "LONG"), TypeError),  # type: ignore[arg-type]
            (lambda: ReducingStateDescriptor("r", 3, Types.LONG()), TypeError),  # type: ignore[arg-type]
            (lambda: AggregatingStateDescriptor("a", max, Types.LONG()), TypeError),  # type: ignore[arg-type]
            (lambda: ValueStateDescriptor("v").set_queryable(""), ValueError),
        ],
    )
    def test_nonsense_is_refused(self, build: Any, error: type[Exception]) -> None:
        with pytest.raises(error):
            build()

    def test_ttl_and_queryable_are_kept(self) -> None:
        ttl = StateTtlConfig.new_builder(Time.seconds(10)).build()
        descriptor = MapStateDescriptor("m", Types.STRING(), Types.LONG())
        descriptor.enable_time_to_live(ttl)
        descriptor.set_queryable("visible")
        assert (descriptor.ttl_config, descriptor.queryable_name) == (ttl, "visible")

    def test_they_survive_pickling(self) -> None:
        descriptor = ValueStateDescriptor("v", Types.LONG(), 3)
        descriptor.enable_time_to_live(StateTtlConfig.new_builder(Duration.of_seconds(1)).build())
        copy = pickle.loads(pickle.dumps(descriptor))
        assert (copy.name, copy.type_info, copy.default_value) == ("v", Types.LONG(), 3)
        assert copy.ttl_config.is_enabled()


class TestTtl:
    def test_defaults(self) -> None:
        config = StateTtlConfig.new_builder(Time.days(1)).build()
        assert config.get_update_type() is StateTtlConfig.UpdateType.OnCreateAndWrite
        assert config.get_state_visibility() is StateTtlConfig.StateVisibility.NeverReturnExpired
        assert config.get_ttl_time_characteristic() is StateTtlConfig.TtlTimeCharacteristic.ProcessingTime
        incremental = config.get_cleanup_strategies().get_incremental_cleanup_strategy()
        assert incremental is not None
        assert incremental.get_cleanup_size() == 5
        assert not config.get_cleanup_strategies().in_full_snapshot()

    def test_everything_set(self) -> None:
        config = (
            StateTtlConfig.new_builder(Time.days(1))
            .set_ttl(Time.hours(2))
            .update_ttl_on_read_and_write()
            .return_expired_if_not_cleaned_up()
            .use_event_time()
            .cleanup_full_snapshot()
            .cleanup_incrementally(10, True)
            .cleanup_in_rocksdb_compact_filter(500, Duration.of_days(2))
            .disable_cleanup_in_background()
            .build()
        )
        strategies = config.get_cleanup_strategies()
        incremental = strategies.get_incremental_cleanup_strategy()
        compaction = strategies.get_rocksdb_compact_filter_cleanup_strategy()
        assert config.get_ttl() == Time.hours(2)
        assert config.get_ttl_time_characteristic() is StateTtlConfig.TtlTimeCharacteristic.EventTime
        assert strategies.in_full_snapshot()
        assert not strategies.is_cleanup_in_background()
        assert incremental is not None
        assert incremental.run_cleanup_for_every_record()
        assert compaction is not None
        assert compaction.get_query_time_after_num_entries() == 500

    def test_without_background_cleanup_there_are_no_default_strategies(self) -> None:
        strategies = StateTtlConfig.new_builder(Time.days(1)).disable_cleanup_in_background().build()
        assert strategies.get_cleanup_strategies().get_incremental_cleanup_strategy() is None
        assert strategies.get_cleanup_strategies().get_rocksdb_compact_filter_cleanup_strategy() is None


def test_map_state_reads_like_a_dict() -> None:
    class Plain(MapState[str, int]):
        def __init__(self) -> None:
            self.entries: dict[str, int] = {}

        def get(self, key: str) -> int:
            return self.entries[key]

        def put(self, key: str, value: int) -> None:
            self.entries[key] = value

        def put_all(self, dict_value: Entries[str, int]) -> None:
            self.entries.update(dict_value)

        def remove(self, key: str) -> None:
            self.entries.pop(key, None)

        def contains(self, key: str) -> bool:
            return key in self.entries

        def items(self) -> Any:
            return self.entries.items()

        def keys(self) -> Any:
            return self.entries.keys()

        def values(self) -> Any:
            return self.entries.values()

        def is_empty(self) -> bool:
            return not self.entries

        def clear(self) -> None:
            self.entries.clear()

    plain = Plain()
    plain["a"] = 1
    plain["b"] = 2
    del plain["b"]
    assert plain["a"] == 1
    assert "a" in plain
    assert "b" not in plain
    assert list(plain) == ["a"]


def test_slot_sharing_group() -> None:
    group = SlotSharingGroup.builder("big").set_cpu_cores(2).set_task_heap_memory_mb(64).build()
    assert group.get_name() == "big"
    assert group.get_task_heap_memory() == MemorySize.of_mebi_bytes(64)
    assert group.get_managed_memory() is None


def test_rows_are_rows() -> None:
    assert Twice().map(Row(1)[0]) == 2
