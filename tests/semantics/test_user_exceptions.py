"""Whatever a user function raises, and whichever function it is: the job fails at that record, or puts it aside."""

from __future__ import annotations

import random
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tidemill.common import Time, Types, WatermarkStrategy
from tidemill.common.serialization import Encoder
from tidemill.common.watermark_strategy import TimestampAssigner, WatermarkGenerator
from tidemill.connectors.sinks import Committer, Sink, SinkWriter
from tidemill.datastream import (
    AggregateFunction,
    AsyncDataStream,
    AsyncFunction,
    BroadcastProcessFunction,
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    CountTrigger,
    DataStream,
    ErrorPolicy,
    EventTimeSessionWindows,
    EventTimeTrigger,
    FlatMapFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    KeySelector,
    MapStateDescriptor,
    OutputTag,
    Partitioner,
    ProcessFunction,
    ProcessJoinFunction,
    ProcessWindowFunction,
    RuntimeContext,
    SessionWindowTimeGapExtractor,
    SinkFunction,
    SlidingEventTimeWindows,
    StreamExecutionEnvironment,
    TumblingEventTimeWindows,
    ValueStateDescriptor,
)
from tidemill.datastream.connectors.file_system import BucketAssigner, FileSink
from tidemill.datastream.window import Evictor
from tidemill.errors import TidemillError, UserCodeError
from tidemill.testing import JobHarness

COUNT = 12
BAD = OutputTag("bad")


class UnpicklableError(Exception):
    """Can neither be pickled nor shown."""

    def __init__(self) -> None:
        super().__init__(lambda: None)
        self.file = iter(())

    def __reduce__(self) -> Any:
        raise TypeError("never pickled")

    def __str__(self) -> str:
        raise ValueError("has no text")


def recurse(value: Any) -> Any:
    return recurse(value) + 1


#: By name: what makes a function raise.
RAISED: dict[str, Callable[[], Any]] = {
    "StopIteration": lambda: next(iter([])),
    "StopAsyncIteration": lambda: _raise(StopAsyncIteration()),
    "GeneratorExit": lambda: _raise(GeneratorExit()),
    "KeyboardInterrupt": lambda: _raise(KeyboardInterrupt()),
    "SystemExit": lambda: sys.exit(0),
    "RecursionError": lambda: recurse(1),
    "MemoryError": lambda: _raise(MemoryError()),
    "UnpicklableError": lambda: _raise(UnpicklableError()),
    "ValueError": lambda: _raise(ValueError("no")),
}
#: No fault of the record, whatever the policy.
FATAL = {"GeneratorExit", "KeyboardInterrupt", "SystemExit", "MemoryError"}


def _raise(error: BaseException) -> None:
    raise error


class Trouble:
    """Raises at one record."""

    def __init__(self, kind: str, at: int) -> None:
        self.kind = kind
        self.at = at

    def __call__(self, value: Any) -> Any:
        if value == self.at:
            RAISED[self.kind]()
        return value


class Generating(FlatMapFunction):
    def __init__(self, trouble: Trouble) -> None:
        self.trouble = trouble

    def flat_map(self, value: Any) -> Iterator[Any]:
        yield value
        yield self.trouble(value)


class Process(ProcessFunction):
    def __init__(self, trouble: Trouble) -> None:
        self.trouble = trouble

    def process_element(self, value: Any, ctx: Any) -> Iterable[Any]:
        yield self.trouble(value)


class KeyedProcess(KeyedProcessFunction):
    def __init__(self, trouble: Trouble) -> None:
        self.trouble = trouble

    def process_element(self, value: Any, ctx: Any) -> Iterable[Any]:
        yield self.trouble(value)


class OnTimer(KeyedProcessFunction):
    def __init__(self, trouble: Trouble) -> None:
        self.trouble = trouble

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> None:
        ctx.timer_service().register_event_time_timer(value)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterable[Any]:
        return [self.trouble(timestamp)]


class Sides(CoMapFunction, CoFlatMapFunction):
    def __init__(self, trouble: Trouble) -> None:
        self.trouble = trouble

    def map1(self, value: Any) -> Any:
        return self.trouble(value)

    def map2(self, value: Any) -> Any:
        return value

    def flat_map1(self, value: Any) -> Iterable[Any]:
        return [value]

    def flat_map2(self, value: Any) -> Iterable[Any]:
        return [self.trouble(value)]


class CoProcess(CoProcessFunction):
    def __init__(self, trouble: Trouble) -> None:
        self.trouble = trouble

    def process_element1(self, value: Any, ctx: Any) -> Iterable[Any]:
        return [value]

    def process_element2(self, value: Any, ctx: Any) -> Iterable[Any]:
        yield self.trouble(value)


class KeyedCoProcess(KeyedCoProcessFunction):
    def __init__(self, trouble: Trouble) -> None:
        self.trouble = trouble

    def process_element1(self, value: Any, ctx: Any) -> Iterable[Any]:
        yield self.trouble(value)

    def process_element2(self, value: Any, ctx: Any) -> Iterable[Any]:
        return [value]


class Broadcasting(BroadcastProcessFunction):
    def __init__(self, data: Trouble | None, broadcast: Trouble | None) -> None:
        self.data = data
        self.broadcast = broadcast

    def process_element(self, value: Any, ctx: Any) -> Iterable[Any]:
        return [value if self.data is None else self.data(value)]

    def process_broadcast_element(self, value: Any, ctx: Any) -> Iterable[Any]:
        return [value if self.broadcast is None else self.broadcast(value)]


class KeyedBroadcasting(KeyedBroadcastProcessFunction):
    def __init__(self, trouble: Trouble) -> None:
        self.trouble = trouble

    def process_element(self, value: Any, ctx: Any) -> Iterable[Any]:
        return [self.trouble(value)]

    def process_broadcast_element(self, value: Any, ctx: Any) -> Iterable[Any]:
        return []


class Sum(AggregateFunction):
    def __init__(self, trouble: Trouble) -> None:
        self.trouble = trouble

    def create_accumulator(self) -> int:
        return 0

    def add(self, value: int, accumulator: int) -> int:
        return accumulator + int(self.trouble(value))

    def get_result(self, accumulator: int) -> int:
        return accumulator

    def merge(self, acc_a: int, acc_b: int) -> int:
        return acc_a + acc_b


class Window(ProcessWindowFunction):
    def __init__(self, trouble: Trouble) -> None:
        self.trouble = trouble

    def process(self, key: Any, context: Any, elements: Iterable[Any]) -> Iterable[Any]:
        return [self.trouble(element) for element in elements]

    def clear(self, context: Any) -> None:
        pass


class Firing(EventTimeTrigger):
    def __init__(self, trouble: Trouble) -> None:
        self.trouble = trouble

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: Any) -> Any:
        self.trouble(element)
        return super().on_element(element, timestamp, window, ctx)


class Evicting(Evictor):
    def __init__(self, trouble: Trouble) -> None:
        self.trouble = trouble

    def evict_before(self, elements: Any, size: int, window: Any, evictor_context: Any) -> None:
        for element in elements:
            self.trouble(element.value)

    def evict_after(self, elements: Any, size: int, window: Any, evictor_context: Any) -> None:
        pass


class Gap(SessionWindowTimeGapExtractor):
    def __init__(self, trouble: Trouble) -> None:
        self.trouble = trouble

    def extract(self, element: Any) -> int:
        self.trouble(element)
        return 2


class Stamp(TimestampAssigner):
    def __init__(self, trouble: Trouble | None = None) -> None:
        self.trouble = trouble

    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        if self.trouble is not None:
            self.trouble(value)
        return int(value)


class OnEvent(WatermarkGenerator):
    def __init__(self, trouble: Trouble) -> None:
        self.trouble = trouble

    def on_event(self, value: Any, event_timestamp: int, output: Any) -> None:
        self.trouble(value)

    def on_periodic_emit(self, output: Any) -> None:
        pass


class Choosing(Partitioner, KeySelector):
    def __init__(self, trouble: Trouble) -> None:
        self.trouble = trouble

    def get_key(self, value: Any) -> Any:
        return self.trouble(value)

    def partition(self, key: Any, num_partitions: int) -> int:
        return int(self.trouble(key)) % num_partitions


class Pair(ProcessJoinFunction):
    def __init__(self, trouble: Trouble) -> None:
        self.trouble = trouble

    def process_element(self, left: Any, right: Any, ctx: Any) -> Iterable[Any]:
        yield self.trouble(right)


class Asking(AsyncFunction):
    def __init__(self, trouble: Trouble) -> None:
        self.trouble = trouble

    async def async_invoke(self, value: Any) -> list[Any]:
        return [self.trouble(value)]


class Invoking(SinkFunction):
    def __init__(self, trouble: Trouble) -> None:
        self.trouble = trouble

    def invoke(self, value: Any, context: SinkFunction.Context) -> None:
        self.trouble(value)


class Bucket(BucketAssigner):
    def __init__(self, trouble: Trouble) -> None:
        self.trouble = trouble

    def get_bucket_id(self, value: Any, timestamp: int | None, processing_time: int) -> str:
        return f"bucket-{self.trouble(value) % 2}"


class Encoding(Encoder[Any]):
    def __init__(self, trouble: Trouble) -> None:
        self.trouble = trouble

    def encode(self, element: Any, stream: Any) -> None:
        stream.write(b"%d\n" % self.trouble(element))


def stamped(numbers: DataStream, stamp: Stamp | None = None) -> DataStream:
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(stamp or Stamp())
    return numbers.assign_timestamps_and_watermarks(strategy)


def keyed(numbers: DataStream) -> Any:
    return numbers.key_by(lambda n: n % 2)


def timed(numbers: DataStream) -> Any:
    return keyed(stamped(numbers))


def same(value: Any) -> Any:
    return value


def tumbling() -> TumblingEventTimeWindows:
    return TumblingEventTimeWindows.of(Time.milliseconds(5))


Build = Callable[[DataStream, Trouble], DataStream]
RULES = MapStateDescriptor("rules", Types.LONG(), Types.LONG())

#: Functions that are called with a record, which the error shows.
AT_RECORD: dict[str, Build] = {
    "map": lambda numbers, trouble: numbers.map(trouble),
    "filter": lambda numbers, trouble: numbers.filter(lambda n: trouble(n) >= 0),
    "flat_map": lambda numbers, trouble: numbers.flat_map(lambda n: [trouble(n)]),
    "flat_map that yields": lambda numbers, trouble: numbers.flat_map(Generating(trouble)),
    "process": lambda numbers, trouble: numbers.process(Process(trouble)),
    "keyed map": lambda numbers, trouble: keyed(numbers).map(trouble),
    "keyed filter": lambda numbers, trouble: keyed(numbers).filter(lambda n: trouble(n) >= 0),
    "keyed flat_map": lambda numbers, trouble: keyed(numbers).flat_map(lambda n: [trouble(n)]),
    "keyed process": lambda numbers, trouble: keyed(numbers).process(KeyedProcess(trouble)),
    "timed process": lambda numbers, trouble: timed(numbers).process(KeyedProcess(trouble)),
    "reduce": lambda numbers, trouble: keyed(numbers).reduce(lambda a, b: a + trouble(b)),
    "co-map": lambda numbers, trouble: numbers.connect(numbers.map(same)).map(Sides(trouble)),
    "co-flat_map": lambda numbers, trouble: numbers.connect(numbers.map(same)).flat_map(Sides(trouble)),
    "co-process": lambda numbers, trouble: numbers.connect(numbers.map(same)).process(CoProcess(trouble)),
    "keyed co-process": lambda numbers, trouble: (
        keyed(numbers).connect(keyed(numbers.map(same))).process(KeyedCoProcess(trouble))
    ),
    "broadcast data": lambda numbers, trouble: numbers.connect(numbers.map(same).broadcast(RULES)).process(
        Broadcasting(trouble, None)
    ),
    "broadcast rules": lambda numbers, trouble: numbers.connect(numbers.map(same).broadcast(RULES)).process(
        Broadcasting(None, trouble)
    ),
    "keyed broadcast": lambda numbers, trouble: (
        keyed(numbers).connect(numbers.map(same).broadcast(RULES)).process(KeyedBroadcasting(trouble))
    ),
    "window aggregate": lambda numbers, trouble: timed(numbers).window(tumbling()).aggregate(Sum(trouble)),
    "sliding aggregate": lambda numbers, trouble: (
        timed(numbers)
        .window(SlidingEventTimeWindows.of(Time.milliseconds(4), Time.milliseconds(2)))
        .aggregate(Sum(trouble))
    ),
    "sessions": lambda numbers, trouble: (
        timed(numbers).window(EventTimeSessionWindows.with_gap(Time.milliseconds(3))).aggregate(Sum(trouble))
    ),
    "session gaps": lambda numbers, trouble: (
        timed(numbers).window(EventTimeSessionWindows.with_dynamic_gap(Gap(trouble))).reduce(lambda a, b: a + b)
    ),
    "trigger": lambda numbers, trouble: (
        timed(numbers).window(tumbling()).trigger(Firing(trouble)).reduce(lambda a, b: a + b)
    ),
    "timestamps": lambda numbers, trouble: stamped(numbers, Stamp(trouble)),
    "watermarks": lambda numbers, trouble: numbers.assign_timestamps_and_watermarks(
        WatermarkStrategy.for_generator(lambda context: OnEvent(trouble)).with_timestamp_assigner(Stamp())
    ),
    "key selector": lambda numbers, trouble: numbers.key_by(trouble).map(same),
    "KeySelector": lambda numbers, trouble: numbers.key_by(Choosing(trouble)).map(same),
    "async": lambda numbers, trouble: AsyncDataStream.unordered_wait(numbers, Asking(trouble), Time.seconds(60), 4),
}

#: Functions that see several records, a key or a time: the error names the operator and the function's line.
AT_OPERATOR: dict[str, Build] = {
    "map_batch": lambda numbers, trouble: numbers.map_batch(lambda values: [trouble(value) for value in values]),
    "on_timer": lambda numbers, trouble: timed(numbers).process(OnTimer(trouble)),
    "window function": lambda numbers, trouble: timed(numbers).window(tumbling()).process(Window(trouble)),
    "evictor": lambda numbers, trouble: (
        timed(numbers).window(tumbling()).evictor(Evicting(trouble)).reduce(lambda a, b: a + b)
    ),
    "count trigger": lambda numbers, trouble: (
        timed(numbers).window(tumbling()).trigger(CountTrigger.of(1)).process(Window(trouble))
    ),
    "partitioner": lambda numbers, trouble: numbers.partition_custom(Choosing(trouble), same).map(same),
    "interval join": lambda numbers, trouble: (
        timed(numbers)
        .interval_join(timed(numbers.map(same)))
        .between(Time.milliseconds(0), Time.milliseconds(0))
        .process(Pair(trouble))
    ),
    "window join": lambda numbers, trouble: (
        stamped(numbers)
        .join(stamped(numbers.map(same)))
        .where(same)
        .equal_to(trouble)
        .window(tumbling())
        .apply(lambda a, b: a)
    ),
}

#: Sinks, which have no output to look at.
SINKS: dict[str, Callable[[DataStream, Trouble, Path], Any]] = {
    "sink function": lambda numbers, trouble, path: numbers.add_sink(Invoking(trouble)),
    "timed sink function": lambda numbers, trouble, path: stamped(numbers).add_sink(Invoking(trouble)),
    "bucket assigner": lambda numbers, trouble, path: numbers.sink_to(
        FileSink.for_row_format(path, Encoder.simple_string_encoder()).with_bucket_assigner(Bucket(trouble)).build()
    ),
    "encoder": lambda numbers, trouble, path: numbers.sink_to(FileSink.for_row_format(path, Encoding(trouble)).build()),
}


def place(*what: str) -> int:
    """A record that depends on the case alone."""
    return random.Random("/".join(what)).randrange(3, COUNT)


def failure_of(build: Callable[..., Any]) -> TidemillError:
    def run(job: JobHarness) -> None:
        job.epoch(numbers=range(COUNT))
        job.end()

    with JobHarness(build, inputs=["numbers"]) as job, pytest.raises(TidemillError) as failed:
        run(job)
    return failed.value


def check(error: TidemillError, raised: str, names: str) -> None:
    text = str(error)
    assert raised in text
    assert names in text
    assert "test_user_exceptions.py" in text, "the user's line"
    if error.site is not None and raised != "UnpicklableError":
        assert error.site.exception in (raised, "SerializationError")


@pytest.mark.parametrize("raised", RAISED)
@pytest.mark.parametrize("kind", AT_RECORD)
def test_a_function_that_raises_fails_the_job_at_its_record(kind: str, raised: str) -> None:
    at = place(kind, raised)
    error = failure_of(lambda env, numbers: AT_RECORD[kind](numbers, Trouble(raised, at)))
    check(error, raised, f"record {at}")


@pytest.mark.parametrize("raised", RAISED)
@pytest.mark.parametrize("kind", AT_OPERATOR)
def test_a_function_of_several_records_that_raises_fails_the_job(kind: str, raised: str) -> None:
    error = failure_of(lambda env, numbers: AT_OPERATOR[kind](numbers, Trouble(raised, place(kind, raised))))
    check(error, raised, "operator" if kind != "window join" else "raised in")


@pytest.mark.parametrize("raised", RAISED)
@pytest.mark.parametrize("kind", SINKS)
def test_a_sink_that_raises_fails_the_job_at_its_record(kind: str, raised: str, tmp_path: Path) -> None:
    at = place(kind, raised)

    def build(env: StreamExecutionEnvironment, numbers: DataStream) -> None:
        SINKS[kind](numbers, Trouble(raised, at), tmp_path)

    check(failure_of(build), raised, f"record {at}")


GUARDED = [
    "map",
    "filter",
    "flat_map that yields",
    "process",
    "keyed map",
    "keyed process",
    "reduce",
    "co-map",
    "window aggregate",
    "sessions",
]


@pytest.mark.parametrize("raised", RAISED)
@pytest.mark.parametrize("kind", GUARDED)
def test_a_policy_puts_the_record_aside_or_the_job_fails(kind: str, raised: str) -> None:
    at = place(kind, raised)

    def build(env: StreamExecutionEnvironment, numbers: DataStream) -> dict[str, DataStream]:
        guarded = AT_RECORD[kind](numbers, Trouble(raised, at)).on_error(ErrorPolicy.side_output(BAD))
        return {"good": guarded, "bad": guarded.get_side_output(BAD)}

    if raised in FATAL:
        check(failure_of(build), raised, f"record {at}")
        return
    with JobHarness(build, inputs=["numbers"]) as job:
        job.epoch(numbers=range(COUNT))
        job.end()
        (poison,) = job.output("bad")
        assert poison.value == at
        if kind in ("map", "filter", "process", "keyed map", "keyed process"):
            assert sorted(job.output("good")) == [n for n in range(COUNT) if n != at]


class Opening(Process):
    def open(self, runtime_context: Any) -> None:
        self.trouble(-1)


@pytest.mark.parametrize("raised", RAISED)
def test_open_that_raises_names_the_operator(raised: str) -> None:
    error = failure_of(lambda env, numbers: numbers.process(Opening(Trouble(raised, -1))).name("opening"))
    check(error, raised, "open() of operator 'opening'")


class Reading:
    """A record with a property that raises."""

    def __init__(self, value: int, trouble: Trouble) -> None:
        self.value = value
        self._trouble = trouble

    @property
    def key(self) -> int:
        return int(self._trouble(self.value))


@pytest.mark.parametrize("raised", RAISED)
def test_a_property_that_is_the_key(raised: str) -> None:
    trouble = Trouble(raised, place(raised))
    error = failure_of(lambda env, numbers: numbers.map(lambda n: Reading(n, trouble)).key_by("key").map(same))
    assert raised in str(error)
    assert "key" in str(error)


class Storing:
    """A value that raises when it is stored."""

    def __init__(self, trouble: Trouble) -> None:
        self._trouble = trouble

    def __getstate__(self) -> Any:
        return self._trouble(0)


class Keeping(KeyedProcessFunction):
    def __init__(self, trouble: Trouble) -> None:
        self.trouble = trouble

    def open(self, runtime_context: RuntimeContext) -> None:
        self.state = runtime_context.get_state(ValueStateDescriptor("kept"))

    def process_element(self, value: Any, ctx: Any) -> None:
        self.state.update(Storing(self.trouble))


@pytest.mark.parametrize("raised", RAISED)
def test_a_value_that_raises_when_it_is_stored(raised: str) -> None:
    error = failure_of(lambda env, numbers: keyed(numbers).process(Keeping(Trouble(raised, 0))).name("keeping"))
    assert raised in str(error)
    assert "state 'kept' of operator 'keeping'" in str(error)


@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_stays_what_it_is() -> None:
    def interrupted(value: int) -> int:
        if value == 5:
            signal.raise_signal(signal.SIGINT)
        return value

    def build(env: StreamExecutionEnvironment, numbers: DataStream) -> DataStream:
        return numbers.map(interrupted)

    with JobHarness(build, inputs=["numbers"]) as job, pytest.raises(KeyboardInterrupt):
        job.epoch(numbers=range(COUNT))


def test_what_is_said_of_sys_exit() -> None:
    error = failure_of(lambda env, numbers: numbers.map(Trouble("SystemExit", 3)))
    assert isinstance(error, UserCodeError)
    assert "A function cannot end its process with SystemExit: the job fails instead" in str(error)


class Committing(Sink):
    """Its committer raises."""

    def __init__(self, raised: str) -> None:
        self.raised = raised

    def create_writer(self, subtask: int, parallelism: int) -> SinkWriter:
        return _Writer()

    def create_committer(self) -> Committer:
        return _Committer(self.raised)


class _Writer(SinkWriter):
    def write(self, values: list[Any], timestamps: list[int] | None) -> None:
        pass

    def prepare_commit(self) -> list[bytes]:
        return [b"all"]


class _Committer(Committer):
    def __init__(self, raised: str) -> None:
        self.raised = raised

    def commit(self, committed: Any) -> None:
        RAISED[self.raised]()


@pytest.mark.parametrize("raised", RAISED)
def test_a_committer_that_raises_does_not_end_the_driver(raised: str) -> None:
    def build(env: StreamExecutionEnvironment, numbers: DataStream) -> None:
        numbers.sink_to(Committing(raised)).name("committing")

    check(failure_of(build), raised, "commit() of the committer of sink 'committing'")
