"""The harness for functions: what users of `tidemill.testing` rely on."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterable
from typing import Any

import pytest

from tests.semantics.cases_state import Mean
from tidemill.common import Types
from tidemill.datastream import (
    AggregatingStateDescriptor,
    CoMapFunction,
    CoProcessFunction,
    FilterFunction,
    FlatMapFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapFunction,
    MapStateDescriptor,
    OutputTag,
    ProcessFunction,
    ReduceFunction,
    ReducingStateDescriptor,
    RuntimeContext,
    TimeDomain,
    ValueStateDescriptor,
)
from tidemill.errors import GraphError, SerializationError, StateError, TidemillError, TypeMismatchError, UserCodeError
from tidemill.testing import KeyedHarness, OperatorHarness, Snapshot

LATE = OutputTag("late", Types.STRING())


class Add(MapFunction):
    def __init__(self, number: int) -> None:
        self.number = number
        self.closed = False

    def open(self, runtime_context: RuntimeContext) -> None:
        self.name = runtime_context.get_job_parameter("name", "nobody")
        self.place = (runtime_context.get_index_of_this_subtask(), runtime_context.get_number_of_parallel_subtasks())

    def map(self, value: Any) -> Any:
        return value + self.number

    def close(self) -> None:
        self.closed = True


class Words(FlatMapFunction):
    def flat_map(self, value: Any) -> Iterable[Any]:
        yield from value.split()


class Long(FilterFunction):
    def filter(self, value: Any) -> bool:
        return len(value) > 2


class Sum(ReduceFunction):
    def reduce(self, value1: Any, value2: Any) -> Any:
        return value1 + value2


class Late(ProcessFunction):
    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Iterable[Any]:
        timestamp = ctx.timestamp()
        if timestamp is not None and timestamp <= ctx.timer_service().current_watermark():
            yield LATE, value
        else:
            yield value


class Sides(CoMapFunction):
    def map1(self, value: Any) -> Any:
        return f"one {value}"

    def map2(self, value: Any) -> Any:
        return f"two {value}"


class Times(CoProcessFunction):
    def process_element1(self, value: Any, ctx: CoProcessFunction.Context) -> Iterable[Any]:
        yield 1, ctx.timer_service().current_watermark()

    def process_element2(self, value: Any, ctx: CoProcessFunction.Context) -> Iterable[Any]:
        yield 2, ctx.timer_service().current_watermark()


class Everything(KeyedProcessFunction):
    """All kinds of state and timers."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.last = runtime_context.get_state(ValueStateDescriptor("last", Types.LONG()))
        self.all = runtime_context.get_list_state(ListStateDescriptor("all", Types.LONG()))
        self.counts = runtime_context.get_map_state(MapStateDescriptor("counts", Types.LONG(), Types.LONG()))
        self.total = runtime_context.get_reducing_state(ReducingStateDescriptor("total", Sum(), Types.LONG()))
        self.mean = runtime_context.get_aggregating_state(AggregatingStateDescriptor("mean", Mean()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        number = value[1]
        self.last.update(number)
        self.all.add(number)
        self.counts.put(number, (self.counts.get(number) or 0) + 1)
        self.total.add(number)
        self.mean.add(number)
        ctx.timer_service().register_event_time_timer(number * 10)
        ctx.timer_service().register_processing_time_timer(number * 100)
        yield ctx.get_current_key(), self.total.get()

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterable[Any]:
        yield ctx.time_domain().name, ctx.get_current_key(), timestamp


class Match(KeyedCoProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.left = runtime_context.get_state(ValueStateDescriptor("left"))

    def process_element1(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> Iterable[Any]:
        self.left.update(value)
        yield from ()

    def process_element2(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> Iterable[Any]:
        yield self.left.value(), value


def everything(**options: Any) -> KeyedHarness:
    return KeyedHarness(Everything(), key_selector=0, key_type=Types.STRING(), **options)


# --- records in, records out


@pytest.mark.parametrize(
    ("what", "values", "expected"),
    [
        (Add(1), [1, 2], [2, 3]),
        (Words(), ["to be", ""], ["to", "be"]),
        (Long(), ["to", "bee"], ["bee"]),
        (lambda stream: stream.map(abs).filter(lambda n: n > 1), [-1, -2], [2]),
        (lambda stream: stream.map(abs).name("one").map(str), [-1], ["1"]),
    ],
)
def test_functions_and_builders(what: Any, values: list[Any], expected: list[Any]) -> None:
    with OperatorHarness(what) as harness:
        harness.process_all(values)
        assert harness.output() == expected


def test_timestamps_watermarks_and_side_outputs() -> None:
    with OperatorHarness(Late()) as harness:
        harness.process("a", timestamp=5)
        harness.watermark(7)
        harness.process("b", 7)
        harness.process("c")
        assert harness.output_with_timestamps() == [("a", 5), ("c", None)]
        assert harness.side_output(LATE) == harness.side_output("late") == ["b"]
        assert harness.side_output_with_timestamps(LATE) == [("b", 7)]
        assert harness.side_output("other") == []
        assert harness.watermarks() == [7]
        harness.clear_output()
        assert (harness.output(), harness.side_output(LATE), harness.watermarks()) == ([], [], [])


def test_two_inputs() -> None:
    with OperatorHarness(Sides()) as harness:
        harness.process(1)
        harness.process(2, stream=2)
        assert harness.output() == ["one 1", "two 2"]
        with pytest.raises(ValueError, match="has 2 inputs, there is no stream 3"):
            harness.process(3, stream=3)


def test_the_slower_input_decides_the_time() -> None:
    with OperatorHarness(Times()) as harness:
        harness.watermark(10, stream=1)
        harness.process("x")
        harness.watermark(4, stream=2)
        harness.process("y", stream=2)
        harness.watermark(20)
        assert harness.output() == [(1, -(2**63)), (2, 4)]
        assert harness.watermarks() == [4, 20]


def test_the_function_lives_as_on_a_worker() -> None:
    given = Add(1)
    harness = OperatorHarness(given, parallelism=3, subtask=2, job_parameters={"name": "me"})
    assert harness.function is not given
    assert (harness.function.name, harness.function.place) == ("me", (2, 3))
    function = harness.function
    harness.close()
    assert function.closed


def test_errors_are_those_of_the_engine() -> None:
    with OperatorHarness(Add(1)) as harness, pytest.raises(UserCodeError, match="can only concatenate"):
        harness.process("text")
    with OperatorHarness(lambda s: s.map(str, Types.LONG())) as harness, pytest.raises(TypeMismatchError):
        harness.process(1)
    with pytest.raises(GraphError, match="Use JobHarness"):
        OperatorHarness(lambda s: s.map(abs).rebalance().map(abs))
    with pytest.raises(TypeError, match="function object or a callable"):
        OperatorHarness(7)
    with pytest.raises(SerializationError):
        OperatorHarness(Add(n for n in range(3)))  # type: ignore[arg-type]


# --- state and timers


def test_state_of_every_kind_can_be_read() -> None:
    with everything() as harness:
        harness.process_all([("a", 1), ("a", 3), ("b", 5), ("a", 3)])
        names = ["last", "all", "counts", "total", "mean"]
        assert harness.state_names() == names
        assert [harness.state(name, "a") for name in names] == [3, [1, 3, 3], {1: 1, 3: 2}, 7, 7 / 3]
        assert [harness.state(name, "nobody") for name in names] == [None, [], {}, None, None]
        assert sorted(harness.keys("last")) == ["a", "b"]
        with pytest.raises(StateError, match=r"no state 'first', only 'last', 'all'"):
            harness.state("first", "a")
    with OperatorHarness(Add(1)) as plain, pytest.raises(StateError, match="has no keyed state"):
        plain._backend()


def test_what_is_read_is_a_copy() -> None:
    with everything() as harness:
        harness.process(("a", 1))
        harness.state("all", "a").append(99)
        assert harness.state("all", "a") == [1]


def test_state_can_be_set_before_and_between() -> None:
    with everything() as harness:
        for name, value in (("last", 7), ("all", [7, 8]), ("counts", {7: 1}), ("total", 15), ("mean", (15, 2))):
            harness.put_state(name, "a", value)
        harness.process(("a", 1))
        assert harness.output() == [("a", 16)]
        assert harness.state("all", "a") == [7, 8, 1]
        assert harness.state("counts", "a") == {7: 1, 1: 1}
        assert harness.state("mean", "a") == 16 / 3
        harness.put_state("counts", "a", {})
        assert harness.keys("counts") == []


def test_timers_fire_with_their_clock() -> None:
    with everything() as harness:
        harness.process_all([("a", 2), ("b", 1)])
        assert harness.timers() == [(10, "b"), (20, "a")]
        assert harness.timers(TimeDomain.PROCESSING_TIME) == [(100, "b"), (200, "a")]
        harness.clear_output()
        harness.watermark(10)
        harness.set_processing_time(199)
        assert harness.output_with_timestamps() == [
            (("EVENT_TIME", "b", 10), 10),
            (("PROCESSING_TIME", "b", 100), None),
        ]
        harness.clear_output()
        harness.end_input()
        assert harness.output() == [("EVENT_TIME", "a", 20)]
        with pytest.raises(ValueError, match="cannot go back"):
            harness.set_processing_time(1)


def test_keyed_co_process() -> None:
    harness = KeyedHarness(Match(), key_selector=0, key_selector2="id")
    with harness:
        harness.process(("k", 1))
        harness.process({"id": "k"}, stream=2)
        harness.process({"id": "other"}, stream=2)
        assert harness.output() == [(("k", 1), {"id": "k"}), (None, {"id": "other"})]


def test_reduce_and_builders_on_keyed_streams() -> None:
    with KeyedHarness(Sum(), key_selector=lambda n: n % 2) as harness:
        harness.process_all([1, 2, 3])
        assert harness.output() == [1, 2, 4]
    with KeyedHarness(lambda keyed: keyed.sum(1).map(lambda r: r[1]), key_selector=0) as harness:
        harness.process_all([("a", 1), ("a", 2)])
        assert harness.output() == [1, 3]
    with KeyedHarness(lambda keyed: keyed.sum(1), key_selector=0, runtime_mode="BATCH") as harness:
        harness.process_all([("a", 1), ("a", 2)])
        assert harness.output() == []
        harness.end_input()
        assert harness.output() == [("a", 3)]


# --- epochs and snapshots


def test_a_checkpoint_is_a_state_file_of_what_changed() -> None:
    with everything() as harness:
        harness.process(("a", 1))
        assert harness.checkpoint()
        assert harness.checkpoint() == b""
        harness.process(("a", 2))
        assert harness.checkpoint()
        assert harness.state("all", "a") == [1, 2]


def test_a_snapshot_restores_state_timers_and_clocks() -> None:
    with everything() as harness:
        harness.process_all([("a", 1), ("b", 2)])
        harness.checkpoint()
        harness.process(("a", 3))
        harness.watermark(10)
        harness.set_processing_time(50)
        snapshot = harness.snapshot()
        assert len(snapshot.files) == 1
    with harness.restore(bytes(snapshot)) as again:
        assert again.output() == []
        assert again.state("all", "a") == [1, 3]
        assert again.state("mean", "a") == 2.0
        assert again.timers() == [(20, "b"), (30, "a")]
        again.watermark(5)  # the clock was at 10 already
        assert again.watermarks() == []
        again.process(("a", 4))
        assert again.output() == [("a", 8)]


def test_a_snapshot_is_not_changed_by_what_comes_after_it() -> None:
    with everything() as harness:
        harness.process(("a", 1))
        snapshot = harness.snapshot()
        harness.process(("a", 2))
        harness.checkpoint()
        with harness.restore(snapshot) as again:
            assert again.state("all", "a") == [1]


@pytest.mark.parametrize(("before", "after"), [(1, 3), (3, 1), (2, 5), (4, 2)])
def test_rescaling(before: int, after: int) -> None:
    records = [(f"key {n}", n) for n in range(20)]
    subtasks = [everything(parallelism=before, subtask=subtask) for subtask in range(before)]
    for record in records:
        mine = [harness for harness in subtasks if takes(harness, record)]
        assert len(mine) == 1
    snapshot = Snapshot.of_all(harness.snapshot() for harness in subtasks)
    seen: dict[str, int] = {}
    timers = []
    for subtask in range(after):
        with subtasks[0].restore(snapshot, parallelism=after, subtask=subtask) as again:
            for key in again.keys("last"):
                assert key not in seen
                seen[key] = again.state("last", key)
            timers += again.timers()
    assert seen == dict(records)
    assert sorted(timers) == sorted((n * 10, key) for key, n in records)
    for harness in subtasks:
        harness.close()


def takes(harness: KeyedHarness, record: Any) -> bool:
    backend = harness._backend()
    if backend.group_of(record[0]) in backend.groups:
        harness.process(record)
        return True
    with pytest.raises(TidemillError, match=r"key group \d+, but subtask"):
        harness.process(record)
    return False


def test_a_snapshot_of_another_version_is_refused() -> None:
    with pytest.raises(ValueError, match="version 9"):
        Snapshot.from_bytes(bytes(Snapshot()).replace(b'"v": 1', b'"v": 9'))


# --- what a test costs


def test_a_test_takes_less_than_50_ms() -> None:
    everything().close()  # imports, once
    seconds = []
    for _ in range(5):
        started = time.thread_time()
        with everything() as harness:
            harness.process_all([("a", 1), ("b", 2)])
            snapshot = harness.snapshot()
            with harness.restore(snapshot) as again:
                again.watermark(100)
                assert len(again.output()) == 2
        seconds.append(time.thread_time() - started)
    assert min(seconds) < 0.05


def test_the_harness_does_not_import_spark() -> None:
    code = "import sys, tidemill.testing as t; t.KeyedHarness, t.JobHarness; print('pyspark' in sys.modules)"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "False"


def test_an_unknown_name_is_an_attribute_error() -> None:
    import tidemill.testing

    with pytest.raises(AttributeError, match="no attribute 'Unknown'"):
        _ = tidemill.testing.Unknown
