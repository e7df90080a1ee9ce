"""Process functions: what each of them receives, and where what it yields goes."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.semantics.partitions import MIN_TIME
from tidemill.common import Types, WatermarkStrategy
from tidemill.datastream import (
    BroadcastProcessFunction,
    CoMapFunction,
    CoProcessFunction,
    DataStream,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    MapStateDescriptor,
    OutputTag,
    ProcessFunction,
    RuntimeContext,
    StreamExecutionEnvironment,
    TimerService,
)
from tidemill.errors import TidemillError, UserCodeError
from tidemill.testing import JobHarness, KeyedHarness, OperatorHarness, run_local
from tidemill.testing.job_harness import moving

ODD = OutputTag("odd", Types.LONG())
SHARED = MapStateDescriptor("shared", Types.STRING(), Types.LONG())


def clocks(service: TimerService) -> tuple[int, int]:
    return service.current_watermark(), service.current_processing_time()


class Plain(ProcessFunction):
    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Iterable[Any]:
        yield value, ctx.timestamp(), *clocks(ctx.timer_service())


class Keyed(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        yield value, ctx.timestamp(), *clocks(ctx.timer_service()), ctx.get_current_key()


class Co(CoProcessFunction):
    def process_element1(self, value: Any, ctx: CoProcessFunction.Context) -> Iterable[Any]:
        yield value, ctx.timestamp(), *clocks(ctx.timer_service())

    process_element2 = process_element1


class KeyedCo(KeyedCoProcessFunction):
    def process_element1(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> Iterable[Any]:
        yield value, ctx.timestamp(), *clocks(ctx.timer_service()), ctx.get_current_key()

    process_element2 = process_element1


class Broadcasting(BroadcastProcessFunction):
    def process_element(self, value: Any, ctx: BroadcastProcessFunction.ReadOnlyContext) -> Iterable[Any]:
        yield value, ctx.timestamp(), ctx.current_watermark(), ctx.current_processing_time()

    def process_broadcast_element(self, value: Any, ctx: BroadcastProcessFunction.Context) -> Iterable[Any]:
        yield value, ctx.timestamp(), ctx.current_watermark(), ctx.current_processing_time()


class KeyedBroadcasting(KeyedBroadcastProcessFunction):
    def process_element(self, value: Any, ctx: KeyedBroadcastProcessFunction.ReadOnlyContext) -> Iterable[Any]:
        assert clocks(ctx.timer_service()) == (ctx.current_watermark(), ctx.current_processing_time())
        yield value, ctx.timestamp(), ctx.current_watermark(), ctx.current_processing_time(), ctx.get_current_key()

    def process_broadcast_element(self, value: Any, ctx: KeyedBroadcastProcessFunction.Context) -> Iterable[Any]:
        yield value, ctx.timestamp(), ctx.current_watermark(), ctx.current_processing_time()


def harness_of(function: Any) -> OperatorHarness:
    broadcast = [SHARED] if "Broadcast" in type(function).__name__ else []
    if type(function).__name__.startswith("Keyed"):
        return KeyedHarness(function, key_selector=0, key_type=Types.STRING(), broadcast=broadcast)
    return OperatorHarness(function, broadcast=broadcast)


ALL = [Plain, Keyed, Co, KeyedCo, Broadcasting, KeyedBroadcasting]
TWO_SIDED = [Co, KeyedCo, Broadcasting, KeyedBroadcasting]


@pytest.mark.parametrize("function", ALL, ids=lambda f: f.__name__)
def test_a_record_is_reported_with_its_time_clocks_and_key(function: Any) -> None:
    with harness_of(function()) as harness:
        harness.set_processing_time(77)
        harness.process(("a", 1), timestamp=5)
        harness.watermark(9)
        harness.process(("b", 2))
        harness.process(("a", 3), timestamp=0)
        told = [record[:4] for record in harness.output()]
        assert told == [(("a", 1), 5, MIN_TIME, 77), (("b", 2), None, 9, 77), (("a", 3), 0, 9, 77)]
        if function.__name__.startswith("Keyed"):
            assert [record[4] for record in harness.output()] == ["a", "b", "a"]


@pytest.mark.parametrize("function", TWO_SIDED, ids=lambda f: f.__name__)
def test_the_second_side_gets_the_same(function: Any) -> None:
    with harness_of(function()) as harness:
        harness.set_processing_time(77)
        harness.watermark(4, stream=1)
        harness.watermark(9, stream=2)
        harness.process(("a", 1), timestamp=5, stream=2)
        harness.process(("a", 2), stream=2)
        told = [record[:4] for record in harness.output()]
        assert told == [(("a", 1), 5, 4, 77), (("a", 2), None, 4, 77)]


@pytest.mark.parametrize("function", ALL, ids=lambda f: f.__name__)
def test_what_is_yielded_has_the_timestamp_of_the_record(function: Any) -> None:
    with harness_of(function()) as harness:
        harness.process(("a", 1), timestamp=5)
        assert [timestamp for _, timestamp in harness.output_with_timestamps()] == [5]


@pytest.mark.parametrize("function", [Co, Broadcasting], ids=lambda f: f.__name__)
def test_clocks_go_on_in_the_next_epoch_on_another_worker(function: Any) -> None:
    """Nothing moves the clock in the second epoch: it must be the committed one, on both sides."""

    def build(env: Any, one: Any, two: Any) -> Any:
        strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda value, _: value[1])
        first, second = (s.assign_timestamps_and_watermarks(strategy).set_parallelism(1) for s in (one, two))
        if function is Broadcasting:
            second = second.broadcast(SHARED)
        return first.connect(second).process(function()).set_parallelism(1)

    with JobHarness(build, inputs=["one", "two"], parallelism=1, workers=2, placement=moving(2)) as job:
        job.epoch(one=[("a", 10)], two=[("b", 20)])
        job.epoch(one=[("a", 9)], two=[("b", 21)])
        assert sorted((record[0], record[2]) for record in job.output()) == [
            (("a", 9), 9),
            (("a", 10), MIN_TIME),
            (("b", 20), MIN_TIME),
            (("b", 21), 9),
        ]


# --- outputs


class Sorting(ProcessFunction):
    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Iterable[Any]:
        yield value if value % 2 == 0 else (ODD, value)


class KeyedSorting(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        ctx.timer_service().register_event_time_timer(value + 100)
        yield value if value % 2 == 0 else (ODD, value)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterable[Any]:
        yield ODD, -timestamp
        yield timestamp


def test_tagged_values_go_to_the_side_output() -> None:
    with OperatorHarness(Sorting()) as harness:
        for n in range(4):
            harness.process(n, timestamp=10 + n)
        assert harness.output_with_timestamps() == [(0, 10), (2, 12)]
        assert harness.side_output_with_timestamps(ODD) == [(1, 11), (3, 13)]


def sorted_by(kind: str, numbers: DataStream) -> DataStream:
    """As in PyFlink, where all of these are process functions behind the scenes."""

    def sort(n: int) -> Any:
        return n if n % 2 == 0 else (ODD, n)

    class Co(CoMapFunction):
        def map1(self, value: int) -> Any:
            return sort(value)

        def map2(self, value: int) -> Any:
            return sort(value)

    by_kind = {
        "map": lambda: numbers.map(sort),
        "typed map": lambda: numbers.map(sort, Types.LONG()),
        "keyed map": lambda: numbers.key_by(lambda n: n % 3).map(sort),
        "flat_map": lambda: numbers.flat_map(lambda n: [sort(n)], Types.LONG()),
        "co_map": lambda: numbers.connect(numbers.filter(lambda n: False)).map(Co()),
    }
    return by_kind[kind]()


@pytest.mark.parametrize("kind", ["map", "typed map", "keyed map", "flat_map", "co_map"])
def test_tagged_values_of_other_functions_go_to_a_side_output_that_is_read(kind: str) -> None:
    def build(_env: StreamExecutionEnvironment, numbers: DataStream) -> dict[str, DataStream]:
        both = sorted_by(kind, numbers)
        return {"even": both, "odd": both.get_side_output(ODD)}

    with JobHarness(build, inputs=["numbers"]) as job:
        job.epoch(numbers=[1, 2, 3, 4])
        job.epoch(numbers=[5])
        assert (sorted(job.output("even")), sorted(job.output("odd"))) == ([2, 4], [1, 3, 5])


def test_without_a_reader_they_are_records() -> None:
    assert run_local(lambda env: sorted_by("map", env.from_collection([1]))) == [(ODD, 1)]


def test_timers_have_side_outputs_too() -> None:
    with KeyedHarness(KeyedSorting(), key_selector=lambda n: n % 2) as harness:
        harness.process(4, timestamp=1)
        harness.process(5, timestamp=2)
        harness.watermark(200)
        assert harness.output_with_timestamps() == [(4, 1), (104, 104), (105, 105)]
        assert harness.side_output_with_timestamps(ODD) == [(5, 2), (-104, 104), (-105, 105)]


@pytest.mark.parametrize("result", [None, (), []], ids=["None", "tuple", "list"])
def test_a_function_may_emit_nothing(result: Any) -> None:
    class Silent(ProcessFunction):
        def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Any:
            return result

    with OperatorHarness(Silent()) as harness:
        harness.process(1)
        assert harness.output() == []


def test_a_function_may_return_a_list() -> None:
    class Twice(ProcessFunction):
        def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Any:
            return [value, value]

    with OperatorHarness(Twice()) as harness:
        harness.process(1)
        assert harness.output() == [1, 1]


# --- what is refused


METHODS = [
    "register_event_time_timer",
    "register_processing_time_timer",
    "delete_event_time_timer",
    "delete_processing_time_timer",
]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("sides", [1, 2])
def test_without_a_key_there_are_no_timers(method: str, sides: int) -> None:
    class One(ProcessFunction):
        def process_element(self, value: Any, ctx: ProcessFunction.Context) -> None:
            getattr(ctx.timer_service(), method)(1)

    class Two(CoProcessFunction):
        def process_element1(self, value: Any, ctx: CoProcessFunction.Context) -> None:
            getattr(ctx.timer_service(), method)(1)

        process_element2 = process_element1

    with OperatorHarness(One() if sides == 1 else Two()) as harness, pytest.raises(TidemillError, match=r"key_by\(\)"):
        harness.process("a", stream=sides)


def test_only_timers_have_a_time_domain() -> None:
    class Asking(KeyedProcessFunction):
        def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> None:
            ctx.time_domain()  # type: ignore[attr-defined]

    with KeyedHarness(Asking(), key_selector=0) as harness, pytest.raises(TidemillError, match="only inside on_timer"):
        harness.process(("a", 1))


def test_open_and_close_frame_the_life_of_a_function() -> None:
    calls: list[str] = []

    class Living(ProcessFunction):
        def open(self, runtime_context: RuntimeContext) -> None:
            self.calls = ["open"]

        def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Iterable[Any]:
            self.calls.append("process")
            yield list(self.calls)

        def close(self) -> None:
            self.calls.append("close")

    with OperatorHarness(Living()) as harness:
        harness.process(1)
        harness.checkpoint()
        harness.process(2)
        assert harness.output() == [["open", "process"], ["open", "process", "process"]]
        calls = harness.function.calls
    assert calls[-1] == "close"


class Closing(ProcessFunction):
    """Passes records on; raises in ``close`` until it may close."""

    def __init__(self, may_close: Path) -> None:
        self._may_close = may_close

    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Iterable[Any]:
        yield value

    def close(self) -> None:
        if not self._may_close.exists():
            raise RuntimeError("not written")


def test_a_job_whose_function_cannot_be_closed_does_not_finish(tmp_path: Path) -> None:
    """As in Flink: ``close`` is where a function finishes what it wrote."""
    may_close = tmp_path / "may close"
    with JobHarness(lambda env, numbers: numbers.process(Closing(may_close)), inputs=["numbers"]) as job:
        job.epoch(numbers=[1, 2])
        job.inputs["numbers"].add([3])
        with pytest.raises(UserCodeError, match=r"not written(.|\n)*raised in close\(\) of operator"):
            job.end()
        assert sorted(job.output()) == [1, 2]
        may_close.touch()
        job.restart()
        job.end()
        assert sorted(job.output()) == [1, 2, 3]


def test_a_function_that_cannot_be_closed_fails_only_the_end(tmp_path: Path) -> None:
    """A chain is also closed when its subtask moves: what it did is committed by then."""
    with JobHarness(lambda env, numbers: numbers.process(Closing(tmp_path / "never")), inputs=["numbers"]) as job:
        job.epoch(numbers=[1])
        job.rescale(3)
        job.epoch(numbers=[2])
        assert sorted(job.output()) == [1, 2]


def test_a_failing_record_is_named() -> None:
    class Failing(ProcessFunction):
        def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Iterable[Any]:
            yield 1 / value

    with OperatorHarness(Failing()) as harness, pytest.raises(TidemillError, match=r"ZeroDivisionError(.|\n)*record 0"):
        harness.process(0)
