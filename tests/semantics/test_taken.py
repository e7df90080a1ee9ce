"""Functions count as they were when they were given to a stream: whatever kind they are, whoever takes them."""
# ruff: noqa: B023 - functions that capture a loop's variable are what is tested

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tidemill.common import Configuration, Time, Types, WatermarkStrategy
from tidemill.common.watermark_strategy import TimestampAssigner
from tidemill.connectors.sources import RecordBatch, Split, SplitEnumerator, SplitSource
from tidemill.datastream import (
    AggregateFunction,
    AsyncDataStream,
    AsyncFunction,
    BroadcastProcessFunction,
    CoFlatMapFunction,
    CoGroupFunction,
    CoMapFunction,
    CoProcessFunction,
    DataStream,
    FilterFunction,
    FlatMapFunction,
    KeyedProcessFunction,
    MapFunction,
    MapStateDescriptor,
    OutputTag,
    ProcessFunction,
    ProcessJoinFunction,
    ProcessWindowFunction,
    ReduceFunction,
    StreamExecutionEnvironment,
    TumblingEventTimeWindows,
    ValueStateDescriptor,
)
from tidemill.datastream.window import CountTrigger, Evictor, GlobalWindows, TimeWindow
from tidemill.datastream.window.assigners import WindowAssigner
from tidemill.state_processor import (
    KeyedStateBootstrapFunction,
    OperatorTransformation,
    SavepointReader,
    SavepointWriter,
)
from tidemill.testing import JobHarness, run_local

Env = StreamExecutionEnvironment


class Box:
    """A number that programs change after they have given it away."""

    def __init__(self, value: int) -> None:
        self.value = value


class Times(MapFunction, FlatMapFunction, FilterFunction, ReduceFunction):
    def __init__(self, box: Box) -> None:
        self.box = box

    def map(self, value: Any) -> Any:
        return value * self.box.value

    def flat_map(self, value: Any) -> Iterable[Any]:
        return [value] * self.box.value

    def filter(self, value: Any) -> bool:
        return bool(value <= self.box.value)

    def reduce(self, value1: Any, value2: Any) -> Any:
        return value1 + value2 * self.box.value


class Process(ProcessFunction):
    def __init__(self, box: Box) -> None:
        self.box = box

    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Iterator[Any]:
        yield value * self.box.value


class Keyed(KeyedProcessFunction):
    def __init__(self, box: Box) -> None:
        self.descriptor = ValueStateDescriptor(f"state-{box.value}", Types.LONG(), default_value=box.value)

    def open(self, runtime_context: Any) -> None:
        self.state = runtime_context.get_state(self.descriptor)

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        yield value * self.state.value()


class Both(CoMapFunction, CoFlatMapFunction):
    def __init__(self, box: Box) -> None:
        self.box = box

    def map1(self, value: Any) -> Any:
        return value * self.box.value

    def map2(self, value: Any) -> Any:
        return value

    def flat_map1(self, value: Any) -> Iterable[Any]:
        return [value] * self.box.value

    def flat_map2(self, value: Any) -> Iterable[Any]:
        return [value]


class CoProcess(CoProcessFunction):
    def __init__(self, box: Box) -> None:
        self.box = box

    def process_element1(self, value: Any, ctx: CoProcessFunction.Context) -> Iterator[Any]:
        yield value * self.box.value

    def process_element2(self, value: Any, ctx: CoProcessFunction.Context) -> Iterator[Any]:
        yield value


class Broadcast(BroadcastProcessFunction):
    def __init__(self, box: Box) -> None:
        self.box = box

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        yield value * self.box.value

    def process_broadcast_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        yield value


class Asks(AsyncFunction):
    def __init__(self, box: Box) -> None:
        self.box = box

    async def async_invoke(self, value: Any) -> list[Any]:
        return [value * self.box.value]


class Time1(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return int(value)


class Late(TimestampAssigner):
    def __init__(self, box: Box) -> None:
        self.box = box

    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return int(value) * self.box.value


class Stamps(ProcessFunction):
    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Iterator[Any]:
        yield ctx.timestamp()


class Sums(AggregateFunction):
    def __init__(self, box: Box) -> None:
        self.box = box

    def create_accumulator(self) -> int:
        return 0

    def add(self, value: Any, accumulator: int) -> int:
        return accumulator + int(value) * self.box.value

    def get_result(self, accumulator: int) -> int:
        return accumulator

    def merge(self, acc_a: int, acc_b: int) -> int:
        return acc_a + acc_b


class Windows(ProcessWindowFunction):
    def __init__(self, box: Box) -> None:
        self.box = box

    def process(self, key: Any, context: Any, elements: Iterable[Any]) -> Iterator[Any]:
        yield sum(elements) * self.box.value


class Assigner(WindowAssigner):
    """Windows of as many ms as the box says."""

    def __init__(self, box: Box) -> None:
        self.box = box

    def assign_windows(self, element: Any, timestamp: int, context: Any) -> list[Any]:
        start = timestamp - timestamp % self.box.value
        return [TimeWindow(start, start + self.box.value)]

    def get_default_trigger(self, env: Any) -> Any:
        return TumblingEventTimeWindows.of(1).get_default_trigger(env)

    def get_window_serializer(self) -> Any:
        return TumblingEventTimeWindows.of(1).get_window_serializer()

    def is_event_time(self) -> bool:
        return True


class Fires(CountTrigger):
    def __init__(self, box: Box) -> None:
        super().__init__(1)
        self.box = box

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: Any) -> Any:
        self._window_size = self.box.value
        return super().on_element(element, timestamp, window, ctx)


class Keeps(Evictor):
    """Leaves as many records as the box says."""

    def __init__(self, box: Box) -> None:
        self.box = box

    def evict_before(self, elements: Any, size: int, window: Any, evictor_context: Any) -> None:
        del elements[self.box.value :]

    def evict_after(self, elements: Any, size: int, window: Any, evictor_context: Any) -> None: ...


class Joins(ProcessJoinFunction):
    def __init__(self, box: Box) -> None:
        self.box = box

    def process_element(self, left: Any, right: Any, ctx: Any) -> Iterator[Any]:
        yield (left + right) * self.box.value


class Groups(CoGroupFunction):
    def __init__(self, box: Box) -> None:
        self.box = box

    def co_group(self, first: Iterable[Any], second: Iterable[Any]) -> Iterable[Any]:
        yield (sum(first) + sum(second)) * self.box.value


class Counted(SplitSource):
    """As many numbers as the box says, by its enumerator on the driver, each times the box, on the workers."""

    parallelism = 1

    def __init__(self, box: Box) -> None:
        self.box = box

    def create_enumerator(self, position: Any) -> SplitEnumerator:
        return CountedEnumerator(self.box.value, position is not None)

    def read(self, split: Split) -> Iterator[RecordBatch]:
        yield RecordBatch([number * self.box.value for number in range(split.payload)])


class CountedEnumerator(SplitEnumerator):
    def __init__(self, count: int, done: bool) -> None:
        self.count, self.done = count, done

    def next_splits(self, parallelism: int, max_records: int) -> Sequence[Split]:
        self.done = True
        return [Split(self.count, self.count)]

    def position(self) -> Any:
        return self.done

    @property
    def finished(self) -> bool:
        return self.done


def timed(env: Env, numbers: Iterable[int]) -> DataStream:
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Time1())
    return env.from_collection(list(numbers)).assign_timestamps_and_watermarks(strategy)


def one(value: Any) -> int:
    return 1


FIVE = TumblingEventTimeWindows.of(Time.milliseconds(5))
#: Programs over a box with 2 in it, and their results; the box holds something else by the time they run.
PLACES: dict[str, tuple[Callable[[Env, Box], DataStream], list[Any]]] = {
    "lambda": (lambda env, box: env.from_sequence(1, 3).map(lambda n: n * box.value), [2, 4, 6]),
    "map": (lambda env, box: env.from_sequence(1, 3).map(Times(box)), [2, 4, 6]),
    "map_batch": (lambda env, box: env.from_sequence(1, 3).map_batch(lambda b: [n * box.value for n in b]), [2, 4, 6]),
    "flat_map": (lambda env, box: env.from_sequence(1, 2).flat_map(Times(box)), [1, 1, 2, 2]),
    "filter": (lambda env, box: env.from_sequence(1, 3).filter(Times(box)), [1, 2]),
    "process": (lambda env, box: env.from_sequence(1, 3).process(Process(box)), [2, 4, 6]),
    "bound method": (lambda env, box: env.from_sequence(1, 3).map(Times(box).map), [2, 4, 6]),
    "reduce": (lambda env, box: env.from_sequence(1, 3).key_by(one).reduce(Times(box)), [1, 5, 11]),
    "state descriptor": (lambda env, box: env.from_sequence(1, 3).key_by(one).process(Keyed(box)), [2, 4, 6]),
    "map_with_state": (
        lambda env, box: env.from_sequence(1, 3).key_by(one).map_with_state(lambda n, s: (n * box.value, None)),
        [2, 4, 6],
    ),
    "key_by": (
        lambda env, box: env.from_sequence(1, 4).key_by(lambda n: n % box.value).reduce(lambda one, two: one + two),
        [1, 2, 4, 6],
    ),
    "partition_custom": (
        lambda env, box: env.from_sequence(1, 3).partition_custom(lambda key, n: box.value - 2, one).map(abs),
        [1, 2, 3],
    ),
    "timestamps": (
        lambda env, box: (
            env.from_sequence(1, 3)
            .assign_timestamps_and_watermarks(
                WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Late(box))
            )
            .process(Stamps())
        ),
        [2, 4, 6],
    ),
    "timestamps of a source": (
        lambda env, box: env.from_source(
            Counted(Box(2)), WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Late(box)), "counted"
        ).process(Stamps()),
        [0, 4],
    ),
    "source": (lambda env, box: env.from_source(Counted(box), None, "counted").map(abs), [0, 2]),
    "collection": (lambda env, box: env.from_collection([box]).map(lambda b: b.value), [2]),
    "aggregate": (lambda env, box: timed(env, [1, 2]).key_by(one).window(FIVE).aggregate(Sums(box)), [6]),
    "window function": (lambda env, box: timed(env, [1, 2]).key_by(one).window(FIVE).process(Windows(box)), [6]),
    "window assigner": (
        lambda env, box: timed(env, [1, 2, 3]).key_by(one).window(Assigner(box)).reduce(lambda a, b: a + b),
        [1, 5],
    ),
    "trigger": (
        lambda env, box: (
            timed(env, [1, 2, 3])
            .key_by(one)
            .window(GlobalWindows.create())
            .trigger(Fires(box))
            .reduce(lambda a, b: a + b)
        ),
        [3],
    ),
    "evictor": (
        lambda env, box: timed(env, [1, 2, 3]).key_by(one).window(FIVE).evictor(Keeps(box)).process(Windows(Box(1))),
        [3],
    ),
    "window join": (
        lambda env, box: (
            timed(env, [1, 2])
            .join(timed(env, [1]))
            .where(one)
            .equal_to(one)
            .window(FIVE)
            .apply(lambda a, b: (a + b) * box.value)
        ),
        [4, 6],
    ),
    "co_group": (
        lambda env, box: (
            timed(env, [1, 2]).co_group(timed(env, [3])).where(one).equal_to(one).window(FIVE).apply(Groups(box))
        ),
        [12],
    ),
    "where": (
        lambda env, box: (
            timed(env, [1, 2])
            .join(timed(env, [1]))
            .where(lambda n: n * box.value)
            .equal_to(lambda n: n * 2)
            .window(FIVE)
            .apply(lambda a, b: a + b)
        ),
        [2],
    ),
    "interval join": (
        lambda env, box: (
            timed(env, [1, 2])
            .key_by(one)
            .interval_join(timed(env, [1]).key_by(one))
            .between(Time.milliseconds(0), Time.milliseconds(0))
            .process(Joins(box))
        ),
        [4],
    ),
    "co_map": (lambda env, box: env.from_sequence(1, 2).connect(env.from_sequence(1, 1)).map(Both(box)), [1, 2, 4]),
    "co_flat_map": (
        lambda env, box: env.from_sequence(1, 2).connect(env.from_sequence(7, 7)).flat_map(Both(box)),
        [1, 1, 2, 2, 7],
    ),
    "co_process": (
        lambda env, box: env.from_sequence(1, 2).connect(env.from_sequence(7, 7)).process(CoProcess(box)),
        [2, 4, 7],
    ),
    "broadcast": (
        lambda env, box: (
            env.from_sequence(1, 2)
            .connect(env.from_sequence(7, 7).broadcast(MapStateDescriptor("m", Types.LONG(), Types.LONG())))
            .process(Broadcast(box))
        ),
        [2, 4, 7, 7],
    ),
    "async": (
        lambda env, box: AsyncDataStream.ordered_wait(env.from_sequence(1, 3), Asks(box), Time.seconds(5), 10),
        [2, 4, 6],
    ),
    "split": (
        lambda env, box: env.from_sequence(1, 3).split(lambda n: ["low"] if n <= box.value else []).select("low"),
        [1, 2],
    ),
}


@pytest.mark.parametrize("place", PLACES)
def test_what_is_changed_afterwards_does_not_count(place: str) -> None:
    build, expected = PLACES[place]

    def program(env: Env) -> DataStream:
        box = Box(2)
        stream = build(env, box)
        box.value = 9
        return stream

    assert sorted(run_local(program)) == expected


def test_functions_made_in_a_loop_are_different() -> None:
    def program(env: Env) -> DataStream:
        numbers = env.from_sequence(1, 1)
        results = [numbers.map(lambda v: v * 100 + i) for i in range(3)]
        return results[0].union(*results[1:])

    assert sorted(run_local(program)) == [100, 101, 102]


@pytest.mark.parametrize(
    "given",
    ["window", "trigger", "evictor", "key_by", "partition_custom", "split", "where"],
)
def test_so_does_what_is_given_before_there_is_an_operator(given: str) -> None:
    """The object is changed between the call that takes it and the one that makes an operator of it."""

    def program(env: Env) -> DataStream:
        box = Box(2)
        numbers = timed(env, [1, 2, 3])
        keyed = numbers.key_by(lambda n: n % box.value if given == "key_by" else 0)
        if given == "partition_custom":
            spread = numbers.partition_custom(lambda key, count: box.value - 2, one)
            box.value = 9
            return spread.map(abs)
        if given == "split":
            parts = numbers.split(lambda n: ["low"] if n < box.value else [])
            box.value = 9
            return parts.select("low")
        if given == "where":
            joined = numbers.join(timed(env, [1])).where(lambda n: n * box.value).equal_to(lambda n: 2)
            box.value = 9
            return joined.window(FIVE).apply(lambda a, b: a)
        if given == "key_by":
            box.value = 9
            return keyed.reduce(lambda a, b: a + b)
        windows = keyed.window(Assigner(box) if given == "window" else FIVE)
        if given == "trigger":
            windows = keyed.window(GlobalWindows.create()).trigger(Fires(box))
        if given == "evictor":
            windows = windows.evictor(Keeps(box))
        box.value = 9
        return windows.process(Windows(Box(1)))

    expected = {
        "window": [1, 5],
        "trigger": [3],
        "evictor": [3],
        "key_by": [1, 2, 4],
        "partition_custom": [1, 2, 3],
        "split": [1],
        "where": [1],
    }
    assert sorted(run_local(program)) == expected[given]


def test_an_object_given_to_two_operators_is_two() -> None:
    class Counts(MapFunction):
        def __init__(self) -> None:
            self.seen = 0

        def map(self, value: Any) -> Any:
            self.seen += 1
            return self.seen

    def program(env: Env) -> DataStream:
        counts = Counts()
        return env.from_collection([5, 5]).map(counts).map(counts)

    assert run_local(program, parallelism=1) == [1, 2]


def test_side_outputs_and_plans_are_as_before() -> None:
    """Compiling a program twice, or explaining it, takes nothing anew."""

    class Odd(ProcessFunction):
        def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Iterator[Any]:
            yield (OutputTag("odd", Types.LONG()), value) if value % box.value else value

    box = Box(2)

    def program(env: Env) -> DataStream:
        stream = env.from_sequence(1, 3).process(Odd())
        first = env.explain()
        box.value = 9
        assert env.explain() == first
        return stream.get_side_output(OutputTag("odd", Types.LONG()))

    assert sorted(run_local(program)) == [1, 3]


def test_local_execution_takes_them_too() -> None:
    settings = Configuration.from_dict({"execution.target": "local", "parallelism.default": 1})
    env = StreamExecutionEnvironment.get_execution_environment(settings)
    factor = Times(Box(2))
    stream = env.from_sequence(1, 2).map(factor)
    factor.box = Box(7)
    with stream.execute_and_collect() as results:
        assert list(results) == [2, 4]


class Fill(KeyedStateBootstrapFunction):
    def __init__(self, box: Box) -> None:
        self.box = box

    def open(self, runtime_context: Any) -> None:
        self.state = runtime_context.get_state(ValueStateDescriptor("v", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> None:
        self.state.update(value * self.box.value)


def test_bootstraps_take_their_functions(tmp_path: Path) -> None:
    box = Box(2)
    rows = OperatorTransformation.bootstrap_with([1, 2])
    filled = rows.key_by(lambda n: n * box.value, Types.LONG()).transform(Fill(box))
    box.value = 9
    settings = Configuration.from_dict({"execution.target": "local", "parallelism.default": 1})
    path = SavepointWriter.new_savepoint(8, settings).with_operator("op", filled).write(str(tmp_path / "sp"))
    entries = SavepointReader.read(path).entries("op", "v")
    assert sorted((entry.key, entry.value) for entry in entries) == [(2, 2), (4, 4)]


def test_a_harness_keeps_its_hold_on_inputs_and_outputs() -> None:
    with JobHarness(lambda env, numbers: numbers.map(lambda n: n + 1), inputs=["numbers"]) as job:
        job.epoch(numbers=[1])
        job.restart()
        job.epoch(numbers=[2])
        assert job.output() == [2, 3]
