"""The broadcast state pattern: the same elements in the same order everywhere, equal state, read-only data side."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from tidemill.common import Types, WatermarkStrategy
from tidemill.common.watermark_strategy import TimestampAssigner
from tidemill.datastream import (
    BroadcastProcessFunction,
    DataStream,
    KeyedBroadcastProcessFunction,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    OutputTag,
    RuntimeContext,
    StreamExecutionEnvironment,
    TimeDomain,
    ValueStateDescriptor,
)
from tidemill.errors import GraphError, StateError, UserCodeError
from tidemill.faults import Fault
from tidemill.testing import KeyedHarness, OperatorHarness, Snapshot
from tidemill.testing.job_harness import JobHarness, moving

Env = StreamExecutionEnvironment
RULES = MapStateDescriptor("rules", Types.STRING(), Types.LONG())
NAMES = MapStateDescriptor("names", Types.LONG(), Types.STRING())
LISTS = MapStateDescriptor("lists")
SEEN = OutputTag("seen")


class Seen(BroadcastProcessFunction):
    """Tells, on each subtask, in which order the elements of the broadcast side come."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.subtask = runtime_context.get_index_of_this_subtask()

    def process_element(self, value: Any, ctx: BroadcastProcessFunction.ReadOnlyContext) -> Iterable[Any]:
        yield value, ctx.get_broadcast_state(RULES).get(value)

    def process_broadcast_element(self, value: Any, ctx: BroadcastProcessFunction.Context) -> Iterable[Any]:
        rules = ctx.get_broadcast_state(RULES)
        if value[1] is None:
            rules.remove(value[0])
        else:
            rules.put(value[0], value[1])
        yield SEEN, (self.subtask, value)


def seen(env: Env, data: DataStream, rules: DataStream) -> dict[str, DataStream]:
    # Three subtasks send what is broadcast, as many as receive it; parcels are small, so that they mix.
    spread = rules.rebalance().map(tuple).uid("spread")
    joined = data.rebalance().connect(spread.broadcast(RULES)).process(Seen()).uid("seen")
    return {"output": joined, "seen": joined.get_side_output(SEEN)}


def orders(job: JobHarness) -> dict[int, list[Any]]:
    found: dict[int, list[Any]] = {}
    for subtask, value in job.output("seen"):
        found.setdefault(subtask, []).append(value)
    return found


def test_every_subtask_sees_the_same_elements_in_the_same_order() -> None:
    rules = [(f"r{number % 7}", None if number % 11 == 0 else number) for number in range(200)]
    with JobHarness(
        seen,
        inputs=["data", "rules"],
        parallelism=3,
        workers=3,
        placement=moving(3),
        configuration={"execution.exchange.parcel-size": "1 kb"},
    ) as job:
        for start in range(0, 200, 40):
            job.epoch(data=range(30), rules=rules[start : start + 40])
        by_subtask = orders(job)
        assert set(by_subtask) == {0, 1, 2}
        assert by_subtask[0] == by_subtask[1] == by_subtask[2]
        assert sorted(map(str, by_subtask[0])) == sorted(map(str, rules))
        assert by_subtask[0] != rules  # they came from several subtasks: there was an order to agree on
        states = job.operator_state("seen", "rules")
        assert set(states) == {0, 1, 2}
        assert list(states[0].items()) == list(states[1].items()) == list(states[2].items())


@pytest.mark.parametrize("live", [False, True])
def test_broadcast_state_through_any_parallelism(live: bool) -> None:
    with JobHarness(seen, inputs=["data", "rules"], parallelism=1, merge_after=2) as job:
        expected: dict[str, int] = {}
        for epoch, parallelism in enumerate((1, 4, 3, 1)):
            if live:
                job.rescale(parallelism)
            else:
                job.restart(parallelism=parallelism)
            job.epoch(data=[], rules=[(f"r{epoch}", epoch), ("always", epoch)])
            expected |= {f"r{epoch}": epoch, "always": epoch}
            assert job.operator_state("seen", "rules") == dict.fromkeys(range(parallelism), expected)
            before = len(job.output())
            job.epoch(data=["r0", "always", "never"] * 4, rules=[])
            assert set(job.output()[before:]) == {("r0", 0), ("always", epoch), ("never", None)}


@pytest.mark.parametrize("point", ["task.batch", "delta.after", "acks.collected", "manifest.after"])
def test_a_crash_half_way_leaves_the_state_as_it_was(point: str) -> None:
    with JobHarness(seen, inputs=["data", "rules"], parallelism=2) as job:
        job.epoch(data=[], rules=[("a", 1)])
        job.crash(Fault(point), data=[], rules=[("a", 2), ("b", 2)])
        found = {"a": 2, "b": 2} if point == "manifest.after" else {"a": 1}
        assert job.operator_state("seen", "rules") == {0: found, 1: found}
        job.run()
        assert job.operator_state("seen", "rules") == {0: {"a": 2, "b": 2}, 1: {"a": 2, "b": 2}}


@pytest.mark.parametrize("size", [3, 1000])
def test_in_batch_mode_the_broadcast_side_comes_first(size: int) -> None:
    data, rules = [f"r{number % 5}" for number in range(50)], [(f"r{number}", number) for number in range(5)]

    def build(env: Env) -> DataStream:
        return seen(env, env.from_collection(data), env.from_collection(rules))["output"]

    with JobHarness(build, parallelism=3, max_records=size, configuration={"execution.runtime-mode": "BATCH"}) as job:
        job.end()
        assert sorted(job.output()) == sorted((f"r{number % 5}", number % 5) for number in range(50))


# --- keyed


class Limits(KeyedBroadcastProcessFunction):
    """Sums up per key until a limit that is broadcast; a timer emits what is there. ``reset`` empties all keys."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.descriptor = ValueStateDescriptor("total", Types.LONG(), 0)
        self.total = runtime_context.get_state(self.descriptor)

    def process_element(self, value: Any, ctx: KeyedBroadcastProcessFunction.ReadOnlyContext) -> Iterable[Any]:
        self.total.update(self.total.value() + value[1])
        ctx.timer_service().register_event_time_timer((ctx.timestamp() or 0) + 10)
        limit = ctx.get_broadcast_state(RULES).get("limit")
        if limit is not None and self.total.value() > limit:
            yield "over", ctx.get_current_key(), self.total.value()

    def process_broadcast_element(self, value: Any, ctx: KeyedBroadcastProcessFunction.Context) -> Iterable[Any]:
        if value == "reset":
            found: list[Any] = []

            def take(key: Any, state: Any) -> None:
                found.append((key, state.value()))
                state.clear()

            ctx.apply_to_keyed_state(self.descriptor, take)
            yield "reset", sorted(found)
        else:
            ctx.get_broadcast_state(RULES).put("limit", value)

    def on_timer(self, timestamp: int, ctx: KeyedBroadcastProcessFunction.OnTimerContext) -> Iterable[Any]:
        assert ctx.time_domain() is TimeDomain.EVENT_TIME
        limit = ctx.get_broadcast_state(RULES).get("limit")
        yield "timer", ctx.get_current_key(), timestamp, self.total.value(), limit


def keyed(**options: Any) -> KeyedHarness:
    return KeyedHarness(Limits(), key_selector=0, key_type=Types.STRING(), broadcast=[RULES], **options)


def test_keyed_state_timers_and_broadcast_state_together() -> None:
    with keyed() as harness:
        harness.process(("a", 5), timestamp=1)
        harness.process(7, stream=2)
        harness.process(("a", 5), timestamp=2)
        harness.process(("b", 1), timestamp=3)
        assert harness.output() == [("over", "a", 10)]
        snapshot = harness.snapshot()
    with harness.restore(snapshot) as harness:
        assert harness.operator_state("rules") == {"limit": 7}
        harness.watermark(12)
        assert harness.output() == [("timer", "a", 11, 10, 7), ("timer", "a", 12, 10, 7)]
        harness.process("reset", stream=2)
        assert harness.output()[2:] == [("reset", [("a", 10), ("b", 1)])]
        assert harness.state("total", "a") == 0
        assert harness.keys("total") == []


def test_a_keyed_harness_rescales_both_kinds_of_state() -> None:
    with keyed() as one:
        one.process(7, stream=2)
        one.process_all([(key, number) for number, key in enumerate("abcdefgh")])
        snapshot = one.snapshot()
    for parallelism in (4, 3, 1):
        parts = [one.restore(snapshot, parallelism=parallelism, subtask=subtask) for subtask in range(parallelism)]
        keys = [key for part in parts for key in part.keys("total")]
        assert sorted(keys) == list("abcdefgh")
        assert all(part.operator_state("rules") == {"limit": 7} for part in parts)
        snapshot = Snapshot.of_all(part.snapshot() for part in parts)
        for part in parts:
            part.close()


def test_keyed_broadcast_in_a_job_that_is_rescaled() -> None:
    def build(env: Env, data: DataStream, rules: DataStream) -> DataStream:
        timed = data.assign_timestamps_and_watermarks(
            WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Third())
        )
        return timed.key_by(0, Types.STRING()).connect(rules.broadcast(RULES)).process(Limits()).uid("limits")

    with JobHarness(build, inputs=["data", "rules"], parallelism=1) as job:
        job.epoch(data=[("a", 5, 1), ("b", 5, 1)], rules=[7])
        job.restart(parallelism=4)
        job.epoch(data=[("a", 5, 2), ("b", 1, 2), ("c", 9, 2)], rules=[])
        assert sorted(job.output()) == [("over", "a", 10), ("over", "c", 9)]
        job.restart(parallelism=3)
        job.epoch(data=[], rules=["reset"])
        resets = [record[1] for record in job.output() if record[0] == "reset"]
        assert sorted(pair for found in resets for pair in found) == [("a", 10), ("b", 6), ("c", 9)]
        assert job.state("limits", "total") == {}
        assert job.operator_state("limits", "rules") == {subtask: {"limit": 7} for subtask in range(3)}


def test_keyed_in_batch_mode_the_broadcast_side_comes_first() -> None:
    def build(env: Env) -> DataStream:
        data = env.from_collection([(f"k{number % 9}", 1) for number in range(90)])
        return data.key_by(0).connect(env.from_collection([9]).broadcast(RULES)).process(Limits()).uid("limits")

    with JobHarness(build, parallelism=3, max_records=7, configuration={"execution.runtime-mode": "BATCH"}) as job:
        job.end()
        over = [record for record in job.output() if record[0] == "over"]
        assert sorted(over) == [("over", f"k{number}", 10) for number in range(9)]


class Third(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return int(value[2])


# --- what may be done on which side


class Change(BroadcastProcessFunction):
    """Tries to change the state on the data side, in a way that the record names."""

    def process_element(self, value: Any, ctx: BroadcastProcessFunction.ReadOnlyContext) -> Iterable[Any]:
        state: Any = ctx.get_broadcast_state(LISTS)
        if value == "put":
            state.put("a", 1)
        elif value == "put_all":
            state.put_all({"a": 1})
        elif value == "set":
            state["a"] = 1
        elif value == "remove":
            state.remove("a")
        elif value == "delete":
            del state["a"]
        elif value == "clear":
            state.clear()
        elif value == "in place":
            state.get("a").append("changed")
            for items in (*state.values(), *dict(state.items()).values()):
                items.append("changed")
        yield [(key, list(items)) for key, items in state.items()]

    def process_broadcast_element(self, value: Any, ctx: BroadcastProcessFunction.Context) -> None:
        ctx.get_broadcast_state(LISTS).put(*value)


@pytest.mark.parametrize("what", ["put", "put_all", "set", "remove", "delete", "clear"])
def test_the_data_side_cannot_change_the_state(what: str) -> None:
    with OperatorHarness(Change(), broadcast=[LISTS]) as harness:
        harness.process(("a", [1]), stream=2)
        with pytest.raises(StateError, match=r"of broadcast state 'lists' of operator 'Co-Process-Broadcast'.*read"):
            harness.process(what)
        assert harness.operator_state("lists") == {"a": [1]}


def test_a_value_changed_in_place_on_the_data_side_is_a_copy() -> None:
    with OperatorHarness(Change(), broadcast=[LISTS]) as harness:
        harness.process(("a", [1]), stream=2)
        harness.process("in place")
        assert harness.operator_state("lists") == {"a": [1]}
        harness.checkpoint()
        harness.process("look")
        assert harness.output()[-1] == [("a", [1])]
        harness.process("in place")
        harness.process(("a", [2]), stream=2)
        harness.process("look")
        assert harness.output()[-1] == [("a", [2])]
        snapshot = harness.snapshot()
    with harness.restore(snapshot) as harness:
        assert harness.operator_state("lists") == {"a": [2]}


class TwoStates(BroadcastProcessFunction):
    def process_element(self, value: Any, ctx: BroadcastProcessFunction.ReadOnlyContext) -> Iterable[Any]:
        names, rules = ctx.get_broadcast_state(NAMES), ctx.get_broadcast_state(RULES)
        assert (1 in names, names[1], rules.is_empty(), list(rules)) == (True, "one", False, ["r"])
        yield ctx.timestamp(), ctx.current_watermark(), ctx.current_processing_time()

    def process_broadcast_element(self, value: Any, ctx: BroadcastProcessFunction.Context) -> Iterable[Any]:
        if value == "unknown":
            ctx.get_broadcast_state(MapStateDescriptor("names2"))
        elif value == "another type":
            ctx.get_broadcast_state(MapStateDescriptor("rules", Types.STRING(), Types.STRING()))
        else:
            ctx.get_broadcast_state(MapStateDescriptor("names", Types.LONG(), Types.STRING())).put(1, "one")
            ctx.get_broadcast_state(RULES).put("r", 1)
        yield ctx.timestamp(), ctx.current_watermark(), ctx.current_processing_time()


def test_several_states_and_the_clocks_of_both_sides() -> None:
    with OperatorHarness(TwoStates(), broadcast=[RULES, NAMES], processing_time=5) as harness:
        harness.process("put", timestamp=3, stream=2)
        harness.watermark(4, stream=1)
        harness.watermark(9, stream=2)
        harness.process("read", timestamp=7)
        assert harness.output_with_timestamps() == [((3, -(2**63), 5), 3), ((7, 4, 5), 7)]


def test_an_unknown_state_is_named_with_those_that_are_known() -> None:
    with OperatorHarness(TwoStates(), broadcast=[RULES, NAMES]) as harness:
        with pytest.raises(StateError, match=r"no broadcast state 'names2'; the stream was broadcast with 'rules', 'n"):
            harness.process("unknown", stream=2)
        with pytest.raises(StateError, match=r"broadcast with MapStateDescriptor\('rules'.*but MapStateDescriptor\("):
            harness.process("another type", stream=2)


class Failing(KeyedBroadcastProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.items = runtime_context.get_list_state(ListStateDescriptor("items"))

    def process_element(self, value: Any, ctx: KeyedBroadcastProcessFunction.ReadOnlyContext) -> None:
        self.items.add(value)

    def process_broadcast_element(self, value: Any, ctx: KeyedBroadcastProcessFunction.Context) -> None:
        if value == "keyed":
            self.items.add(1)
        raise ValueError("not this one")


def test_errors_of_the_broadcast_side() -> None:
    with KeyedHarness(Failing(), key_selector=0, broadcast=[RULES]) as harness:
        harness.process(("a", 1))
        with pytest.raises(StateError, match="while no record was being processed"):
            harness.process("keyed", stream=2)
        with pytest.raises(UserCodeError, match=r"not this one\n\nraised in process_broadcast_element\(\) of operator"):
            harness.process("bad", stream=2)


# --- building


class Plain(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        yield value


def test_the_function_must_fit_the_streams() -> None:
    env = Env.get_execution_environment()
    data, rules = env.from_collection([("a", 1)]), env.from_collection([1])
    with pytest.raises(TypeError, match="keyed stream with a broadcast stream needs a KeyedBroadcastProcessFunction"):
        data.key_by(0).connect(rules.broadcast(RULES)).process(Seen())
    with pytest.raises(
        TypeError, match=r"non-keyed stream with a broadcast stream needs a BroadcastProcess.*, not Lim"
    ):
        data.connect(rules.broadcast(RULES)).process(Limits())
    with pytest.raises(TypeError, match="needs MapStateDescriptors, not ListStateDescriptor"):
        rules.broadcast(ListStateDescriptor("l"))  # type: ignore[call-overload]
    with pytest.raises(GraphError, match="two broadcast states have the name 'rules'"):
        rules.broadcast(RULES, MapStateDescriptor("rules"))
    with pytest.raises(GraphError, match=r"broadcast\(\) after key_by\(\)"):
        data.key_by(0).broadcast(RULES)
    with pytest.raises(GraphError, match="different environments"):
        Env(env._configuration).from_collection([1]).connect(rules.broadcast(RULES))
    with pytest.raises(TypeError, match=r"needs the descriptors of its states: broadcast=\[\.\.\.\]"):
        OperatorHarness(Seen())
