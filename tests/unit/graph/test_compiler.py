"""From programs to plans: chains, levels, partitioning, uids, errors."""

from __future__ import annotations

import itertools
import json
import pickle
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from tidemill.common import Configuration, Time, Types
from tidemill.datastream import (
    AsyncDataStream,
    AsyncFunction,
    BroadcastProcessFunction,
    CheckpointedFunction,
    CheckpointListener,
    CoMapFunction,
    DataStream,
    MapFunction,
    MapStateDescriptor,
    OutputTag,
    ProcessFunction,
    RuntimeExecutionMode,
    SinkFunction,
    StreamExecutionEnvironment,
    TumblingEventTimeWindows,
)
from tidemill.datastream.program.key_selectors import PositionSelector
from tidemill.datastream.program.specs import MapSpec
from tidemill.datastream.program.transformations import ChainingStrategy, PartitionKind
from tidemill.errors import GraphError
from tidemill.graph.compiler import compile_job
from tidemill.graph.explain import explain_plan
from tidemill.graph.plan import JobPlan
from tidemill.graph.uids import operators_by_uid


class Both(CoMapFunction):
    def map1(self, value: Any) -> Any:
        return value

    def map2(self, value: Any) -> Any:
        return value


class Tagged(ProcessFunction):
    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Iterator[Any]:
        yield value


class Buffering(MapFunction, CheckpointedFunction):
    def map(self, value: Any) -> Any:
        return value

    def snapshot_state(self, context: Any) -> None:
        pass

    def initialize_state(self, context: Any) -> None:
        pass


class BufferingSink(SinkFunction, CheckpointedFunction):
    def invoke(self, value: Any, context: SinkFunction.Context) -> None:
        pass

    def snapshot_state(self, context: Any) -> None:
        pass

    def initialize_state(self, context: Any) -> None:
        pass


class Asking(AsyncFunction):
    async def async_invoke(self, value: Any) -> list[Any]:
        return [value]


class Listening(MapFunction, CheckpointListener):
    def map(self, value: Any) -> Any:
        return value


class Joining(BroadcastProcessFunction):
    def process_element(self, value: Any, ctx: BroadcastProcessFunction.ReadOnlyContext) -> Iterator[Any]:
        yield value

    def process_broadcast_element(self, value: Any, ctx: BroadcastProcessFunction.Context) -> None:
        pass


@pytest.fixture
def env() -> StreamExecutionEnvironment:
    return StreamExecutionEnvironment.get_execution_environment().set_parallelism(2)


def compiled(env: StreamExecutionEnvironment, **kwargs: Any) -> JobPlan:
    program = env._program("job")
    return compile_job(program.transformations, program.configuration, program.name, **kwargs)


def chains(plan: JobPlan) -> list[str]:
    return [chain.name for chain in plan.chains]


def levels(plan: JobPlan) -> list[list[str]]:
    return [[plan.chains[chain].head.name for chain in level] for level in plan.levels]


def edges(plan: JobPlan) -> list[tuple[str, str, str]]:
    return [
        (
            plan.chains[edge.source_chain].operators[edge.source_operator].name,
            edge.kind.value,
            plan.chains[edge.target_chain].head.name,
        )
        for edge in plan.edges
    ]


def identity(value: Any) -> Any:
    return value


def spark_source(env: StreamExecutionEnvironment, streaming: bool = False) -> DataStream:
    return env.from_dataframe(SimpleNamespace(isStreaming=streaming, schema=None)).name("S")


class TestChains:
    def test_word_count(self, env: StreamExecutionEnvironment) -> None:
        words = env.from_sequence(1, 9).name("S").flat_map(list).map(identity)
        words.key_by(0).sum(1).map(identity).name("After").print().name("P")
        plan = compiled(env)
        assert chains(plan) == ["S -> FlatMap -> Map", "Reduce -> After -> P"]
        assert edges(plan) == [("Map", "HASH", "Reduce")]
        assert plan.edges[0].description == "HASH(0)"
        assert [chain.parallelism for chain in plan.chains] == [2, 2]
        assert [chain.stateful for chain in plan.chains] == [False, True]
        assert [chain.id for chain in plan.chains] == [0, 1]

    def test_a_chain_is_a_tree(self, env: StreamExecutionEnvironment) -> None:
        source = env.from_sequence(1, 9).name("S")
        first = source.map(identity).name("A")
        source.map(identity).name("B").print().name("P")
        first.print().name("Q")
        plan = compiled(env)
        assert [operator.name for operator in plan.chains[0].operators] == ["S", "A", "B", "P", "Q"]
        assert [(link.source, link.target) for link in plan.chains[0].links] == [(0, 1), (0, 2), (2, 3), (1, 4)]
        assert plan.edges == ()

    @pytest.mark.parametrize(
        ("strategies", "expected"),
        [
            ((ChainingStrategy.ALWAYS, ChainingStrategy.ALWAYS), ["S -> A -> B"]),
            ((ChainingStrategy.ALWAYS, ChainingStrategy.HEAD), ["S -> A", "B"]),
            ((ChainingStrategy.ALWAYS, ChainingStrategy.NEVER), ["S -> A", "B"]),
            ((ChainingStrategy.HEAD, ChainingStrategy.ALWAYS), ["S", "A -> B"]),
            ((ChainingStrategy.HEAD, ChainingStrategy.HEAD), ["S", "A", "B"]),
            ((ChainingStrategy.NEVER, ChainingStrategy.ALWAYS), ["S", "A", "B"]),
        ],
    )
    def test_strategies(
        self,
        env: StreamExecutionEnvironment,
        strategies: tuple[ChainingStrategy, ChainingStrategy],
        expected: list[str],
    ) -> None:
        stream = env.from_sequence(1, 9).name("S")
        for name, strategy in zip("AB", strategies, strict=True):
            stream = stream.map(identity).name(name)
            stream._operator("test").chaining = strategy
        plan = compiled(env)
        assert chains(plan) == expected
        assert {edge.kind for edge in plan.edges} <= {PartitionKind.FORWARD}

    @pytest.mark.parametrize(
        ("method", "kind"),
        [
            ("rebalance", "REBALANCE"),
            ("rescale", "RESCALE"),
            ("shuffle", "SHUFFLE"),
            ("broadcast", "BROADCAST"),
            ("global_", "GLOBAL"),
        ],
    )
    def test_partitioning_breaks_a_chain(self, env: StreamExecutionEnvironment, method: str, kind: str) -> None:
        getattr(env.from_sequence(1, 9).name("S"), method)().map(identity)
        assert edges(compiled(env)) == [("S", kind, "Map")]

    def test_forward_does_not(self, env: StreamExecutionEnvironment) -> None:
        env.from_sequence(1, 9).name("S").forward().map(identity)
        assert chains(compiled(env)) == ["S -> Map"]

    def test_different_parallelism_breaks_a_chain(self, env: StreamExecutionEnvironment) -> None:
        env.from_sequence(1, 9).name("S").map(identity).name("A").set_parallelism(3).map(identity).name("B")
        plan = compiled(env)
        assert chains(plan) == ["S", "A", "B"]
        assert edges(plan) == [("S", "REBALANCE", "A"), ("A", "REBALANCE", "B")]
        assert [chain.parallelism for chain in plan.chains] == [2, 3, 2]

    def test_slot_sharing_groups(self, env: StreamExecutionEnvironment) -> None:
        stream = env.from_sequence(1, 9).name("S").map(identity).name("A").slot_sharing_group("g")
        stream.map(identity).name("B").map(identity).name("C").slot_sharing_group("default")
        plan = compiled(env)
        assert chains(plan) == ["S", "A -> B", "C"]
        assert {edge.kind for edge in plan.edges} == {PartitionKind.FORWARD}

    def test_chaining_can_be_turned_off(self, env: StreamExecutionEnvironment) -> None:
        env.disable_operator_chaining()
        env.from_sequence(1, 9).name("S").map(identity).name("A").map(identity).name("B")
        assert chains(compiled(env)) == ["S", "A", "B"]

    def test_two_inputs_are_never_chained(self, env: StreamExecutionEnvironment) -> None:
        one, two = env.from_sequence(1, 9).name("S"), env.from_sequence(1, 9).name("T")
        one.connect(two).map(Both()).name("C").map(identity).name("D")
        plan = compiled(env)
        assert chains(plan) == ["S", "T", "C -> D"]
        assert edges(plan) == [("S", "FORWARD", "C"), ("T", "FORWARD", "C")]
        assert [edge.input_index for edge in plan.edges] == [0, 1]
        assert plan.chains[2].head.inputs == 2

    def test_a_union_is_no_chain_and_no_operator(self, env: StreamExecutionEnvironment) -> None:
        streams = [env.from_sequence(1, 9).name(name) for name in "STU"]
        streams[0].union(*streams[1:]).map(identity)
        plan = compiled(env)
        assert chains(plan) == ["S", "T", "U", "Map"]
        assert [edge.input_index for edge in plan.edges] == [0, 0, 0]

    def test_union_with_itself_is_two_edges(self, env: StreamExecutionEnvironment) -> None:
        stream = env.from_sequence(1, 9).name("S")
        stream.union(stream).map(identity)
        assert edges(compiled(env)) == [("S", "FORWARD", "Map")] * 2

    def test_side_outputs(self, env: StreamExecutionEnvironment) -> None:
        tag = OutputTag("t", Types.LONG())
        main = env.from_sequence(1, 9).name("S").process(Tagged()).name("P")
        main.get_side_output(tag).map(identity).name("A")
        main.get_side_output(tag).key_by(0).map(identity).name("B")
        plan = compiled(env)
        assert plan.chains[0].links[1].side_output == "t"
        assert plan.edges[0].side_output == "t"
        assert plan.chains[0].operators[1].side_outputs == (("t", Types.LONG()),)

    def test_two_keyed_operators_in_a_row_are_not_chained(self, env: StreamExecutionEnvironment) -> None:
        env.from_sequence(1, 9).name("S").key_by(identity).sum().key_by(identity).max().name("M")
        assert chains(compiled(env)) == ["S", "Reduce", "M"]


class TestLevels:
    def test_diamond(self, env: StreamExecutionEnvironment) -> None:
        source = env.from_sequence(1, 9).name("S")
        left = source.rebalance().map(identity).name("L")
        right = source.key_by(identity).map(identity).name("R")
        left.connect(right).map(Both()).name("J")
        assert levels(compiled(env)) == [["S"], ["L", "R"], ["J"]]

    def test_an_edge_may_skip_levels(self, env: StreamExecutionEnvironment) -> None:
        source = env.from_sequence(1, 9).name("S")
        deep = source.rebalance().map(identity).name("A").rebalance().map(identity).name("B")
        deep.union(source).rebalance().map(identity).name("C")
        plan = compiled(env)
        assert levels(plan) == [["S"], ["A"], ["B"], ["C"]]
        assert edges(plan)[-2:] == [("B", "REBALANCE", "C"), ("S", "REBALANCE", "C")]

    def test_fork_to_several_sinks(self, env: StreamExecutionEnvironment) -> None:
        source = env.from_collection([1]).name("S")
        for name in "ABC":
            source.map(identity).name(name).print()
        assert levels(compiled(env)) == [["S"], ["A", "B", "C"]]

    def test_sources_are_on_level_0_wherever_they_are_used(self, env: StreamExecutionEnvironment) -> None:
        deep = env.from_sequence(1, 9).name("S").rebalance().map(identity).name("A").rebalance().map(identity).name("B")
        deep.connect(env.from_sequence(1, 9).name("T")).map(Both()).name("J")
        assert levels(compiled(env)) == [["S", "T"], ["A"], ["B"], ["J"]]

    def test_separate_parts(self, env: StreamExecutionEnvironment) -> None:
        for name in "ST":
            env.from_sequence(1, 9).name(name).key_by(identity).sum()
        assert levels(compiled(env)) == [["S", "T"], ["Reduce", "Reduce"]]

    def test_every_level_of_every_shape_is_below_its_producers(self, env: StreamExecutionEnvironment) -> None:
        streams = [env.from_sequence(1, 9) for _ in range(3)]
        for one, two in itertools.combinations(range(8), 2):
            if two < len(streams):
                streams.append(streams[one].union(streams[two]).rebalance().map(identity))
        plan = compiled(env)
        assert all(plan.chains[edge.source_chain].level < plan.chains[edge.target_chain].level for edge in plan.edges)
        assert [chain for level in plan.levels for chain in level] == list(range(len(plan.chains)))
        assert all(plan.levels)


class TestParallelism:
    def test_it_may_be_left_to_the_executor(self) -> None:
        env = StreamExecutionEnvironment.get_execution_environment()
        env.from_sequence(1, 9).name("S").map(identity).map(identity).name("B").set_parallelism(3)
        assert [chain.parallelism for chain in compiled(env).chains] == [0, 3]
        assert [chain.parallelism for chain in compiled(env, default_parallelism=4).chains] == [4, 3]
        assert [chain.parallelism for chain in compiled(env, default_parallelism=3).chains] == [3]
        assert [chain.parallelism for chain in compiled(env.set_parallelism(5), default_parallelism=4).chains] == [5, 3]

    def test_what_the_cluster_offers_is_bounded_by_max_parallelism(self) -> None:
        env = StreamExecutionEnvironment.get_execution_environment().set_max_parallelism(8)
        env.from_sequence(1, 9).map(identity)
        assert compiled(env, default_parallelism=64).chains[0].parallelism == 8

    def test_more_than_max_parallelism_is_an_error_with_both_numbers(self, env: StreamExecutionEnvironment) -> None:
        env.from_sequence(1, 9).map(identity).name("M").set_parallelism(9).set_max_parallelism(8)
        with pytest.raises(GraphError, match=r"'M' .*parallelism 9.*max parallelism 8"):
            compiled(env)

    def test_max_parallelism(self, env: StreamExecutionEnvironment) -> None:
        env.from_sequence(1, 9).map(identity).set_max_parallelism(8)
        plan = compiled(env)
        assert plan.max_parallelism == 1024
        assert [operator.max_parallelism for operator in plan.chains[0].operators] == [1024, 8]
        assert compiled(env.set_max_parallelism(64)).max_parallelism == 64

    def test_forward_between_unequal_parallelism_is_an_error(self, env: StreamExecutionEnvironment) -> None:
        env.from_sequence(1, 9).name("S").forward().map(identity).name("M").set_parallelism(3)
        with pytest.raises(GraphError, match=r"'S' .* has 2 and .*'M' .* has 3"):
            compiled(env)

    def test_a_collection_is_read_by_one_subtask(self, env: StreamExecutionEnvironment) -> None:
        env.from_collection([1]).name("S").map(identity)
        plan = compiled(env)
        assert [chain.parallelism for chain in plan.chains] == [1, 2]
        assert edges(plan) == [("S", "REBALANCE", "Map")]
        assert chains(compiled(env.set_parallelism(1))) == ["S -> Map"]

    def test_and_by_no_other_number(self, env: StreamExecutionEnvironment) -> None:
        env.from_collection([1]).set_parallelism(4).map(identity)
        with pytest.raises(GraphError, match="parallelism 1, 4 is not possible"):
            compiled(env)


class TestJoins:
    def test_the_inputs_of_a_join_have_the_parallelism_of_their_streams(self, env: StreamExecutionEnvironment) -> None:
        one, two = (env.from_collection([(1, 2)]).map(identity).set_parallelism(n) for n in (1, 3))
        windows = TumblingEventTimeWindows.of(10)
        one.join(two).where(0).equal_to(0).window(windows).apply(lambda a, b: a)
        inputs = [chain for chain in compiled(env).chains if "Input" in chain.name]
        assert [chain.name for chain in inputs] == ["Source: Collection Source -> Map -> Input 1", "Map -> Input 2"]
        assert [chain.parallelism for chain in inputs] == [1, 3]

    def test_of_united_streams_with_different_ones_the_default_holds(self, env: StreamExecutionEnvironment) -> None:
        windows = TumblingEventTimeWindows.of(10)
        one, two = (env.from_collection([(1, 2)]).map(identity).set_parallelism(n) for n in (1, 3))
        one.union(two).join(two).where(0).equal_to(0).window(windows).apply(lambda a, b: a)
        plan = compiled(env)
        assert {chain.head.name: chain.parallelism for chain in plan.chains}["Input 1"] == 2


class TestSparkSources:
    def test_operators_follow_the_source(self, env: StreamExecutionEnvironment) -> None:
        spark_source(env).map(identity).filter(bool).print().name("P")
        plan = compiled(env)
        assert chains(plan) == ["S -> Map -> Filter -> P"]
        assert plan.chains[0].parallelism is None

    def test_behind_an_exchange_they_have_their_own_parallelism(self, env: StreamExecutionEnvironment) -> None:
        spark_source(env).map(identity).key_by(0).sum(1)
        assert [chain.parallelism for chain in compiled(env).chains] == [None, 2]

    @pytest.mark.parametrize(
        "cut",
        [
            lambda stream: stream.map(identity).set_parallelism(2),
            lambda stream: stream.map(Buffering()),
            lambda stream: stream.map(Listening()),
            lambda stream: stream.map(identity).disable_chaining(),
            lambda stream: stream.map(identity).start_new_chain(),
            lambda stream: stream.map(identity).slot_sharing_group("g"),
            lambda stream: stream.add_sink(BufferingSink()),
            lambda stream: AsyncDataStream.ordered_wait(stream, Asking(), Time.seconds(1)),
            lambda stream: AsyncDataStream.unordered_wait(stream, Asking(), Time.seconds(1)).map(identity),
        ],
    )
    def test_what_needs_stable_subtasks_is_cut_off(self, env: StreamExecutionEnvironment, cut: Any) -> None:
        cut(spark_source(env))
        plan = compiled(env)
        assert [edge.kind for edge in plan.edges] == [PartitionKind.REBALANCE]
        assert [chain.parallelism for chain in plan.chains] == [None, 2]

    def test_operator_state_elsewhere_may_be_chained(self, env: StreamExecutionEnvironment) -> None:
        env.from_sequence(1, 9).name("S").map(Buffering())
        plan = compiled(env)
        assert chains(plan) == ["S -> Map"]
        assert plan.chains[0].stateful
        assert [operator.operator_state for operator in plan.chains[0].operators] == [False, True]

    def test_a_listener_has_no_state_but_continues_from_its_own_attempt(self, env: StreamExecutionEnvironment) -> None:
        env.from_sequence(1, 9).map(Listening())
        (chain,) = compiled(env).chains
        assert chain.stateful
        assert [(operator.checkpointed, operator.operator_state) for operator in chain.operators] == [
            (False, False),
            (True, False),
        ]

    def test_a_broadcast_side_goes_to_all_subtasks(self, env: StreamExecutionEnvironment) -> None:
        rules = env.from_collection([1]).broadcast(MapStateDescriptor("rules"))
        spark_source(env).connect(rules).process(Joining())
        plan = compiled(env)
        joined = plan.chains[-1]
        assert (joined.stateful, joined.head.operator_state, joined.parallelism) == (True, True, 2)
        assert [(edge.input_index, edge.kind) for edge in plan.edges] == [
            (0, PartitionKind.REBALANCE),
            (1, PartitionKind.BROADCAST),
        ]

    def test_a_union_of_sources_is_behind_an_exchange(self, env: StreamExecutionEnvironment) -> None:
        spark_source(env).union(spark_source(env)).map(identity)
        plan = compiled(env)
        assert [chain.parallelism for chain in plan.chains] == [None, None, 2]
        assert {edge.kind for edge in plan.edges} == {PartitionKind.REBALANCE}

    def test_without_chaining_everything_is_cut(self, env: StreamExecutionEnvironment) -> None:
        env.disable_operator_chaining()
        spark_source(env).map(identity)
        assert [chain.parallelism for chain in compiled(env).chains] == [None, 2]

    def test_forward_to_another_parallelism_is_an_error(self, env: StreamExecutionEnvironment) -> None:
        spark_source(env).forward().map(identity).set_parallelism(2)
        with pytest.raises(GraphError, match="Spark source"):
            compiled(env)

    def test_a_parallelism_set_on_the_source_is_not_taken(
        self, env: StreamExecutionEnvironment, caplog: pytest.LogCaptureFixture
    ) -> None:
        spark_source(env).set_parallelism(7).map(identity)
        assert compiled(env).chains[0].parallelism is None
        assert "one subtask per partition, not 7 subtasks" in caplog.text


class TestUids:
    @staticmethod
    def program(*, name: str = "n", parallelism: int = 2, extra: bool = False, uid: str | None = None) -> list[str]:
        env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(parallelism)
        source = env.from_sequence(1, 9)
        if extra:
            source = source.filter(bool)
        first = source.map(identity).name(name)
        if uid is not None:
            first.uid(uid)
        source.map(str)
        first.key_by(identity).sum().print()
        plan = compiled(env)
        return [operator.uid for chain in plan.chains for operator in chain.operators]

    def test_the_same_program_has_the_same_ids(self) -> None:
        assert self.program() == self.program()
        assert all(len(uid) == 32 for uid in self.program())
        assert len(set(self.program())) == 5

    def test_names_and_parallelism_play_no_part(self) -> None:
        assert set(self.program()) == set(self.program(name="other", parallelism=4))

    def test_the_shape_does(self) -> None:
        assert len(set(self.program()) & set(self.program(extra=True))) == 1  # the source

    def test_ids_are_written_in_stone(self) -> None:
        # State is found by these: a change here loses the state of every job without uids.
        env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(2)
        env.from_sequence(1, 9).map(identity)
        assert [operator.uid for operator in compiled(env).chains[0].operators] == [
            "c3fbd05f0a96e046133af5208b6f31c0",
            "6ddc86e3f4543dd9b69917bbe83001cb",
        ]

    def test_behind_a_uid_ids_are_stable(self) -> None:
        before, after = self.program(uid="u"), self.program(uid="u", extra=True)
        assert "u" in before
        assert set(before[-2:]) <= set(after)  # reduce and print

    def test_uid_hash_comes_first(self, env: StreamExecutionEnvironment) -> None:
        env.from_sequence(1, 9).map(identity).uid("u").set_uid_hash("a" * 32)
        operator = compiled(env).chains[0].operators[1]
        assert (operator.uid, operator.explicit_uid) == ("a" * 32, True)

    def test_one_uid_twice_is_an_error_that_names_both(self, env: StreamExecutionEnvironment) -> None:
        env.from_sequence(1, 9).map(identity).name("A").uid("u").map(identity).name("B").uid("u")
        with pytest.raises(GraphError) as caught:
            compiled(env)
        text = str(caught.value)
        assert "'u'" in text
        assert "'A'" in text
        assert "'B'" in text
        assert text.count(__file__) == 2

    def test_they_may_be_demanded(self, env: StreamExecutionEnvironment) -> None:
        env.get_config().disable_auto_generated_uids()
        env.from_sequence(1, 9).uid("s").map(identity).name("A")
        with pytest.raises(GraphError, match=r"'A' .*has no uid"):
            compiled(env)

    def test_the_program_is_found_by_uid(self, env: StreamExecutionEnvironment) -> None:
        env.from_collection([1, 2]).uid("s").map(identity).uid("m")
        found = operators_by_uid(env._transformations)
        assert set(found) == {"s", "m"}
        assert not found["s"].spec.source.create_enumerator(None).finished


class TestProgram:
    def test_nothing_to_run(self, env: StreamExecutionEnvironment) -> None:
        with pytest.raises(GraphError, match="No operators defined in streaming topology"):
            compiled(env)
        env.from_collection([1])
        with pytest.raises(GraphError, match="No operators"):
            compiled(env)

    def test_a_transformation_without_consumer_is_run(self, env: StreamExecutionEnvironment) -> None:
        env.from_sequence(1, 9).name("S").map(identity)
        assert chains(compiled(env)) == ["S -> Map"]

    def test_an_unused_source_is_not(self, env: StreamExecutionEnvironment) -> None:
        env.from_sequence(1, 9).name("unused")
        env.from_sequence(1, 9).name("S").map(identity)
        assert chains(compiled(env)) == ["S -> Map"]

    def test_runtime_mode(self, env: StreamExecutionEnvironment) -> None:
        spark_source(env).map(identity)
        assert compiled(env).runtime_mode == "STREAMING"
        assert compiled(env.set_runtime_mode(RuntimeExecutionMode.AUTOMATIC)).runtime_mode == "BATCH"
        spark_source(env, streaming=True).map(identity)
        assert compiled(env).runtime_mode == "STREAMING"
        with pytest.raises(GraphError, match=r"BATCH, but operator 'S' .*is unbounded"):
            compiled(env.set_runtime_mode(RuntimeExecutionMode.BATCH))

    def test_settings_and_details_are_in_the_plan(self, env: StreamExecutionEnvironment) -> None:
        env.from_sequence(1, 9).map(identity, Types.LONG()).set_description("twice").key_by(0, Types.INT()).map(str)
        plan = compiled(env)
        mapped, keyed = plan.chains[0].operators[1], plan.chains[1].head
        assert plan.settings == {"parallelism.default": "2"}
        assert (mapped.spec_kind, mapped.output_type, mapped.description) == ("MapSpec", Types.LONG(), "twice")
        assert mapped.user_line.startswith(__file__)
        assert (keyed.keyed, keyed.key_type) == (True, Types.INT())

    def test_functions_and_partitioners_come_out_as_they_went_in(self, env: StreamExecutionEnvironment) -> None:
        factor = 3
        env.from_sequence(1, 9).map(lambda n: n * factor).key_by(0).map(str)
        plan = compiled(env)
        spec = pickle.loads(plan.chains[0].operators[1].spec)
        assert isinstance(spec, MapSpec)
        assert spec.function(2) == 6
        partitioning = pickle.loads(plan.edges[0].partitioner)
        assert (partitioning.kind, partitioning.selector) == (PartitionKind.KEY_GROUP, PositionSelector(0))

    def test_the_plan_itself_can_be_sent(self, env: StreamExecutionEnvironment) -> None:
        env.from_sequence(1, 9).map(identity).print()
        plan = compiled(env)
        assert pickle.loads(pickle.dumps(plan)) == plan

    def test_sinks_report_their_guarantee(self, env: StreamExecutionEnvironment) -> None:
        env.from_sequence(1, 9).print()
        assert compiled(env).chains[0].operators[1].guarantee == "at-least-once"

    def test_edges_of_a_chain(self, env: StreamExecutionEnvironment) -> None:
        env.from_sequence(1, 9).key_by(identity).sum()
        plan = compiled(env)
        assert plan.edges_from(0) == plan.edges_into(1) == plan.edges
        assert plan.edges_into(0) == ()


class TestText:
    def program(self, env: StreamExecutionEnvironment) -> None:
        tag = OutputTag("late")
        main = env.from_collection([1]).name("S").process(Tagged()).name("P").uid("p")
        main.key_by("id").sum("n").name("Sum").print().name("Out")
        main.get_side_output(tag).connect(spark_source(env)).map(Both()).name("J").set_max_parallelism(8)

    def test_explain(self, env: StreamExecutionEnvironment) -> None:
        self.program(env)
        lines = [line.split(" (uid")[0] for line in env.explain().splitlines()]
        assert lines == [
            "Job 'Tidemill Streaming Job' (STREAMING, max parallelism 1024)",
            "Level 0",
            "  Chain 0 (parallelism 1)",
            "    S",
            "      => REBALANCE to chain 2 (P)",
            "  Chain 1 (parallelism of its Spark source)",
            "    S",
            "      => REBALANCE to chain 4 (J, input 2)",
            "Level 1",
            "  Chain 2 (parallelism 2)",
            "    P",
            "      => HASH(id) to chain 3 (Sum)",
            "      => side output 'late', FORWARD to chain 4 (J, input 1)",
            "Level 2",
            "  Chain 3 (parallelism 2)",
            "    Sum",
            "      Out",
            "  Chain 4 (parallelism 2)",
            "    J",
            "Results in 'Out': at-least-once ('Out' is at-least-once)",
        ]

    def test_notes(self, env: StreamExecutionEnvironment) -> None:
        self.program(env)
        text = explain_plan(compiled(env))
        assert "P (uid p, test_compiler.py:" in text
        assert "(derived), replayable, " in text
        assert "(derived), keyed, test_compiler.py:" in text
        assert "at-least-once" in text
        assert "max parallelism 8" in text

    def test_json(self, env: StreamExecutionEnvironment) -> None:
        self.program(env)
        nodes = json.loads(env.get_execution_plan())["nodes"]
        by_name = {node["type"]: node for node in nodes if node["parallelism"] != -2}
        assert [node["id"] for node in nodes] == list(range(1, len(nodes) + 1))
        assert by_name["S"] == {
            "id": 1,
            "type": "S",
            "pact": "Data Source",
            "contents": "S",
            "parallelism": 1,
            "replayable": True,
        }
        assert by_name["Out"]["pact"] == "Data Sink"
        assert (by_name["Out"]["guarantee"], by_name["Out"]["result"]) == ("at-least-once", "at-least-once")
        assert by_name["J"]["predecessors"] == [
            {"id": by_name["P"]["id"], "ship_strategy": "FORWARD", "side": "first"},
            {"id": 2, "ship_strategy": "REBALANCE", "side": "second"},
        ]
        assert by_name["Sum"]["predecessors"][0]["ship_strategy"] == "HASH"
        assert len(env._transformations) == 4  # asking does not take the program

    def test_parallelism_that_is_not_decided(self) -> None:
        env = StreamExecutionEnvironment.get_execution_environment(Configuration())
        env.from_sequence(1, 9).map(identity)
        assert json.loads(env.get_execution_plan())["nodes"][0]["parallelism"] == -1
        assert "default parallelism" in env.explain()
