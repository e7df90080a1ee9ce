"""Records are as they were when they were emitted, whatever is done with their objects afterwards."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from tidemill.common import Row, Time, Types, WatermarkStrategy
from tidemill.common.watermark_strategy import TimestampAssigner
from tidemill.connectors.collection import CollectionSource
from tidemill.connectors.sources import RecordBatch, Split, SplitEnumerator, SplitSource
from tidemill.datastream import (
    AsyncDataStream,
    AsyncFunction,
    CoMapFunction,
    DataStream,
    ErrorPolicy,
    FilterFunction,
    FlatMapFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapFunction,
    OutputTag,
    ProcessFunction,
    ProcessWindowFunction,
    SinkFunction,
    StreamExecutionEnvironment,
    TumblingEventTimeWindows,
    ValueStateDescriptor,
)
from tidemill.errors import TidemillError
from tidemill.testing import JobHarness, KeyedHarness, OperatorHarness

SIDE = OutputTag("side")


def run(build: Callable[..., Any], records: Iterable[Any], **options: Any) -> Any:
    """What a program makes of records, with and without an exchange behind what it builds."""
    with JobHarness(build, inputs=["records"], parallelism=1, **options) as job:
        job.epoch(records=records)
        job.end()
        return job.output() if isinstance(build, _One) else {name: job.output(name) for name in job._recordings}


class _One:
    """A program of one stream; its results may have to cross an exchange."""

    def __init__(self, build: Callable[[DataStream], DataStream], exchange: bool = False) -> None:
        self._build = build
        self._exchange = exchange

    def __call__(self, env: StreamExecutionEnvironment, records: DataStream) -> DataStream:
        made = self._build(records)
        return made.rebalance().map(lambda value: value) if self._exchange else made


def outcome(build: Callable[[DataStream], DataStream], records: Iterable[Any], **options: Any) -> list[Any]:
    records = list(records)
    found: list[Any] = run(_One(build), records, **options)
    assert run(_One(build, exchange=True), records, **options) == found
    return found


# --- a function that continues with what it emitted


class Buffered(FlatMapFunction):
    """Collects three records, yields them, and uses the list again."""

    def open(self, runtime_context: Any) -> None:
        self.buf: list[Any] = []

    def flat_map(self, value: Any) -> Iterable[Any]:
        self.buf.append(value)
        if len(self.buf) == 3:
            yield self.buf
            self.buf.clear()


class LocallyBuffered(FlatMapFunction):
    """The same in a variable, which is gone when the call is over."""

    def flat_map(self, value: int) -> Iterable[Any]:
        buf = []
        for n in range(value):
            buf.append(n)
            yield buf
        buf.clear()


class Paired(Buffered):
    """A list inside a tuple."""

    def flat_map(self, value: Any) -> Iterable[Any]:
        for buf in super().flat_map(value):
            yield "key", buf


class Reused(MapFunction):
    """Fills the same object for each record."""

    def __init__(self, make: Callable[[], Any], fill: Callable[[Any, Any], None]) -> None:
        self.make = make
        self.fill = fill

    def open(self, runtime_context: Any) -> None:
        self.object = self.make()

    def map(self, value: Any) -> Any:
        self.fill(self.object, value)
        return self.object


@dataclass
class Event:
    n: int = 0
    more: Any = None


class Slotted:
    __slots__ = ("n",)

    n: int

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Slotted) and other.n == self.n

    def __hash__(self) -> int:
        return 0


def fill_item(target: Any, value: Any) -> None:
    target["n"] = value


def fill_attribute(target: Any, value: Any) -> None:
    target.n = value


def fill_list(target: Any, value: Any) -> None:
    target[:] = [value]


def fill_nested(target: Any, value: Any) -> None:
    target["n"].append(value)
    del target["n"][:-1]


def slotted(n: int) -> Slotted:
    made = Slotted()
    made.n = n
    return made


REUSED: dict[str, tuple[Callable[[], Any], Callable[[Any, Any], None], Callable[[int], Any]]] = {
    "dict": (dict, fill_item, lambda n: {"n": n}),
    "list": (list, fill_list, lambda n: [n]),
    "Row": (lambda: Row(n=0), fill_item, lambda n: Row(n=n)),
    "dataclass": (Event, fill_attribute, Event),
    "slots": (Slotted, fill_attribute, slotted),
    "nested": (lambda: {"n": []}, fill_nested, lambda n: {"n": [n]}),
}


def test_a_buffer_that_is_cleared_behind_its_yield() -> None:
    assert outcome(lambda records: records.flat_map(Buffered()), range(6)) == [[0, 1, 2], [3, 4, 5]]
    assert outcome(lambda records: records.flat_map(Paired()), range(6)) == [("key", [0, 1, 2]), ("key", [3, 4, 5])]
    assert outcome(lambda records: records.flat_map(LocallyBuffered()), [1, 2]) == [[0], [0], [0, 1]]


@pytest.mark.parametrize("kind", REUSED)
def test_an_object_that_is_filled_again_for_each_record(kind: str) -> None:
    make, fill, expected = REUSED[kind]
    assert outcome(lambda records: records.map(Reused(make, fill)), range(4)) == [expected(n) for n in range(4)]
    keyed = outcome(lambda records: records.key_by(lambda n: n % 2).map(Reused(make, fill)), range(4))
    assert sorted(map(repr, keyed)) == sorted(repr(expected(n)) for n in range(4)) or kind == "slots"


def test_a_declared_type_does_not_hide_that_a_list_is_used_again() -> None:
    pair = Types.TUPLE([Types.LONG(), Types.LONG()])

    class Twice(Reused):
        def map(self, value: Any) -> Any:
            self.object[:] = [value, value]
            return self.object

    def build(records: DataStream) -> DataStream:
        return records.map(Twice(list, fill_list), output_type=pair)

    assert outcome(build, range(3)) == [(0, 0), (1, 1), (2, 2)]


class Both(ProcessFunction):
    """The same object to the main and to a side output, and changed in between."""

    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Iterable[Any]:
        event = {"n": value}
        yield event
        event["n"] = -value
        yield SIDE, event
        event["n"] = None


def test_an_object_in_the_main_and_in_a_side_output() -> None:
    def build(env: StreamExecutionEnvironment, records: DataStream) -> Mapping[str, DataStream]:
        both = records.process(Both())
        return {"main": both.map(marked), "side": both.get_side_output(SIDE).map(marked)}

    assert run(build, [1, 2]) == {
        "main": [{"n": 1, "marked": True}, {"n": 2, "marked": True}],
        "side": [{"n": -1, "marked": True}, {"n": -2, "marked": True}],
    }


def marked(event: dict[str, Any]) -> dict[str, Any]:
    event["marked"] = True
    return event


def test_an_object_that_is_emitted_twice() -> None:
    def numbered(env: StreamExecutionEnvironment, records: DataStream) -> DataStream:
        seen = records.flat_map(lambda event: [event, event])
        return seen.map(lambda event: event.setdefault("seen", []).append(1) or event)

    assert run(_One(lambda records: numbered(None, records)), [{"n": 1}]) == [{"n": 1, "seen": [1]}] * 2  # type: ignore[arg-type]


# --- several readers


def test_a_branch_that_changes_its_input() -> None:
    def build(env: StreamExecutionEnvironment, records: DataStream) -> Mapping[str, DataStream]:
        events = records.map(lambda n: {"n": n})
        return {
            "as it was": events,
            "marked": events.map(marked),
            "later": events.map(dict),
            "sent": events.rebalance().map(lambda event: event),
            "filtered": events.filter(lambda event: event.pop("n") is not None),
        }

    found = run(build, [1, 2])
    plain = [{"n": 1}, {"n": 2}]
    assert found["as it was"] == found["later"] == found["sent"] == plain
    assert found["marked"] == [{**event, "marked": True} for event in plain]
    assert found["filtered"] == [{}, {}]


class Marking(SinkFunction):
    seen: list[Any] = []  # noqa: RUF012 - of the class: the function itself is copied

    def invoke(self, value: Any, context: SinkFunction.Context) -> None:
        value["marked"] = True
        self.seen.append(value)


def test_a_sink_function_that_changes_its_input() -> None:
    def build(env: StreamExecutionEnvironment, records: DataStream) -> DataStream:
        events = records.map(lambda n: {"n": n})
        events.add_sink(Marking())
        return events

    with JobHarness(build, inputs=["records"], parallelism=1) as job:
        job.epoch(records=[1, 2])
        assert job.output() == [{"n": 1}, {"n": 2}]


def test_both_sides_of_a_connection_to_itself() -> None:
    class Sides(CoMapFunction):
        def map1(self, value: Any) -> Any:
            value["side"] = 1
            return value

        def map2(self, value: Any) -> Any:
            return value

    def build(records: DataStream) -> DataStream:
        events = records.map(lambda n: {"n": n})
        return events.connect(events).map(Sides())

    found = run(_One(build), [1])
    assert sorted(map(repr, found)) == ["{'n': 1, 'side': 1}", "{'n': 1}"]


# --- functions and state that keep what they emit


class Keeping(KeyedProcessFunction):
    """Emits the list that is in its state, then continues with it."""

    def open(self, runtime_context: Any) -> None:
        self.state = runtime_context.get_state(ValueStateDescriptor("all"))

    def process_element(self, value: int, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        kept = self.state.value() or []
        kept.append(value)
        self.state.update(kept)
        yield kept


class KeptInAttribute(KeyedProcessFunction):
    def open(self, runtime_context: Any) -> None:
        self.kept: list[Any] = []

    def process_element(self, value: int, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        self.kept.append(value)
        return [self.kept]


class KeptInput(KeyedProcessFunction):
    """Keeps its input in state, and emits it too."""

    def open(self, runtime_context: Any) -> None:
        self.state = runtime_context.get_list_state(ListStateDescriptor("all"))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        self.state.add(value)
        yield value
        yield len(list(self.state.get())), [dict(event) for event in self.state.get()]


@pytest.mark.parametrize("function", [Keeping, KeptInAttribute])
def test_what_is_emitted_and_kept(function: type[KeyedProcessFunction]) -> None:
    def build(records: DataStream) -> DataStream:
        return records.key_by(lambda n: 0).process(function()).map(lambda values: values.append("seen") or values)

    assert outcome(build, [1, 2, 3]) == [[1, "seen"], [1, 2, "seen"], [1, 2, 3, "seen"]]


def test_a_downstream_function_does_not_change_state() -> None:
    def build(records: DataStream) -> DataStream:
        kept = records.map(lambda n: {"n": n}).key_by(lambda event: 0).process(KeptInput())
        return kept.map(lambda out: out if isinstance(out, tuple) else marked(out))

    found = outcome(build, [1, 2])
    assert [out for out in found if isinstance(out, tuple)] == [(1, [{"n": 1}]), (2, [{"n": 1}, {"n": 2}])]


class Remembering(FilterFunction):
    """Keeps what it lets through, and changes it later."""

    def open(self, runtime_context: Any) -> None:
        self.last: Any = None

    def filter(self, value: Any) -> bool:
        if self.last is not None:
            self.last["over"] = True
        self.last = value
        return True


def test_a_filter_that_keeps_records() -> None:
    def build(records: DataStream) -> DataStream:
        return records.map(lambda n: {"n": n}).filter(Remembering()).map(marked)

    assert outcome(build, [1, 2, 3]) == [{"n": n, "marked": True} for n in (1, 2, 3)]


class Latest(KeyedCoProcessFunction):
    def open(self, runtime_context: Any) -> None:
        self.latest: dict[str, Any] = {}

    def process_element1(self, value: Any, ctx: Any) -> Iterable[Any]:
        self.latest["n"] = value
        yield self.latest

    def process_element2(self, value: Any, ctx: Any) -> Iterable[Any]:
        self.latest["other"] = value
        yield self.latest


def test_a_keyed_function_of_two_inputs() -> None:
    with KeyedHarness(
        lambda first, second: first.connect(second).process(Latest()), key_selector=lambda n: 0
    ) as harness:
        harness.process(1, stream=1)
        harness.process(2, stream=2)
        harness.process(3, stream=1)
        assert harness.output() == [{"n": 1}, {"n": 1, "other": 2}, {"n": 3, "other": 2}]


class Timed(KeyedProcessFunction):
    def open(self, runtime_context: Any) -> None:
        self.fired: list[int] = []

    def process_element(self, value: int, ctx: KeyedProcessFunction.Context) -> None:
        ctx.timer_service().register_event_time_timer(value)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterable[Any]:
        self.fired.append(timestamp)
        yield self.fired


class Stamp(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return int(value)


def stamped(records: DataStream) -> DataStream:
    return records.assign_timestamps_and_watermarks(
        WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Stamp())
    )


def test_what_timers_emit() -> None:
    found = outcome(lambda records: stamped(records).key_by(lambda n: 0).process(Timed()), [1, 2, 3])
    assert found == [[1], [1, 2], [1, 2, 3]]


class WindowBuffer(ProcessWindowFunction):
    """Yields a list of its own that it uses again, and elements that stay in the window."""

    def open(self, runtime_context: Any) -> None:
        self.buf: list[Any] = []

    def process(self, key: Any, context: Any, elements: Iterable[Any]) -> Iterable[Any]:
        self.buf.extend(elements)
        yield self.buf
        self.buf.clear()

    def clear(self, context: Any) -> None:
        pass


def test_what_window_functions_emit() -> None:
    def build(records: DataStream) -> DataStream:
        windows = stamped(records).key_by(lambda n: 0).window(TumblingEventTimeWindows.of(Time.milliseconds(2)))
        return windows.process(WindowBuffer())

    assert outcome(build, [0, 1, 2, 3]) == [[0, 1], [2, 3]]


def test_what_reduce_emits_is_not_its_state() -> None:
    def add(first: Any, second: Any) -> Any:
        first["n"] += second["n"]
        return first

    def build(records: DataStream) -> DataStream:
        events = records.map(lambda n: {"k": 0, "n": n})
        return events.key_by(lambda event: event["k"]).reduce(add).map(marked)

    assert outcome(build, [1, 2, 3]) == [{"k": 0, "n": n, "marked": True} for n in (1, 3, 6)]


def test_what_a_built_in_sum_emits_is_not_its_state() -> None:
    def drop(event: Any) -> Any:
        return event.pop("n")

    def build(records: DataStream) -> DataStream:
        return records.map(lambda n: {"k": 0, "n": n}).key_by("k").sum("n").map(drop)

    assert outcome(build, [1, 2, 3]) == [1, 3, 6]


class AsyncBuffer(AsyncFunction):
    def open(self, runtime_context: Any) -> None:
        self.buf: list[Any] = []

    async def async_invoke(self, value: int) -> list[Any]:
        self.buf.append(value)
        return [self.buf]


def test_what_async_functions_emit() -> None:
    def build(records: DataStream) -> DataStream:
        return AsyncDataStream.ordered_wait(records, AsyncBuffer(), Time.seconds(60), 1)

    assert outcome(build, [1, 2, 3]) == [[1], [1, 2], [1, 2, 3]]


def test_map_batch() -> None:
    def build(records: DataStream) -> DataStream:
        return records.map_batch(lambda values: [values] * len(values)).map(lambda values: values.pop())

    assert outcome(build, [1, 2, 3]) == [3, 3, 3]


# --- records that come again


def test_a_record_that_comes_again_is_as_it_was() -> None:
    def add(event: dict[str, int]) -> dict[str, int]:
        event["n"] += 100
        if event["n"] == 103:
            raise ValueError("three")
        return event

    def build(env: StreamExecutionEnvironment, records: DataStream) -> Mapping[str, DataStream]:
        added = records.map(lambda n: {"n": n}).map(add).on_error(ErrorPolicy.side_output(SIDE))
        return {"good": added, "bad": added.get_side_output(SIDE)}

    found = run(build, [1, 2, 3, 4])
    assert found["good"] == [{"n": 101}, {"n": 102}, {"n": 104}]
    assert [poison.value for poison in found["bad"]] == [{"n": 3}]


# --- functions whose records change their type


class Alternating(FlatMapFunction):
    """Emits numbers until a list is due."""

    def open(self, runtime_context: Any) -> None:
        self.buf: list[Any] = []

    def flat_map(self, value: int) -> Iterable[Any]:
        if value < 100:
            yield value
            return
        self.buf.append(value)
        yield "list", self.buf
        self.buf.clear()


@pytest.mark.parametrize("with_policy", [False, True])
def test_an_operator_that_emits_lists_only_later(with_policy: bool) -> None:
    def build(env: StreamExecutionEnvironment, records: DataStream) -> DataStream:
        made = records.flat_map(Alternating()).uid("alternating")
        return made.on_error(ErrorPolicy.skip()) if with_policy else made

    with JobHarness(build, inputs=["records"], parallelism=1) as job:
        job.epoch(records=[1, 2])
        job.epoch(records=[3, 100, 101])
        assert job.output() == [1, 2, 3, ("list", [100]), ("list", [101])]
        job.epoch(records=[4, 102])
        job.restart()
        job.epoch(records=[5])
        job.epoch(records=[103])
        assert job.output()[5:] == [4, ("list", [102]), 5, ("list", [103])]


# --- object reuse


def test_object_reuse_hands_objects_on_as_they_are() -> None:
    reuse = {"configuration": {"pipeline.object-reuse": "true"}}
    assert run(_One(lambda records: records.flat_map(Buffered())), range(6), **reuse) == [[], []]


class Locked:
    """Cannot be copied."""

    def __init__(self) -> None:
        self.lock = threading.Lock()


class Sharing(MapFunction):
    def open(self, runtime_context: Any) -> None:
        self.locked = Locked()

    def map(self, value: Any) -> Any:
        return self.locked


def test_what_cannot_be_copied_is_an_error_that_says_what_to_do() -> None:
    with (
        OperatorHarness(lambda stream: stream.map(Sharing()).name("sharing")) as harness,
        pytest.raises(
            TidemillError, match=r"Locked cannot be copied .*operator 'sharing'.*pipeline\.object-reuse: true"
        ),
    ):
        harness.process(1)


# --- what sources read


class Refilled(SplitSource):
    """Fills the same object for each batch."""

    bounded = True
    replayable = True

    def create_enumerator(self, position: Any) -> SplitEnumerator:
        return CollectionSource([0, 1, 2]).create_enumerator(position)

    def read(self, split: Split) -> Iterator[RecordBatch]:
        event = {"n": 0}
        for number in split.payload:
            event["n"] = number
            yield RecordBatch([event])


def test_a_source_that_fills_the_same_object_again() -> None:
    def build(env: StreamExecutionEnvironment) -> Mapping[str, DataStream]:
        events = env.from_source(Refilled(), WatermarkStrategy.no_watermarks(), "events")
        return {"sent": events.rebalance().map(lambda event: event), "kept": events.key_by(lambda e: 0).map(Kept())}

    with JobHarness(build, parallelism=1) as job:
        job.run()
        assert job.output("sent") == [{"n": 0}, {"n": 1}, {"n": 2}]
        assert job.output("kept")[-1] == [{"n": 0}, {"n": 1}, {"n": 2}]


class Kept(MapFunction):
    def open(self, runtime_context: Any) -> None:
        self.all = runtime_context.get_list_state(ListStateDescriptor("all"))

    def map(self, value: Any) -> Any:
        self.all.add(value)
        return list(self.all.get())


def test_an_object_that_is_in_a_collection_several_times() -> None:
    inner: list[Any] = []

    def build(env: StreamExecutionEnvironment) -> Mapping[str, DataStream]:
        return {
            "same": env.from_collection([{"n": 1}] * 3).map(lambda event: event.update(n=event["n"] + 1) or event),
            "inside": env.from_collection([(1, inner), (2, inner)]).map(lambda pair: pair[1].append(pair[0]) or pair),
        }

    with JobHarness(build, parallelism=1) as job:
        job.run()
        assert job.output("same") == [{"n": 2}] * 3
        assert job.output("inside") == [(1, [1]), (2, [2])]
    assert run(_One(lambda records: records.map(marked)), [{"n": 1}] * 2) == [{"n": 1, "marked": True}] * 2


class SharedFields(MapFunction):
    """A new object for each record, whose fields are in a dict that it keeps."""

    def open(self, runtime_context: Any) -> None:
        self.fields: dict[str, Any] = {}

    def map(self, value: Any) -> Any:
        event = Event()
        self.fields["n"] = value
        event.__dict__ = self.fields
        return event


def test_fields_that_something_else_holds() -> None:
    assert outcome(lambda records: records.map(SharedFields()).map(lambda event: event.n), [1, 2]) == [1, 2]


class Pooled:
    """Its records share a list of the class."""

    shared: list[int] = []  # noqa: RUF012 - what is tested

    def __init__(self, n: int) -> None:
        self.n = n

    def pooled(self) -> list[int]:
        self.shared.append(self.n)
        return self.shared


def test_attributes_of_a_record_may_be_those_of_its_class() -> None:
    def build(env: StreamExecutionEnvironment, numbers: DataStream) -> DataStream:
        return numbers.map(Pooled).map(lambda record: record.pooled())

    with JobHarness(build, inputs=["numbers"], parallelism=1) as job:
        job.epoch(numbers=[1, 2, 3])
        assert job.output() == [[1], [1, 2], [1, 2, 3]]
