"""Operator state in whole jobs: through epochs, crashes, moves between workers and changes of parallelism."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pytest

from tidemill.common import Types
from tidemill.datastream import (
    CheckpointedFunction,
    CheckpointListener,
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    DataStream,
    FilterFunction,
    FlatMapFunction,
    FunctionInitializationContext,
    FunctionSnapshotContext,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    ListCheckpointed,
    ListStateDescriptor,
    MapFunction,
    ProcessFunction,
    ReduceFunction,
    RuntimeContext,
    SinkFunction,
    StreamExecutionEnvironment,
    ValueStateDescriptor,
)
from tidemill.errors import StateError, UserCodeError
from tidemill.faults import Fault
from tidemill.testing.job_harness import JobHarness, moving

Env = StreamExecutionEnvironment

# --- the events between two occurrences of 1

EVENTS = [1, 2, 3, 4, 5, 1, 3, 4, 5, 6, 7, 1, 4, 5, 3, 9, 9, 2, 1]
BETWEEN = [(4, "2 3 4 5"), (5, "3 4 5 6 7"), (6, "4 5 3 9 9 2")]


class Between(FlatMapFunction, CheckpointedFunction):
    """Collects events in a list of its own; at a barrier they go into operator state."""

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        store = context.get_operator_state_store()
        self.stored = store.get_list_state(ListStateDescriptor("listForThree", Types.LONG()))
        self.buffer = list(self.stored.get()) if context.is_restored() else []

    def flat_map(self, value: int) -> Iterable[Any]:
        if value != 1:
            self.buffer.append(value)
        elif self.buffer:
            yield len(self.buffer), " ".join(map(str, self.buffer))
            self.buffer = []

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        self.stored.clear()
        self.stored.add_all(self.buffer)


def between(env: Env, events: DataStream) -> DataStream:
    return events.flat_map(Between()).uid("between")


@pytest.mark.parametrize("size", [1, 2, 5, 19])
@pytest.mark.parametrize("trouble", ["none", "restart", "moving workers", "lost worker"])
def test_events_between_ones(size: int, trouble: str) -> None:
    placement = moving(3) if trouble == "moving workers" else None
    # In one subtask: what lies between two events has a meaning only if all of them come by.
    with JobHarness(between, inputs=["events"], parallelism=1, workers=3, placement=placement, merge_after=3) as job:
        for start in range(0, len(EVENTS), size):
            job.epoch(events=EVENTS[start : start + size])
            if trouble == "restart":
                job.restart()
            elif trouble == "lost worker":
                job.kill_worker(0)
        assert job.output() == BETWEEN
        assert job.operator_state("between", "listForThree") == {}


@pytest.mark.parametrize(
    "point", ["state.loaded", "task.batch", "delta.before", "ack.before", "manifest.before", "manifest.after"]
)
def test_a_crash_half_way_leaves_the_state_as_it_was(point: str) -> None:
    with JobHarness(between, inputs=["events"], parallelism=1) as job:
        job.epoch(events=EVENTS[:3])
        assert job.operator_state("between", "listForThree") == {0: [2, 3]}
        job.crash(Fault(point), events=EVENTS[3:8])
        committed = point == "manifest.after"
        assert job.operator_state("between", "listForThree") == {0: [3, 4] if committed else [2, 3]}
        job.run()
        job.epoch(events=EVENTS[8:])
        assert job.output() == BETWEEN


# --- a count that is one number per subtask


class Count(MapFunction, ListCheckpointed):
    """Counts the records of its subtask."""

    def __init__(self) -> None:
        self.count = 0

    def map(self, value: Any) -> Any:
        self.count += 1
        return value

    def snapshot_state(self, checkpoint_id: int, timestamp: int) -> Sequence[Any]:
        return [self.count]

    def restore_state(self, state: list[Any]) -> None:
        self.count = sum(state)


def counted(env: Env, events: DataStream) -> DataStream:
    return events.rebalance().map(Count()).uid("count")


@pytest.mark.parametrize("live", [False, True])
def test_a_count_survives_any_parallelism(live: bool) -> None:
    with JobHarness(counted, inputs=["events"], parallelism=1, merge_after=2) as job:
        total = 0
        for parallelism in (1, 4, 3, 1, 2):
            if live:
                job.rescale(parallelism)
            else:
                job.restart(parallelism=parallelism)
            for number in range(1, 4):
                job.epoch(events=range(number * 7))
                total += number * 7
                counts = job.operator_state("count", "_default_")
                assert sum(count for counts_of in counts.values() for count in counts_of) == total
                assert set(counts) == set(range(parallelism))


# --- list, union, broadcast and raw state through 1 -> 4 -> 3 -> 1


class Everything(MapFunction, CheckpointedFunction):
    """Keeps its records in a list, publishes all of its name in a union list, and writes bytes of its own."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.subtask = runtime_context.get_index_of_this_subtask()

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        store = context.get_operator_state_store()
        self.seen = store.get_list_state(ListStateDescriptor("seen", Types.LONG()))
        self.all = store.get_union_list_state(ListStateDescriptor("all", Types.LONG()))
        self.raw = list(context.get_raw_operator_state_inputs())
        self.everybodys = list(self.all.get())

    def map(self, value: Any) -> Any:
        self.seen.add(value)
        self.all.add(value)
        self.raw.append(str(value).encode())
        return self.subtask, value, len(self.everybodys)

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        output = context.get_raw_operator_state_output()
        for partition in self.raw:
            output.start_new_partition()
            output.write(partition[:1])
            output.write(partition[1:])
        assert output.get_number_of_partitions() == len(self.raw)


def test_every_kind_of_operator_state_moves() -> None:
    def build(env: Env, events: DataStream) -> DataStream:
        return events.rebalance().map(Everything()).uid("op")

    with JobHarness(build, inputs=["events"], parallelism=1, merge_after=3) as job:
        sent: list[int] = []
        for epoch, parallelism in enumerate((1, 4, 4, 3, 1, 2)):
            job.restart(parallelism=parallelism)
            records = list(range(100 * epoch, 100 * epoch + 10 + epoch))
            before = len(job.output())
            job.epoch(events=records)
            # What a subtask saw of the union when it was started is what all had committed until then.
            assert {known for _, _, known in job.output()[before:]} == {len(sent)}
            sent += records
            for name in ("seen", "all"):
                state = job.operator_state("op", name)
                assert set(state) <= set(range(parallelism))
                assert sorted(value for part in state.values() for value in part) == sent
            raw = job.state("op", "__raw_operator_state")
            assert sorted(int(partition) for part in raw.values() for partition in part) == sent
        assert max(map(len, job.operator_state("op", "seen").values())) <= len(sent)


def test_another_max_parallelism_does_not_matter() -> None:
    """As in Flink: it binds keyed state only."""

    def counted_in(groups: int) -> Any:
        return lambda env, events: counted(env, events).set_max_parallelism(groups)

    with JobHarness(counted_in(1024), inputs=["events"], parallelism=3, merge_after=2) as job:
        for groups in (1024, 3, 700):
            job.restart(build=counted_in(groups))
            for _ in range(3):
                job.epoch(events=range(9))
        assert job.operator_state("count", "_default_") == {0: [27], 1: [27], 2: [27]}


# --- beside keyed state, and in the middle of a chain


class CountBoth(FlatMapFunction, CheckpointedFunction):
    """Counts per key, and per subtask."""

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        self.per_key = context.get_keyed_state_store().get_state(ValueStateDescriptor("count", Types.LONG(), 0))
        self.stored = context.get_operator_state_store().get_list_state(ListStateDescriptor("count", Types.LONG()))
        self.total = sum(self.stored.get())

    def flat_map(self, value: Any) -> Iterable[Any]:
        self.per_key.update(self.per_key.value() + 1)
        self.total += 1
        yield value, self.per_key.value(), self.total

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        self.stored.update([self.total])


@pytest.mark.parametrize("restart", [False, True])
def test_keyed_and_operator_state_in_one_function(restart: bool) -> None:
    def build(env: Env, words: DataStream) -> DataStream:
        return words.key_by(lambda word: word, Types.STRING()).flat_map(CountBoth()).uid("both")

    with JobHarness(build, inputs=["words"], parallelism=1) as job:
        for words in (["a", "b", "a"], ["b"], ["c", "a"]):
            job.epoch(words=words)
            if restart:
                job.restart()
        assert job.output() == [("a", 1, 1), ("b", 1, 2), ("a", 2, 3), ("b", 2, 4), ("c", 1, 5), ("a", 3, 6)]
        assert job.state("both", "count") == {"a": 3, "b": 2, "c": 1}
        job.restart(parallelism=3)
        job.epoch(words=["a", "b", "c", "d"])
        counts = job.operator_state("both", "count")
        assert sum(count for part in counts.values() for count in part) == 10
        assert job.state("both", "count") == {"a": 4, "b": 3, "c": 2, "d": 1}


def test_a_chain_with_operator_state_stays_warm() -> None:
    def build(env: Env, events: DataStream) -> DataStream:
        return events.map(lambda n: n).map(Count()).uid("count").map(lambda n: n).uid("behind")

    with JobHarness(build, inputs=["events"], input_parallelism=2) as job:
        for _ in range(3):
            job.epoch(events=[1, 2, 3, 4])
        assert job.cold_starts == len(job.head.attempts) * 2 == 2
        job.kill_worker(1)
        job.epoch(events=[1, 2])
        assert job.operator_state("count", "_default_") == {0: [7], 1: [7]}


# --- every kind of function

CALLS: list[tuple[Any, ...]] = []


class Traced(CheckpointedFunction, CheckpointListener):
    """Notes which hook is called when."""

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        CALLS.append(("initialize", context.is_restored(), context.get_restored_checkpoint_id()))
        self.counts = context.get_operator_state_store().get_list_state(ListStateDescriptor("calls", Types.LONG()))

    def open(self, runtime_context: RuntimeContext) -> None:
        CALLS.append(("open",))

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        CALLS.append(("snapshot", context.get_checkpoint_id(), context.get_checkpoint_timestamp()))
        self.counts.add(context.get_checkpoint_id())

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        CALLS.append(("complete", checkpoint_id))

    def close(self) -> None:
        CALLS.append(("close",))


def _one(self: Traced, *args: Any) -> Any:
    CALLS.append(("record",))
    return args[0]


def _some(self: Traced, *args: Any) -> Iterable[Any]:
    yield _one(self, *args)


one: Any = _one
some: Any = _some


class TracedMap(Traced, MapFunction):
    map = one


class TracedFlatMap(Traced, FlatMapFunction):
    flat_map = some


class TracedFilter(Traced, FilterFunction):
    filter = one


class TracedProcess(Traced, ProcessFunction):
    process_element = some


class TracedKeyedProcess(Traced, KeyedProcessFunction):
    process_element = some


class TracedReduce(Traced, ReduceFunction):
    reduce = one


class TracedCoMap(Traced, CoMapFunction):
    map1 = map2 = one


class TracedCoFlatMap(Traced, CoFlatMapFunction):
    flat_map1 = flat_map2 = some


class TracedCoProcess(Traced, CoProcessFunction):
    process_element1 = process_element2 = some


class TracedKeyedCoProcess(Traced, KeyedCoProcessFunction):
    process_element1 = process_element2 = some


class TracedSink(Traced, SinkFunction):
    invoke = one


def itself(value: Any) -> Any:
    return value


KINDS = {
    "map": lambda s: s.map(TracedMap()),
    "flat_map": lambda s: s.flat_map(TracedFlatMap()),
    "filter": lambda s: s.filter(TracedFilter()),
    "process": lambda s: s.process(TracedProcess()),
    "keyed map": lambda s: s.key_by(itself).map(TracedMap()),
    "keyed process": lambda s: s.key_by(itself).process(TracedKeyedProcess()),
    "reduce": lambda s: s.key_by(lambda v: 0).reduce(TracedReduce()),
    "co map": lambda s: s.connect(s).map(TracedCoMap()),
    "co flat map": lambda s: s.connect(s).flat_map(TracedCoFlatMap()),
    "co process": lambda s: s.connect(s).process(TracedCoProcess()),
    "keyed co process": lambda s: s.connect(s).key_by(itself, itself).process(TracedKeyedCoProcess()),
    "sink": lambda s: s.add_sink(TracedSink()),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_function_is_reported(kind: str) -> None:
    CALLS.clear()

    def build(env: Env, events: DataStream) -> None:
        KINDS[kind](events).uid("op")

    with JobHarness(build, inputs=["events"], parallelism=1, workers=1, processing_time=70) as job:
        job.epoch(events=[1, 2])
        job.set_processing_time(80)
        job.epoch(events=[3])
        # The sink has its writer opened, which opens the function: all others are opened by the operator.
        hooks = [call for call in CALLS if call != ("record",)]
        assert hooks == [
            ("initialize", False, None),
            ("open",),
            ("snapshot", 1, 70),
            ("complete", 1),
            ("snapshot", 2, 80),
        ]
        assert ("record",) in CALLS
        assert job.operator_state("op", "calls") == {0: [1, 2]}
        CALLS.clear()
        job.restart()
        job.epoch(events=[])
        hooks = [call for call in CALLS if call != ("close",)]
        assert hooks == [("initialize", True, 2), ("open",), ("snapshot", 3, 80)]
        assert job.operator_state("op", "calls") == {0: [1, 2, 3]}


def test_in_batch_mode_nothing_is_snapshotted() -> None:
    CALLS.clear()

    def build(env: Env, events: DataStream) -> DataStream:
        return events.map(TracedMap()).uid("op")

    with JobHarness(build, inputs=["events"], parallelism=1, configuration={"execution.runtime-mode": "BATCH"}) as job:
        job.epoch(events=[1])
        job.end()
        assert job.output() == [1]
        assert [call[0] for call in CALLS] == ["initialize", "open", "record", "close"]
        assert job.operator_state("op", "calls") == {}


# --- errors


class Broken(MapFunction, CheckpointedFunction):
    def __init__(self, where: str) -> None:
        self.where = where

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        if self.where == "initialize_state":
            raise ValueError("no state for me")
        if self.where == "keyed":
            context.get_keyed_state_store().get_state(ValueStateDescriptor("v"))

    def map(self, value: Any) -> Any:
        return value

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        if self.where == "snapshot_state":
            raise ValueError("no snapshot of me")


@pytest.mark.parametrize(
    ("where", "kind", "says"),
    [
        ("initialize_state", UserCodeError, r"no state for me\n\nraised in initialize_state\(\) of operator 'Map'"),
        ("snapshot_state", UserCodeError, r"no snapshot of me\n\nraised in snapshot_state\(\) of operator 'Map'"),
        ("keyed", StateError, r"asked for keyed state 'v', but its input is not keyed"),
    ],
)
def test_errors_name_hook_and_operator(where: str, kind: type[Exception], says: str) -> None:
    with (
        pytest.raises(kind, match=says),
        JobHarness(lambda env, events: events.map(Broken(where)), inputs=["events"]) as job,
    ):
        job.epoch(events=[1])


def test_operator_state_without_its_operator_is_refused() -> None:
    with JobHarness(between, inputs=["events"], parallelism=1) as job:
        job.epoch(events=EVENTS[:3])
        with pytest.raises(StateError, match=r"state of operator 'FlatMap' \(uid between\), which is not part of"):
            job.restart(build=lambda env, events: events.map(itself))
