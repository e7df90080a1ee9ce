"""Records at which a function raises are set aside, and the job continues as if they had never come."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from tidemill.common import Configuration, Time, Types, WatermarkStrategy
from tidemill.common.watermark_strategy import TimestampAssigner
from tidemill.datastream import (
    AggregateFunction,
    BroadcastProcessFunction,
    CoFlatMapFunction,
    CoMapFunction,
    CountTrigger,
    DataStream,
    ErrorPolicy,
    EventTimeSessionWindows,
    EventTimeTrigger,
    GlobalWindows,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    KeyedStream,
    ListStateDescriptor,
    MapFunction,
    MapStateDescriptor,
    OutputTag,
    PoisonRecord,
    ProcessFunction,
    ProcessWindowFunction,
    SlidingEventTimeWindows,
    StreamExecutionEnvironment,
    TumblingEventTimeWindows,
    ValueStateDescriptor,
)
from tidemill.datastream.connectors.number_seq import NumberSequenceSource
from tidemill.errors import GraphError, StateError, UserCodeError
from tidemill.faults import Fault
from tidemill.testing import JobHarness, KeyedHarness, OperatorHarness
from tidemill.testing.job_harness import moving
from tidemill.testing.recording_sink import Recording, RecordingSink

BAD = OutputTag("bad")
ASIDE = ErrorPolicy.side_output(BAD)

Build = Callable[[DataStream], DataStream]


def checked(value: int) -> int:
    """Raises at every multiple of 5."""
    if value % 5 == 0:
        raise ValueError(f"{value} is bad")
    return value


class Doubled(ProcessFunction):
    def process_element(self, value: int, ctx: ProcessFunction.Context) -> Iterable[int]:
        yield value
        yield checked(value)


class Running(KeyedProcessFunction):
    """Changes everything there is to change before it may raise."""

    def open(self, runtime_context: Any) -> None:
        self.seen = runtime_context.get_list_state(ListStateDescriptor("seen", Types.LONG()))
        self.sums = runtime_context.get_state(ValueStateDescriptor("sums"))

    def process_element(self, value: int, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        sums = self.sums.value() or {"sum": 0}
        sums["sum"] += value
        self.seen.add(value)
        ctx.timer_service().register_event_time_timer(value)
        yield "early", value
        checked(value)
        self.sums.update(sums)
        yield value, sums["sum"], list(self.seen.get())

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterable[Any]:
        yield "timer", timestamp, list(self.seen.get())


class Sides(CoMapFunction, CoFlatMapFunction):
    def map1(self, value: int) -> int:
        return checked(value)

    def map2(self, value: int) -> int:
        return checked(value)

    def flat_map1(self, value: int) -> Iterable[int]:
        yield checked(value)

    def flat_map2(self, value: int) -> Iterable[int]:
        yield checked(value)


def joined(left: int, right: int) -> int:
    checked(right)
    return left + right


class CheckedSum(AggregateFunction):
    """Sums in place, and may raise afterwards."""

    def create_accumulator(self) -> list[int]:
        return [0]

    def add(self, value: int, accumulator: list[int]) -> list[int]:
        accumulator[0] += value
        checked(value)
        return accumulator

    def get_result(self, accumulator: list[int]) -> int:
        return accumulator[0]

    def merge(self, acc_a: list[int], acc_b: list[int]) -> list[int]:
        return [acc_a[0] + acc_b[0]]


class Stamp(TimestampAssigner):
    def extract_timestamp(self, value: int, record_timestamp: int) -> int:
        return value


def windows(numbers: DataStream, assigner: Any) -> DataStream:
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Stamp())
    stamped = numbers.assign_timestamps_and_watermarks(strategy)
    return stamped.key_by(lambda n: n % 2).window(assigner).aggregate(CheckedSum())


def millis(count: int) -> Time:
    return Time.milliseconds(count)


#: Every kind of operator, over the numbers 1 to 12.
KINDS: dict[str, Build] = {
    "map": lambda numbers: numbers.map(checked),
    "filter": lambda numbers: numbers.filter(lambda n: checked(n) > 0),
    "flat_map": lambda numbers: numbers.flat_map(lambda n: (checked(m) for m in (n, n))),
    "process": lambda numbers: numbers.process(Doubled()),
    "keyed map": lambda numbers: numbers.key_by(lambda n: n % 2).map(checked),
    "keyed process": lambda numbers: numbers.key_by(lambda n: n % 2).process(Running()),
    "reduce": lambda numbers: numbers.key_by(lambda n: n % 2).reduce(joined),
    "tumbling": lambda numbers: windows(numbers, TumblingEventTimeWindows.of(millis(4))),
    "sliding": lambda numbers: windows(numbers, SlidingEventTimeWindows.of(millis(6), millis(3))),
    "sessions": lambda numbers: windows(numbers, EventTimeSessionWindows.with_gap(millis(3))),
    "co-map": lambda numbers: numbers.connect(numbers.map(lambda n: n)).map(Sides()),
    "co-flat_map": lambda numbers: numbers.connect(numbers.map(lambda n: n)).flat_map(Sides()),
}


def numbers(env: StreamExecutionEnvironment, without_bad: bool) -> DataStream:
    source = env.from_source(NumberSequenceSource(1, 12), WatermarkStrategy.no_watermarks(), "numbers")
    return source.filter(lambda n: n % 5 != 0) if without_bad else source


def outcome(kind: str, *, without_bad: bool, **options: Any) -> tuple[list[str], list[Any]]:
    """What comes out of an operator of a kind, and what it puts aside."""

    def build(env: StreamExecutionEnvironment) -> dict[str, DataStream]:
        stream = KINDS[kind](numbers(env, without_bad)).on_error(ASIDE)
        return {"good": stream, "bad": stream.get_side_output(BAD)}

    with JobHarness(build, **options) as job:
        job.end()
        return sorted(map(repr, job.output("good"))), sorted(poison.value for poison in job.output("bad"))


@pytest.mark.parametrize("kind", KINDS)
def test_a_job_continues_as_if_bad_records_had_never_come(kind: str) -> None:
    expected, none = outcome(kind, without_bad=True)
    assert none == []
    times = 2 if kind.startswith("co-") else 1
    assert outcome(kind, without_bad=False) == (expected, [5] * times + [10] * times)
    moved = {"workers": 3, "placement": moving(3), "max_records": 2}
    assert sorted(outcome(kind, without_bad=False, **moved)[1]) == [5] * times + [10] * times


def test_a_record_that_is_set_aside_has_its_whole_context() -> None:
    def build(stream: KeyedStream) -> DataStream:
        return stream.process(Running()).name("running").uid("running-1").on_error(ASIDE)

    with KeyedHarness(build, key_selector=lambda n: n % 2) as harness:
        harness.process(3, timestamp=30)
        harness.process(5, timestamp=50)
        harness.process(7, timestamp=70)
        ((poison, timestamp),) = harness.side_output_with_timestamps(BAD)
        assert timestamp == 50
        assert isinstance(poison, PoisonRecord)
        assert (poison.value, poison.key, poison.timestamp, poison.timer) == (5, 1, 50, False)
        assert (poison.exception, poison.message) == ("ValueError", "5 is bad")
        assert (poison.operator, poison.uid, poison.subtask) == ("running", "running-1", 0)
        assert poison.traceback.startswith("Traceback")
        assert "in checked" in poison.traceback
        assert "keyed.py" not in poison.traceback
        assert harness.output() == [("early", 3), (3, 3, [3]), ("early", 7), (7, 10, [3, 7])]
        assert harness.timers() == [(3, 1), (7, 1)]
        assert harness.state("seen", 1) == [3, 7]


def test_without_a_policy_the_job_fails() -> None:
    with OperatorHarness(lambda stream: stream.map(checked).on_error(ErrorPolicy.fail())) as harness:
        with pytest.raises(UserCodeError, match="5 is bad"):
            harness.process(5)
        assert harness.output() == []


def test_skipped_records_are_counted_and_the_first_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    def build(env: StreamExecutionEnvironment) -> DataStream:
        return numbers(env, False).map(checked).uid("checked").on_error(ErrorPolicy.skip())

    with JobHarness(build, parallelism=1) as job:
        job.end()
        assert sorted(job.output()) == [1, 2, 3, 4, 6, 7, 8, 9, 11, 12]
        assert job.head.metrics["checked.numPoisonRecords"] == 2
    (message,) = [record.getMessage() for record in caplog.records if "set aside" in record.getMessage()]
    assert "raised ValueError at a record" in message
    assert "numPoisonRecords" in message


class Counting(MapFunction):
    def open(self, runtime_context: Any) -> None:
        self.calls = runtime_context.get_metrics_group().counter("calls")
        self.sizes = runtime_context.get_metrics_group().distribution("sizes")

    def map(self, value: int) -> int:
        self.calls.inc()
        self.sizes.update(value)
        return checked(value)


def test_records_that_come_again_are_counted_once() -> None:
    def build(env: StreamExecutionEnvironment) -> DataStream:
        return numbers(env, False).map(Counting()).uid("counting").on_error(ErrorPolicy.skip())

    with JobHarness(build, parallelism=1) as job:
        job.end()
        metrics = job.head.metrics
        assert (metrics["counting.calls"], metrics["counting.sizes_sum"]) == (12, sum(range(13)))
        assert metrics["counting.numPoisonRecords"] == 2
        assert metrics["counting.numRecordsOut"] == 10


def test_a_result_of_the_wrong_type_is_a_bad_record_too() -> None:
    def build(stream: DataStream) -> DataStream:
        return stream.map(lambda n: n if n != 2 else "two", output_type=Types.LONG()).on_error(ASIDE)

    with OperatorHarness(build) as harness:
        harness.process_all([1, 2, 3])
        assert harness.output() == [1, 3]
        (poison,) = harness.side_output(BAD)
        assert (poison.value, poison.exception) == (2, "TypeMismatchError")


def test_an_operator_does_not_answer_for_those_behind_it() -> None:
    def build(stream: DataStream) -> DataStream:
        return stream.map(lambda n: n).on_error(ASIDE).map(checked)

    with OperatorHarness(build) as harness, pytest.raises(UserCodeError, match="5 is bad"):
        harness.process(5)


def test_memory_that_is_used_up_is_not_the_records_fault() -> None:
    def hungry(value: int) -> int:
        raise MemoryError

    with (
        OperatorHarness(lambda stream: stream.map(hungry).on_error(ASIDE)) as harness,
        pytest.raises(UserCodeError, match="MemoryError"),
    ):
        harness.process(1)


class Timers(KeyedProcessFunction):
    """A timer at 20 raises after it has changed state and set another timer."""

    def open(self, runtime_context: Any) -> None:
        self.fired = runtime_context.get_map_state(MapStateDescriptor("fired", Types.LONG(), Types.LONG()))

    def process_element(self, value: int, ctx: KeyedProcessFunction.Context) -> None:
        ctx.timer_service().register_event_time_timer(value)
        ctx.timer_service().register_processing_time_timer(value)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterable[Any]:
        self.fired.put(timestamp, 1)
        ctx.timer_service().register_event_time_timer(timestamp + 1000)
        yield timestamp
        if timestamp == 20:
            raise KeyError("no")


def test_a_timer_that_raises_counts_as_fired_and_leaves_no_trace() -> None:
    with KeyedHarness(lambda stream: stream.process(Timers()).on_error(ASIDE), key_selector=lambda n: 0) as harness:
        for time in (10, 20, 30):
            harness.process(time)
        harness.watermark(50)
        assert harness.output() == [10, 30]
        ((poison, timestamp),) = harness.side_output_with_timestamps(BAD)
        assert (poison.value, poison.key, poison.timestamp, poison.timer, timestamp) == (None, 0, 20, True, 20)
        assert harness.state("fired", 0) == {10: 1, 30: 1}
        assert harness.timers() == [(1010, 0), (1030, 0)]
        harness.set_processing_time(100)
        assert harness.output() == [10, 30, 10, 30]
        assert harness.side_output_with_timestamps(BAD)[1][1] is None


class OwnTrigger(EventTimeTrigger):
    """As the one it is made of, but windows with it do not go the fast way."""


class Total(ProcessWindowFunction):
    """The sum of a window, which is odd or an error."""

    def process(self, key: Any, context: ProcessWindowFunction.Context, elements: Iterable[int]) -> Iterable[Any]:
        seen = context.global_state().get_state(ValueStateDescriptor("seen", Types.LONG()))
        seen.update((seen.value() or 0) + 1)
        yield "early"
        total = sum(elements)
        if total % 2 == 0:
            raise ArithmeticError(f"{total} is even")
        yield total, seen.value()

    def clear(self, context: ProcessWindowFunction.Context) -> None:
        pass


@pytest.mark.parametrize(
    "assigner",
    [TumblingEventTimeWindows.of(millis(10)), EventTimeSessionWindows.with_gap(millis(3))],
    ids=["tumbling", "sessions"],
)
@pytest.mark.parametrize("general", [False, True], ids=["fast", "general"])
def test_a_window_whose_evaluation_raises_is_put_aside_as_a_whole_and_removed(assigner: Any, general: bool) -> None:
    def build(stream: Any) -> DataStream:
        windows = stream.window(assigner)
        if general:
            windows = windows.trigger(OwnTrigger())
        applied: DataStream = windows.process(Total()).on_error(ASIDE)
        return applied

    with KeyedHarness(build, key_selector=lambda n: "k") as harness:
        for value, time in ((1, 1), (3, 2), (5, 11), (6, 21), (7, 22), (8, 31)):
            harness.process(value, timestamp=time)
        harness.watermark(100)
        assert [out for out in harness.output() if out != "early"] == [(5, 1), (13, 2)]
        assert harness.output().count("early") == 2
        poison = harness.side_output(BAD)
        assert [(one.value, one.timer, one.message) for one in poison] == [
            ([1, 3], True, "4 is even"),
            ([8], True, "8 is even"),
        ]
        assert harness.timers() == []
        harness.checkpoint()
        backend = harness._backend()
        left = {name: backend._tables[name].entries() for name in backend.state_names()}
        assert {name: count for name, count in left.items() if count} == {"seen": 1}


@pytest.mark.parametrize("sessions", [False, True], ids=["tumbling", "sessions"])
def test_a_record_that_a_window_cannot_take_is_put_aside_and_the_others_stay(sessions: bool) -> None:
    assigner: Any = (
        EventTimeSessionWindows.with_gap(millis(5)) if sessions else TumblingEventTimeWindows.of(millis(100))
    )

    def build(stream: Any) -> DataStream:
        reduced: DataStream = stream.window(assigner).reduce(joined).on_error(ASIDE)
        return reduced

    with KeyedHarness(build, key_selector=lambda n: "k") as harness:
        for value, time in ((1, 1), (2, 4), (5, 6), (10, 8), (3, 9)):
            harness.process(value, timestamp=time)
        harness.watermark(1000)
        assert harness.output() == [6]
        assert [poison.value for poison in harness.side_output(BAD)] == [5, 10]
        assert harness.timers() == []


def test_a_bad_record_does_not_bridge_two_sessions() -> None:
    def build(stream: Any) -> DataStream:
        windows = stream.window(EventTimeSessionWindows.with_gap(millis(5)))
        reduced: DataStream = windows.reduce(joined).on_error(ASIDE)
        return reduced

    with KeyedHarness(build, key_selector=lambda n: "k") as harness:
        for value, time in ((1, 0), (2, 8), (5, 4), (3, 9)):
            harness.process(value, timestamp=time)
        harness.checkpoint()
        harness.watermark(1000)
        assert sorted(harness.output()) == [1, 5]
        assert harness.timers() == []


def test_a_count_window_takes_the_record_that_completes_it_back() -> None:
    def build(stream: Any) -> DataStream:
        windows = stream.window(GlobalWindows.create()).trigger(CountTrigger.of(2))
        applied: DataStream = windows.process(Total()).on_error(ASIDE)
        return applied

    with KeyedHarness(build, key_selector=lambda n: "k") as harness:
        harness.process_all([1, 3, 4])
        assert harness.output() == ["early", (5, 1)]
        assert [poison.value for poison in harness.side_output(BAD)] == [3]


RULES = MapStateDescriptor("rules", Types.STRING(), Types.LONG())


class Ruled(BroadcastProcessFunction):
    def process_element(self, value: int, ctx: BroadcastProcessFunction.ReadOnlyContext) -> Iterable[Any]:
        yield value * ctx.get_broadcast_state(RULES).get("factor")

    def process_broadcast_element(self, value: Any, ctx: BroadcastProcessFunction.Context) -> None:
        rules = ctx.get_broadcast_state(RULES)
        rules.remove("factor")
        rules.put("last", value)
        rules.put("factor", int(value))


def test_a_rule_that_raises_changes_no_rules() -> None:
    build = lambda data, rules: data.connect(rules.broadcast(RULES)).process(Ruled()).on_error(ASIDE)  # noqa: E731
    with OperatorHarness(build) as harness:
        harness.process(1)  # there is no factor yet
        harness.process(10, stream=2)
        harness.process(2)
        harness.process("x", stream=2)
        harness.process(3)
        assert harness.output() == [20, 30]
        assert [poison.exception for poison in harness.side_output(BAD)] == ["TypeError", "ValueError"]
        assert harness.operator_state("rules") == {"last": 10, "factor": 10}


class BothSides(KeyedCoProcessFunction):
    def open(self, runtime_context: Any) -> None:
        self.sum = runtime_context.get_state(ValueStateDescriptor("sum", Types.LONG()))

    def process_element1(self, value: int, ctx: Any) -> Iterable[int]:
        self.sum.update((self.sum.value() or 0) + value)
        yield checked(value)

    def process_element2(self, value: int, ctx: Any) -> Iterable[int]:
        yield from self.process_element1(value, ctx)


def test_both_sides_of_connected_streams_are_guarded() -> None:
    build = lambda one, two: one.connect(two).process(BothSides()).on_error(ASIDE)  # noqa: E731
    with KeyedHarness(build, key_selector=lambda n: 0) as harness:
        for value, side in ((1, 1), (5, 1), (10, 2), (2, 2)):
            harness.process(value, stream=side)
        assert harness.output() == [1, 2]
        assert harness.state("sum", 0) == 3


def test_in_batch_mode_too() -> None:
    def build(env: StreamExecutionEnvironment) -> dict[str, DataStream]:
        stream = numbers(env, False).key_by(lambda n: n % 2).reduce(joined).on_error(ASIDE)
        return {"good": stream, "bad": stream.get_side_output(BAD)}

    with JobHarness(build, configuration={"execution.runtime-mode": "BATCH"}) as job:
        job.end()
        assert sorted(job.output("good")) == [31, 32]
        assert sorted(poison.value for poison in job.output("bad")) == [5, 10]


@pytest.mark.parametrize(
    ("build", "kind"),
    [
        (lambda stream: stream.map_batch(list), "BatchMap"),
        (lambda stream: stream.print(), "Sink"),
        (
            lambda stream: stream.assign_timestamps_and_watermarks(WatermarkStrategy.for_monotonous_timestamps()),
            "Timestamps",
        ),
        (lambda stream: stream, "Source"),
    ],
    ids=["map_batch", "sink", "timestamps", "source"],
)
def test_operators_that_cannot_do_it_say_so(build: Callable[[DataStream], Any], kind: str) -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    with pytest.raises(GraphError, match=rf"test_poison.py.*does not support on_error\(\): it is a {kind}"):
        build(env.from_collection([1])).on_error(ASIDE)


def test_a_key_is_no_operator() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    with pytest.raises(GraphError, match="needs the output of an operator"):
        env.from_collection([1]).key_by(lambda n: n).on_error(ASIDE)


def test_a_side_output_for_bad_records_has_no_type_of_its_own() -> None:
    with pytest.raises(TypeError, match="PoisonRecord"):
        ErrorPolicy.side_output(OutputTag("bad", Types.STRING()))


# --- dead letters


def dead_letters(directory: Path) -> list[dict[str, Any]]:
    files = sorted(directory.glob("dead-letters-*.jsonl"))
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def test_dead_letters_are_written_exactly_once_by_all_who_send_them(tmp_path: Path) -> None:
    def build(env: StreamExecutionEnvironment) -> DataStream:
        policy = ErrorPolicy.dead_letter()
        first = numbers(env, False).map(checked).uid("first").on_error(policy)
        return first.key_by(lambda n: n % 2).map(lambda n: 1 // (n - 7)).uid("second").on_error(policy)

    options = {"execution.dead-letter.dir": str(tmp_path / "dead")}
    with JobHarness(build, max_records=3, configuration=options) as job:
        for point in ("acks.collected", "manifest.before", "manifest.after", "sink.commit.before"):
            job.crash(Fault(point))
        job.end()
    letters = dead_letters(tmp_path / "dead")
    assert sorted((letter["uid"], letter["value"], letter["exception"], letter["key"]) for letter in letters) == [
        ("first", 5, "ValueError", None),
        ("first", 10, "ValueError", None),
        ("second", 7, "ZeroDivisionError", 1),
    ]


def test_a_dead_letter_sink_of_ones_own() -> None:
    recording = Recording()
    options = {"execution.target": "local", "parallelism.default": "1"}
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(options))
    env.set_dead_letter_sink(RecordingSink(recording))
    checked_numbers = env.from_collection([4, 5, 6]).map(checked).on_error(ErrorPolicy.dead_letter())
    assert list(checked_numbers.execute_and_collect()) == [4, 6]
    assert [poison.value for poison in recording.values()] == [5]
    with pytest.raises(TypeError, match="a Sink is needed"):
        env.set_dead_letter_sink("/tmp/letters")  # type: ignore[arg-type]


def test_dead_letters_need_somewhere_to_go() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.from_collection([1]).map(checked).on_error(ErrorPolicy.dead_letter()).print()
    with pytest.raises(GraphError, match=r"test_poison.py.*execution.dead-letter.dir"):
        env.explain()


@pytest.mark.parametrize("value", [float("nan"), b"bytes", {1: {2}}, object, Time.seconds(1), ("a", 1)])
def test_every_dead_letter_is_a_line_of_json(value: Any) -> None:
    poison = PoisonRecord(value, "E", "line\nbreak", "", "op", "uid", 0, key=value)
    (line,) = poison.to_json().splitlines()
    assert json.loads(line, parse_constant=pytest.fail)["message"] == "line\nbreak"


def test_state_misused_at_one_record_is_put_aside_with_it() -> None:
    class Misuse(KeyedProcessFunction):
        def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> None:
            ctx.timer_service().register_event_time_timer(value)

    with KeyedHarness(lambda stream: stream.process(Misuse()).on_error(ASIDE), key_selector=lambda n: 0) as harness:
        harness.process("no time")
        harness.process(7)
        assert [poison.exception for poison in harness.side_output(BAD)] == [StateError.__name__]
        assert harness.timers() == [(7, 0)]
