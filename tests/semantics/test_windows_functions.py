"""Functions of windows: reduce, aggregate, apply, process, alone and combined, and their state."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from tests.semantics.test_time import stamped
from tests.semantics.windows import Mean, Show, ShowProcess, left, push, windows
from tidemill.common import Configuration, Time, Types
from tidemill.datastream import (
    AllWindowFunction,
    DataStream,
    EventTimeSessionWindows,
    KeyedStream,
    ListStateDescriptor,
    MapStateDescriptor,
    OutputTag,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    ReducingStateDescriptor,
    RuntimeContext,
    SlidingEventTimeWindows,
    StateTtlConfig,
    StreamExecutionEnvironment,
    TumblingEventTimeWindows,
    ValueStateDescriptor,
    WindowFunction,
)
from tidemill.datastream.window import ContinuousEventTimeTrigger, EventTimeTrigger, Trigger
from tidemill.testing import JobHarness, KeyedHarness, run_local

tumbling = TumblingEventTimeWindows.of


class Only(WindowFunction):
    """Shows the one value it is given."""

    def apply(self, key: Any, window: Any, inputs: Iterable[Any]) -> Iterable[Any]:
        [value] = inputs
        yield key, window.end, value


class OnlyProcess(ProcessWindowFunction):
    def process(self, key: Any, context: ProcessWindowFunction.Context, elements: Iterable[Any]) -> Iterable[Any]:
        [value] = elements
        yield key, context.window().end, value


@pytest.mark.parametrize("function", [Show(), ShowProcess()], ids=["apply", "process"])
def test_all_records_of_a_window(function: Any) -> None:
    def then(windowed: Any) -> Any:
        return windowed.apply(function) if isinstance(function, WindowFunction) else windowed.process(function)

    with windows(tumbling(10), then) as harness:
        push(harness, 3, 1, 2)
        harness.watermark(9)
        assert harness.output() == [("a", 0, 10, [3, 1, 2])]


@pytest.mark.parametrize("function", [Only(), OnlyProcess()], ids=["apply", "process"])
def test_incremental_and_window_function_together(function: Any) -> None:
    with windows(tumbling(10), lambda windowed: windowed.aggregate(Mean(), function)) as harness:
        push(harness, 1, 4)
        harness.watermark(9)
        assert harness.output() == [("a", 10, 2.5)]
    with windows(tumbling(10), lambda windowed: windowed.reduce(max, function)) as harness:
        push(harness, 1, 4)
        harness.watermark(9)
        assert harness.output() == [("a", 10, ("a", 4))]
        assert left(harness) == 0


def test_incremental_windows_hold_one_value_per_key() -> None:
    with windows(tumbling(10), lambda windowed: windowed.sum(1)) as harness:
        push(harness, *[1] * 50)
        assert left(harness) == 2  # the sum and the timer


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        ("sum", (5, "x", 9)),
        ("min", (5, "x", 1)),
        ("max", (5, "x", 5)),
        ("min_by", (5, "y", 1)),
        ("max_by", (5, "z", 5)),
    ],
)
def test_aggregates_of_a_field(method: str, expected: Any) -> None:
    def build(keyed: KeyedStream) -> DataStream:
        stream: DataStream = getattr(keyed.window(tumbling(10)), method)(2)
        return stream

    with KeyedHarness(build, key_selector=0) as harness:
        for name, number in (("x", 3), ("y", 1), ("z", 5)):
            harness.process((5, name, number), timestamp=1)
        harness.watermark(9)
        assert harness.output() == [expected]


class Diary(ProcessWindowFunction):
    """Counts evaluations of each window, and of all of them; emits a record when it is cleared."""

    once = ValueStateDescriptor("evaluations", Types.LONG(), default_value=0)
    side = OutputTag("side")
    cleared: list[Any] = []  # noqa: RUF012 - the test looks at it

    def process(self, key: Any, context: ProcessWindowFunction.Context, elements: Iterable[Any]) -> Iterable[Any]:
        # One name for both: state of a window and state of the key are not the same.
        mine = context.window_state().get_state(self.once)
        mine.update(mine.value() + 1)
        every = context.global_state().get_state(self.once)
        every.update(every.value() + 1)
        yield self.side, (key, context.window().start, context.current_watermark(), context.current_processing_time())
        yield key, context.window().start, mine.value(), every.value()

    def clear(self, context: ProcessWindowFunction.Context) -> None:
        state = context.window_state().get_state(self.once)
        self.cleared.append((context.window().start, state.value()))
        state.clear()


def test_state_of_the_window_and_of_the_key() -> None:
    Diary.cleared.clear()
    with windows(
        tumbling(10), lambda windowed: windowed.allowed_lateness(5).process(Diary()), processing_time=77
    ) as harness:
        push(harness, 1, 11)
        harness.watermark(9)
        push(harness, 2)
        harness.watermark(12)
        harness.checkpoint()
        push(harness, 3)
        harness.watermark(30)
        assert harness.output() == [("a", 0, 1, 1), ("a", 0, 2, 2), ("a", 0, 3, 3), ("a", 10, 1, 4)]
        assert harness.side_output("side")[0] == ("a", 0, 9, 77)
        assert Diary.cleared == [(0, 3), (10, 1)]
        assert left(harness) == 1  # what the function keeps of the key
        assert harness.state("evaluations", "a") == 4


def test_window_state_survives_a_restore() -> None:
    Diary.cleared.clear()
    trigger = ContinuousEventTimeTrigger.of(10)
    harness = windows(tumbling(30), lambda windowed: windowed.trigger(trigger).process(Diary()))
    push(harness, 1)
    harness.watermark(10)
    snapshot = harness.snapshot()
    harness.close()
    with harness.restore(snapshot) as again:
        again.watermark(29)
        assert [record[2:] for record in again.output()] == [(2, 2), (3, 3)]
        assert Diary.cleared == [(0, 3)]


EXPIRING = StateTtlConfig.new_builder(Time.milliseconds(100)).build()


class ExpiringDiary(ProcessWindowFunction):
    """As :class:`Diary`, with state that expires, of which it takes hold before it uses any."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def process(self, key: Any, context: ProcessWindowFunction.Context, elements: Iterable[Any]) -> Iterable[Any]:
        every, mine = self.counter(context.global_state()), self.counter(context.window_state())
        start = context.window().start
        mine(start)
        every(start)
        yield start, mine(None), every(None)

    def counter(self, store: Any) -> Any:
        """Adds what it is given, and emits all that it was given."""
        state: Any
        if self.kind == "value":
            descriptor = ValueStateDescriptor("starts", Types.STRING())
            descriptor.enable_time_to_live(EXPIRING)
            state = store.get_state(descriptor)
            return lambda new: state.value() if new is None else state.update(f"{state.value() or ''}{new},")
        if self.kind == "map":
            entries = MapStateDescriptor("starts", Types.LONG(), Types.LONG())
            entries.enable_time_to_live(EXPIRING)
            state = store.get_map_state(entries)
            return lambda new: "".join(f"{key}," for key in state) if new is None else state.put(new, 1)
        if self.kind == "list":
            listed = ListStateDescriptor("starts", Types.STRING())
            listed.enable_time_to_live(EXPIRING)
            state = store.get_list_state(listed)
        else:
            reduced = ReducingStateDescriptor("starts", lambda one, two: one + two, Types.STRING())
            reduced.enable_time_to_live(EXPIRING)
            state = store.get_reducing_state(reduced)
        return lambda new: "".join(state.get()) if new is None else state.add(f"{new},")


@pytest.mark.parametrize("kind", ["value", "map", "list", "reducing"])
def test_expiring_state_of_the_window_is_not_that_of_the_key(kind: str) -> None:
    with windows(tumbling(10), lambda windowed: windowed.process(ExpiringDiary(kind))) as harness:
        push(harness, 1, 11, 21)
        harness.watermark(9)
        harness.checkpoint()
        harness.watermark(19)
        harness.set_processing_time(200)
        harness.watermark(29)
        assert harness.output() == [(0, "0,", "0,"), (10, "10,", "0,10,"), (20, "20,", "20,")]


def test_rich_functions_are_opened_with_the_state_of_the_key() -> None:
    class Rich(ProcessWindowFunction):
        def open(self, runtime_context: RuntimeContext) -> None:
            self.seen = runtime_context.get_list_state(ListStateDescriptor("seen", Types.LONG()))

        def process(self, key: Any, context: ProcessWindowFunction.Context, elements: Iterable[Any]) -> Iterable[Any]:
            self.seen.add_all([number for _, number in elements])
            yield list(self.seen)

    with windows(tumbling(10), lambda windowed: windowed.process(Rich())) as harness:
        push(harness, 1, 12)
        harness.watermark(100)
        assert harness.output() == [[1], [1, 12]]


def test_a_function_that_returns_nothing() -> None:
    class Silent(WindowFunction):
        def apply(self, key: Any, window: Any, inputs: Iterable[Any]) -> Any:
            return None

    with windows(tumbling(10), lambda windowed: windowed.apply(Silent())) as harness:
        push(harness, 1)
        harness.watermark(100)
        assert harness.output() == []


class Same(EventTimeTrigger):
    """The event time trigger, but not known to be it: records go the general way."""


@pytest.mark.parametrize("trigger", [EventTimeTrigger(), Same()], ids=["fast", "general"])
def test_windows_do_not_share_what_a_reduce_function_changes(trigger: Trigger) -> None:
    def extend(one: Any, two: Any) -> Any:
        one[1].extend(two[1])
        return one

    with windows(
        SlidingEventTimeWindows.of(10, 5), lambda windowed: windowed.trigger(trigger).reduce(extend)
    ) as harness:
        for number in (6, 7, 11):
            harness.process(("a", [number]), timestamp=number)
        harness.watermark(100)
        assert harness.output() == [("a", [6, 7]), ("a", [6, 7, 11]), ("a", [11])]


def test_a_result_does_not_change_after_it_was_emitted() -> None:
    def extend(one: Any, two: Any) -> Any:
        one[1].extend(two[1])
        return one

    with windows(tumbling(10), lambda windowed: windowed.allowed_lateness(10).reduce(extend)) as harness:
        harness.process(("a", [1]), timestamp=1)
        harness.watermark(10)
        harness.process(("a", [2]), timestamp=2)
        assert harness.output() == [("a", [1]), ("a", [1, 2])]


@pytest.mark.parametrize("method", ["apply", "process", "reduce", "aggregate"])
def test_functions_of_the_wrong_kind_are_refused(method: str) -> None:
    with pytest.raises(TypeError, match=method):
        windows(tumbling(10), lambda windowed: getattr(windowed, method)(5))
    with pytest.raises(TypeError, match="must be a WindowFunction or ProcessWindowFunction"):
        windows(tumbling(10), lambda windowed: windowed.reduce(max, Types))  # type: ignore[arg-type]


# --- over the whole stream


class AllShow(AllWindowFunction):
    def apply(self, window: Any, inputs: Iterable[Any]) -> Iterable[Any]:
        yield window.start, sorted(inputs)


class AllCount(ProcessAllWindowFunction):
    def process(self, context: ProcessAllWindowFunction.Context, elements: Iterable[Any]) -> Iterable[Any]:
        count = context.global_state().get_state(ValueStateDescriptor("count", default_value=0))
        count.update(count.value() + 1)
        yield count.value(), context.window().start, sorted(elements)


class Latest(WindowFunction):
    def apply(self, key: Any, window: Any, inputs: Iterable[Any]) -> Iterable[Any]:
        yield key, window.start, sorted(number for _, number in inputs)


@pytest.mark.parametrize("mode", ["STREAMING", "BATCH"])
def test_window_all_in_a_job(mode: str) -> None:
    pairs = [("a", 1), ("b", 2), ("a", 12), ("c", 33)]

    def build(function: Any) -> Any:
        def program(env: Any) -> DataStream:
            windowed = stamped(env.from_collection(pairs)).window_all(tumbling(10))
            return windowed.apply(function) if isinstance(function, AllWindowFunction) else windowed.process(function)

        return program

    options: dict[str, Any] = {"max_records": 2, "configuration": {"execution.runtime-mode": mode}}
    assert sorted(run_local(build(AllShow()), **options)) == [
        (0, [("a", 1), ("b", 2)]),
        (10, [("a", 12)]),
        (30, [("c", 33)]),
    ]
    assert sorted(run_local(build(AllCount()), **options)) == [
        (1, 0, [("a", 1), ("b", 2)]),
        (2, 10, [("a", 12)]),
        (3, 30, [("c", 33)]),
    ]


def test_what_one_subtask_emits_is_collected_in_its_order() -> None:
    """The windows of a stream that is not keyed come out one after the other, however wide the job is."""
    wide = Configuration.from_dict({"execution.target": "local", "parallelism.default": "3"})
    env = StreamExecutionEnvironment.get_execution_environment(wide)
    numbers = env.from_collection(list(range(40)))
    with numbers.execute_and_collect() as records:
        assert list(records) == list(range(40))
    with numbers.count_window_all(4).sum().execute_and_collect() as sums:
        assert list(sums) == list(range(6, 160, 16))


@pytest.mark.parametrize("mode", ["STREAMING", "BATCH"])
@pytest.mark.parametrize("kind", ["tumbling", "sessions", "count", "reduce"])
def test_keyed_windows_in_a_job(mode: str, kind: str) -> None:
    pairs = [("a", 1), ("b", 2), ("a", 3), ("b", 14), ("a", 15), ("b", 16), ("b", 40)]

    def build(env: Any) -> DataStream:
        keyed = stamped(env.from_collection(pairs)).key_by(0, Types.STRING())
        if kind == "tumbling":
            return keyed.window(tumbling(10)).apply(Latest())
        if kind == "sessions":
            return keyed.window(EventTimeSessionWindows.with_gap(5)).apply(Latest())
        if kind == "count":
            return keyed.count_window(2).sum(1)
        return keyed.window(tumbling(10)).sum(1)

    expected: dict[str, list[Any]] = {
        "tumbling": [("a", 0, [1, 3]), ("a", 10, [15]), ("b", 0, [2]), ("b", 10, [14, 16]), ("b", 40, [40])],
        "sessions": [("a", 1, [1, 3]), ("a", 15, [15]), ("b", 2, [2]), ("b", 14, [14, 16]), ("b", 40, [40])],
        "count": [("a", 4), ("b", 16), ("b", 56)],
        "reduce": [("a", 4), ("a", 15), ("b", 2), ("b", 30), ("b", 40)],
    }
    found = run_local(build, max_records=2, configuration={"execution.runtime-mode": mode})
    assert sorted(found) == sorted(expected[kind])


def test_a_finished_batch_job_keeps_nothing_of_its_windows() -> None:
    def build(env: Any) -> DataStream:
        return stamped(env.from_collection([("a", 1), ("a", 30)])).key_by(0).window(tumbling(10)).sum(1)

    with JobHarness(build, configuration={"execution.runtime-mode": "BATCH"}) as job:
        job.end()
        assert job.output() == [("a", 1), ("a", 30)]
        assert job.head.pieces == ()
