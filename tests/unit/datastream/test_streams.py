"""Every method of a stream builds the node it should."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

import pytest

from tidemill.common import Duration, Row, Types, WatermarkStrategy
from tidemill.connectors.collect import CollectSink
from tidemill.connectors.function_sink import FunctionSink
from tidemill.connectors.print_sink import PrintSink
from tidemill.datastream import (
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    DataStream,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    KeyedStream,
    MapFunction,
    OutputTag,
    ProcessFunction,
    SinkFunction,
    SlotSharingGroup,
    StreamExecutionEnvironment,
)
from tidemill.datastream.functions.built_in import AggregateKind, BuiltIn
from tidemill.datastream.program.key_selectors import FieldSelector, PositionSelector
from tidemill.datastream.program.specs import (
    BatchMapSpec,
    CoFlatMapSpec,
    CoMapSpec,
    CoProcessSpec,
    FilterSpec,
    FlatMapSpec,
    MapSpec,
    ProcessSpec,
    ReduceSpec,
    SinkSpec,
    TimestampsSpec,
)
from tidemill.datastream.program.transformations import ChainingStrategy, PartitionKind, Transformation
from tidemill.datastream.streams.with_state import FilterWithState, FlatMapWithState, MapWithState
from tidemill.errors import GraphError


class Pass(ProcessFunction):
    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Iterator[Any]:
        yield value


class Lengths(ProcessFunction):
    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Iterator[int]:
        yield len(value)


class KeyedPass(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        yield value


class Both(CoMapFunction):
    def map1(self, value: Any) -> str:
        return str(value)

    def map2(self, value: Any) -> str:
        return str(value)


class BothFlat(CoFlatMapFunction):
    def flat_map1(self, value: Any) -> Iterator[int]:
        yield 1

    def flat_map2(self, value: Any) -> Iterator[str]:
        yield "a"


class BothProcess(CoProcessFunction):
    def process_element1(self, value: Any, ctx: CoProcessFunction.Context) -> Iterator[Any]:
        yield value

    def process_element2(self, value: Any, ctx: CoProcessFunction.Context) -> Iterator[Any]:
        yield value


class KeyedBoth(KeyedCoProcessFunction):
    def process_element1(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> Iterator[Any]:
        yield value

    def process_element2(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> Iterator[Any]:
        yield value


class Drop(SinkFunction):
    def invoke(self, value: Any, context: SinkFunction.Context) -> None:
        pass


@pytest.fixture
def env() -> StreamExecutionEnvironment:
    return StreamExecutionEnvironment.get_execution_environment()


@pytest.fixture
def pairs(env: StreamExecutionEnvironment) -> DataStream:
    return env.from_collection([("a", 1), ("b", 2)], Types.TUPLE([Types.STRING(), Types.LONG()]))


def node(stream: Any) -> Transformation:
    found: Transformation = stream._operator("test")
    return found


def selectors(operator: Transformation) -> list[Any]:
    edges = (upstream.partitioning for (upstream,) in operator.inputs)
    return [None if edge is None else pickle.loads(edge.data).selector for edge in edges]


def kinds(stream: DataStream) -> list[PartitionKind | None]:
    return [None if one.partitioning is None else one.partitioning.kind for one in stream._upstreams]


class TestOneInput:
    def test_map(self, pairs: DataStream) -> None:
        operator = node(pairs.map(str, Types.STRING()))
        assert isinstance(operator.spec, MapSpec)
        assert operator.spec.function is str
        assert operator.output_type == Types.STRING()
        assert operator.inputs == (pairs._upstreams,)
        assert not operator.keyed
        assert operator.user_line.startswith(__file__)

    def test_flat_map_filter_batch(self, pairs: DataStream) -> None:
        assert isinstance(node(pairs.flat_map(list)).spec, FlatMapSpec)
        filtered = node(pairs.filter(bool))
        assert isinstance(filtered.spec, FilterSpec)
        assert filtered.output_type == node(pairs).output_type
        assert isinstance(node(pairs.map_batch(list)).spec, BatchMapSpec)

    def test_types_come_from_annotations(self, pairs: DataStream) -> None:
        def length(value: tuple[str, int]) -> int:
            return len(value)

        def words(value: Any) -> Iterator[str]:
            yield from value

        class ToFloat(MapFunction):
            def map(self, value: Any) -> float:
                return 1.0

        assert pairs.map(length).get_type() == Types.LONG()
        assert pairs.flat_map(words).get_type() == Types.STRING()
        assert pairs.map(ToFloat()).get_type() == Types.DOUBLE()
        assert pairs.process(Lengths()).get_type() == Types.LONG()
        assert pairs.map(length, Types.INT()).get_type() == Types.INT()

    def test_without_annotation_a_type_is_unknown(self, pairs: DataStream) -> None:
        for stream in (pairs.map(lambda value: value), pairs.process(Pass()), pairs.map(str)):
            assert node(stream).output_type is None
            assert stream.get_type() == Types.PICKLED_BYTE_ARRAY()

    def test_an_annotation_that_cannot_be_evaluated_is_ignored(self, pairs: DataStream) -> None:
        def odd(value: Any) -> Missing:  # type: ignore[name-defined]  # noqa: F821
            return value

        assert node(pairs.map(odd)).output_type is None

    def test_a_list_of_types_is_a_row(self, pairs: DataStream) -> None:
        assert pairs.map(str, [Types.STRING()]).get_type() == Types.ROW([Types.STRING()])

    def test_project(self, pairs: DataStream) -> None:
        assert pairs.project(1).get_type() == Types.TUPLE([Types.LONG()])

    def test_process(self, pairs: DataStream) -> None:
        assert isinstance(node(pairs.process(Pass())).spec, ProcessSpec)
        with pytest.raises(TypeError, match="ProcessFunction"):
            pairs.process(KeyedPass())  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="pass an instance"):
            pairs.process(Pass)  # type: ignore[arg-type]

    def test_timestamps(self, pairs: DataStream) -> None:
        strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(1))
        operator = node(pairs.assign_timestamps_and_watermarks(strategy))
        assert isinstance(operator.spec, TimestampsSpec)
        assert operator.output_type == pairs.get_type()

    @pytest.mark.parametrize("method", ["map", "flat_map", "filter", "map_batch"])
    def test_what_is_not_callable_is_refused(self, pairs: DataStream, method: str) -> None:
        with pytest.raises(TypeError, match=method):
            getattr(pairs, method)(3)


class TestSettings:
    def test_all_of_them(self, pairs: DataStream) -> None:
        operator = node(
            pairs.map(str)
            .name("n")
            .uid("u")
            .set_uid_hash("0" * 32)
            .set_parallelism(3)
            .set_max_parallelism(12)
            .set_description("d")
            .set_buffer_timeout(5)
            .start_new_chain()
            .slot_sharing_group("g")
        )
        assert (operator.name, operator.uid, operator.uid_hash) == ("n", "u", "0" * 32)
        assert (operator.parallelism, operator.max_parallelism) == (3, 12)
        assert (operator.description, operator.slot_sharing_group) == ("d", "g")
        assert operator.chaining is ChainingStrategy.HEAD

    def test_more(self, pairs: DataStream) -> None:
        operator = node(pairs.map(str).disable_chaining().force_non_parallel())
        assert operator.chaining is ChainingStrategy.NEVER
        assert (operator.parallelism, operator.max_parallelism) == (1, 1)
        group = SlotSharingGroup.builder("g2").build()
        assert node(pairs.map(str).slot_sharing_group(group)).slot_sharing_group == "g2"

    @pytest.mark.parametrize(
        ("method", "value"),
        [("set_parallelism", 0), ("set_max_parallelism", 40_000), ("uid", ""), ("set_uid_hash", "xyz")],
    )
    def test_impossible_values(self, pairs: DataStream, method: str, value: Any) -> None:
        with pytest.raises(ValueError, match=r".+"):
            getattr(pairs.map(str), method)(value)

    def test_they_belong_to_operators(self, pairs: DataStream) -> None:
        tag = OutputTag("t")
        streams = [
            (pairs.union(pairs), "union"),
            (pairs.rebalance(), "rebalance"),
            (pairs.process(Pass()).get_side_output(tag), "side output 't'"),
            (pairs.key_by(0), "key_by"),
        ]
        for stream, word in streams:
            with pytest.raises(GraphError, match=word):
                stream.name("x")

    def test_sinks_have_them_too(self, pairs: DataStream) -> None:
        sink = pairs.print().name("n").uid("u").set_parallelism(2).set_description("d").disable_chaining()
        assert (sink.transformation.name, sink.transformation.uid, sink.transformation.parallelism) == ("n", "u", 2)


class TestPartitioning:
    @pytest.mark.parametrize(
        ("method", "kind"),
        [
            ("shuffle", PartitionKind.SHUFFLE),
            ("rebalance", PartitionKind.REBALANCE),
            ("rescale", PartitionKind.RESCALE),
            ("broadcast", PartitionKind.BROADCAST),
            ("global_", PartitionKind.GLOBAL),
            ("forward", PartitionKind.FORWARD),
        ],
    )
    def test_kinds(self, pairs: DataStream, method: str, kind: PartitionKind) -> None:
        stream = getattr(pairs, method)()
        assert kinds(stream) == [kind]
        assert stream.get_type() == pairs.get_type()
        with pytest.raises(GraphError, match="partitioned by its key"):
            getattr(pairs.key_by(0), method)()

    def test_custom(self, pairs: DataStream) -> None:
        def choose(key: Any, count: int) -> int:
            return 0

        partitioning = pairs.partition_custom(choose, 0)._upstreams[0].partitioning
        assert partitioning is not None
        assert (partitioning.kind, partitioning.description) == (PartitionKind.CUSTOM, "CUSTOM(0)")
        taken = pickle.loads(partitioning.data)
        assert taken.selector == PositionSelector(0)
        assert taken.custom("a", 2) == 0
        with pytest.raises(GraphError, match="key"):
            pairs.key_by(0).partition_custom(choose, 0)

    def test_the_last_one_counts(self, pairs: DataStream) -> None:
        assert kinds(pairs.rebalance().shuffle()) == [PartitionKind.SHUFFLE]
        assert kinds(pairs.rebalance().key_by(0)) == [PartitionKind.KEY_GROUP]


class TestKeyed:
    def test_key_by(self, pairs: DataStream) -> None:
        keyed = pairs.key_by("f0", Types.STRING())
        operator = node(keyed.map(str))
        assert isinstance(keyed, KeyedStream)
        assert operator.keyed
        assert selectors(operator) == [FieldSelector("f0")]
        assert operator.key_type == Types.STRING()

    def test_another_key_replaces_the_first(self, pairs: DataStream) -> None:
        assert selectors(node(pairs.key_by(0).key_by(1).map(str))) == [PositionSelector(1)]

    def test_functions_on_keyed_streams_are_keyed(self, pairs: DataStream) -> None:
        keyed = pairs.key_by(0)
        for stream in (keyed.map(str), keyed.flat_map(list), keyed.filter(bool), keyed.process(KeyedPass())):
            assert node(stream).keyed
        with pytest.raises(TypeError, match="KeyedProcessFunction"):
            keyed.process(Pass())  # type: ignore[arg-type]

    def test_sinks_are_not_keyed_but_partitioned(self, pairs: DataStream) -> None:
        operator = pairs.key_by(0).print().transformation
        assert not operator.keyed
        assert kinds(DataStream(pairs._environment, operator.inputs[0])) == [PartitionKind.KEY_GROUP]

    def test_reduce_and_rolling_aggregates(self, pairs: DataStream) -> None:
        keyed = pairs.key_by(0)
        assert isinstance(node(keyed.reduce(max)).spec, ReduceSpec)
        streams = {
            AggregateKind.SUM: keyed.sum(1),
            AggregateKind.MIN: keyed.min(1),
            AggregateKind.MAX: keyed.max(1),
            AggregateKind.MIN_BY: keyed.min_by(1),
            AggregateKind.MAX_BY: keyed.max_by(1),
        }
        for kind, stream in streams.items():
            assert node(stream).spec.function == BuiltIn(kind, 1)
            assert stream.get_type() == pairs.get_type()
        assert node(keyed.count()).spec.function == BuiltIn(AggregateKind.COUNT)
        assert node(keyed.avg(1)).spec.function == BuiltIn(AggregateKind.AVG, 1)
        with pytest.raises(TypeError, match="reduce"):
            keyed.reduce(3)  # type: ignore[arg-type]

    def test_with_state(self, pairs: DataStream) -> None:
        def step(value: Any, state: Any) -> tuple[Any, Any]:
            return value, state

        keyed = pairs.key_by(0)
        mapped = node(keyed.map_with_state(step, Types.LONG(), Types.STRING()))
        assert isinstance(mapped.spec.function, MapWithState)
        assert mapped.output_type == Types.LONG()
        assert mapped.spec.function.descriptor.type_info == Types.STRING()
        assert isinstance(node(keyed.flat_map_with_state(step)).spec.function, FlatMapWithState)
        filtered = node(keyed.filter_with_state(step))
        assert isinstance(filtered.spec.function, FilterWithState)
        assert filtered.output_type == pairs.get_type()


class TestSeveral:
    def test_union_of_three(self, env: StreamExecutionEnvironment) -> None:
        one, two, three = (env.from_collection([number]) for number in (1, 2, 3))
        union = one.union(two.rebalance(), three)
        assert [edge.node for edge in union._upstreams] == [node(one), two._upstreams[0].node, node(three)]
        assert kinds(union) == [None, PartitionKind.REBALANCE, None]
        assert len(node(union.map(str)).inputs) == 1

    def test_union_of_different_types_is_an_error(self, env: StreamExecutionEnvironment, pairs: DataStream) -> None:
        with pytest.raises(GraphError, match="different types"):
            pairs.union(env.from_sequence(1, 2))

    def test_streams_of_two_environments_do_not_mix(self, pairs: DataStream) -> None:
        other = StreamExecutionEnvironment.get_execution_environment().from_collection([1])
        for method in ("union", "connect"):
            with pytest.raises(GraphError, match="different environments"):
                getattr(pairs, method)(other)
        with pytest.raises(TypeError, match="DataStream"):
            pairs.union([1])  # type: ignore[arg-type]

    def test_connect(self, env: StreamExecutionEnvironment, pairs: DataStream) -> None:
        connected = pairs.connect(env.from_collection([1]))
        for stream, spec in (
            (connected.map(Both()), CoMapSpec),
            (connected.co_flat_map(BothFlat()), CoFlatMapSpec),
            (connected.process(BothProcess()), CoProcessSpec),
        ):
            assert isinstance(node(stream).spec, spec)
            assert len(node(stream).inputs) == 2
            assert not node(stream).keyed
        assert connected.co_map(Both()).get_type() == Types.STRING()
        assert node(connected.flat_map(BothFlat())).output_type is None

    def test_connect_keyed(self, pairs: DataStream) -> None:
        connected = pairs.connect(pairs).key_by(0, "f1", Types.STRING())
        operator = node(connected.process(KeyedBoth()))
        assert selectors(operator) == [PositionSelector(0), FieldSelector("f1")]
        assert operator.key_type == Types.STRING()
        assert node(connected.map(Both())).keyed
        assert node(pairs.key_by(0).connect(pairs.key_by(0)).process(KeyedBoth())).keyed

    def test_connect_mistakes(self, pairs: DataStream) -> None:
        with pytest.raises(GraphError, match="only the first of the connected streams is keyed"):
            pairs.key_by(0).connect(pairs).map(Both())
        with pytest.raises(TypeError, match="not keyed needs a CoProcessFunction"):
            pairs.connect(pairs).process(KeyedBoth())
        with pytest.raises(TypeError, match="CoMapFunction"):
            pairs.connect(pairs).map(str)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="CoFlatMapFunction"):
            pairs.connect(pairs).flat_map(str)  # type: ignore[arg-type]

    def test_side_output(self, pairs: DataStream) -> None:
        tag = OutputTag("late", Types.LONG())
        main = pairs.process(Pass())
        side = main.get_side_output(tag)
        assert side._upstreams[0].side_output == "late"
        assert side.get_type() == Types.LONG()
        assert node(main).side_outputs == {"late": Types.LONG()}
        assert kinds(side.rebalance()) == [PartitionKind.REBALANCE]
        assert side.rebalance()._upstreams[0].side_output == "late"
        with pytest.raises(GraphError, match="'late'"):
            main.get_side_output(OutputTag("late", Types.STRING()))

    def test_split_and_select(self, env: StreamExecutionEnvironment) -> None:
        split = env.from_sequence(1, 4).split(lambda n: ["even"] if n % 2 == 0 else ["odd", "all"])
        selected = node(split.select("odd", "all"))
        assert [n for n in range(1, 5) if selected.spec.function.filter(n)] == [1, 3]
        with pytest.raises(ValueError, match="name"):
            split.select()
        with pytest.raises(TypeError, match="list of names"):
            node(env.from_sequence(1, 4).split(lambda n: "odd").select("odd")).spec.function.filter(1)


class TestEnds:
    def test_sinks(self, pairs: DataStream) -> None:
        printed = pairs.print("out").transformation
        assert isinstance(printed.spec, SinkSpec)
        assert isinstance(printed.spec.sink, PrintSink)
        assert printed.spec.sink.sink_identifier == "out"
        assert isinstance(pairs.add_sink(Drop()).transformation.spec.sink, FunctionSink)
        assert isinstance(pairs.sink_to(CollectSink("c")).transformation.spec.sink, CollectSink)
        with pytest.raises(TypeError, match="SinkFunction"):
            pairs.add_sink(print)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="needs a Sink"):
            pairs.sink_to(Drop())  # type: ignore[arg-type]

    def test_records_of_a_declared_type_are_printed_as_flink_does(self, env: StreamExecutionEnvironment) -> None:
        pair = Types.TUPLE([Types.STRING(), Types.BOOLEAN()])
        rows = Types.ROW([Types.STRING(), Types.BOOLEAN()])
        printed = [
            env.from_collection([("a", True)], declared).print().transformation.spec.sink.to_text(record)
            for declared, record in ((None, ("a", True)), (pair, ("a", True)), (rows, Row("a", True)))
        ]
        assert printed == ["('a', True)", "(a,true)", "+I[a,True]"]
