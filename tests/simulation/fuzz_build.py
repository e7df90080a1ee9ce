"""Builds a fuzzed program with the API."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.simulation import fuzz_functions as functions
from tests.simulation.fuzz_program import Case, Node, leaves, sources
from tests.simulation.fuzz_records import KeyOf, key_of, parts, type_of
from tidemill.common import Duration, Types, Watermark, WatermarkGenerator, WatermarkStrategy
from tidemill.common.watermark_strategy import TimestampAssigner
from tidemill.datastream import (
    ContinuousEventTimeTrigger,
    CountEvictor,
    CountTrigger,
    DataStream,
    ErrorPolicy,
    EventTimeSessionWindows,
    EventTimeTrigger,
    KeyedStream,
    OutputTag,
    PurgingTrigger,
    SlidingEventTimeWindows,
    StreamExecutionEnvironment,
    TimeEvictor,
    TumblingEventTimeWindows,
)

TAGS = {tag: OutputTag(tag) for tag in ("late", "left", "right", "bad")} | {"side": functions.SIDE}


class Times(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return int(value[3])


class Punctuated(WatermarkGenerator):
    """A watermark after each record whose number is a multiple of ``every``."""

    def __init__(self, bound: int, every: int) -> None:
        self.bound, self.every = bound, every

    def on_event(self, event: Any, event_timestamp: int, output: Any) -> None:
        if parts(event)[1] % self.every == 0:
            output.emit_watermark(Watermark(event_timestamp - self.bound - 1))

    def on_periodic_emit(self, output: Any) -> None:
        pass


class Supplier:
    def __init__(self, bound: int, every: int) -> None:
        self.bound, self.every = bound, every

    def __call__(self) -> Punctuated:
        return Punctuated(self.bound, self.every)


def builder(case: Case) -> Callable[..., dict[str, DataStream]]:
    """A function that builds the case's program for a harness with the inputs ``in0``, ``in1``, ..."""

    def build(env: StreamExecutionEnvironment, **inputs: DataStream) -> dict[str, DataStream]:
        if not case.settings["chaining"]:
            env.disable_operator_chaining()
        streams: list[DataStream] = []
        given = {number: inputs[f"in{place}"] for place, number in enumerate(sources(case.program))}
        for number, node in enumerate(case.program):
            streams.append(_add(node, number, [streams[one] for one in node.inputs], given.get(number)))
        # Keyed at the end, so that the records of a key stay in order whatever the parallelism of the sink.
        return {
            f"out{number}": streams[number]
            .key_by(key_of, Types.STRING())
            .process(functions.PassOn())
            .uid(f"end-{number}")
            for number in leaves(case.program)
        }

    return build


def _add(node: Node, number: int, inputs: list[DataStream], given: DataStream | None) -> DataStream:
    if node.kind == "source":
        return _source(node, number, given)
    stream: DataStream = globals()[f"_{node.kind}"](node, *inputs)
    if node.kind == "union":
        return stream
    stream = stream.uid(f"{node.kind}-{number}")
    if node["p"] is not None:
        stream = stream.set_parallelism(node["p"])
    if node["policy"] == "skip":
        stream = stream.on_error(ErrorPolicy.skip())
    elif node["policy"] == "side":
        stream = stream.on_error(ErrorPolicy.side_output(TAGS["bad"]))
    return stream


def _typed(node: Node) -> Any:
    return type_of(node["form"], typed=node["typed"])


def _source(node: Node, number: int, given: DataStream | None) -> DataStream:
    assert given is not None
    if node["punctuated"]:
        strategy = WatermarkStrategy.for_generator(Supplier(node["bound"], node["punctuated"]))
    else:
        strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(node["bound"]))
    timed = given.assign_timestamps_and_watermarks(strategy.with_timestamp_assigner(Times())).uid(f"times-{number}")
    formed = timed.map(functions.ToForm(node), output_type=_typed(node)).uid(f"source-{number}")
    if not node["dealt"]:
        timed.set_parallelism(1)
        formed.set_parallelism(1)
    return formed


# --- one input


def _map(node: Node, stream: DataStream) -> DataStream:
    return stream.map(functions.Change(node), output_type=_typed(node))


def _rekey(node: Node, stream: DataStream) -> DataStream:
    return stream.map(functions.Rekey(node), output_type=_typed(node))


def _flat_map(node: Node, stream: DataStream) -> DataStream:
    return stream.flat_map(functions.Several(node), output_type=_typed(node))


def _filter(node: Node, stream: DataStream) -> DataStream:
    return stream.filter(functions.Keep(node))


def _split(node: Node, stream: DataStream) -> DataStream:
    return stream.process(functions.Split(node), output_type=_typed(node))


def _exchange(node: Node, stream: DataStream) -> DataStream:
    how = node["how"]
    if how == "custom":
        spread = stream.partition_custom(lambda key, count: sum(map(ord, key)) % count, key_of)
    elif how == "key_by":
        return stream.key_by(key_of, Types.STRING()).map(functions.Same())
    else:
        spread = getattr(stream, "global_" if how == "global" else how)()
    return spread.map(functions.Same())


def _side(node: Node, stream: DataStream) -> DataStream:
    side = stream.get_side_output(TAGS[node["tag"]])
    if node["tag"] == "bad":
        return side.map(FromPoison(node), output_type=_typed(node))
    return side.map(functions.ToForm(node), output_type=_typed(node))


class FromPoison(functions.ToForm):
    def map(self, value: Any) -> Any:
        if value.timer:
            return self.made(str(value.key), value.timestamp, f"timer {value.timestamp}")
        return super().map(value.value)


def _keyed(node: Node, stream: DataStream) -> KeyedStream:
    selector = KeyOf(node["key"] or "text")
    return stream.key_by(selector, selector.type())


def _reduce(node: Node, stream: DataStream) -> DataStream:
    return _keyed(node, stream).reduce(functions.Combine(node))


def _with_state(node: Node, stream: DataStream) -> DataStream:
    function, keyed = functions.Counted(node), _keyed(node, stream)
    if node["mode"] == "map":
        return keyed.map_with_state(function, output_type=_typed(node))
    return keyed.flat_map_with_state(function.several, output_type=_typed(node))


def _retime(node: Node, stream: DataStream) -> DataStream:
    strategy = WatermarkStrategy.for_generator(Supplier(node["bound"], node["punctuated"]))
    return stream.assign_timestamps_and_watermarks(strategy.with_timestamp_assigner(Later()))


class Later(TimestampAssigner):
    """A little later than before."""

    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return record_timestamp + parts(value)[1] % 5


def _rolling(node: Node, stream: DataStream) -> DataStream:
    rolled: DataStream = getattr(stream.key_by(0, Types.STRING()), node["function"])(1)
    return rolled


def _process(node: Node, stream: DataStream) -> DataStream:
    return _keyed(node, stream).process(functions.Scripted(node), output_type=_typed(node))


# --- windows


def _assigner(given: tuple[Any, ...]) -> Any:
    kind, *sizes = given
    if kind == "tumbling":
        return TumblingEventTimeWindows.of(*sizes)
    return SlidingEventTimeWindows.of(*sizes) if kind == "sliding" else EventTimeSessionWindows.with_gap(*sizes)


def _trigger(given: tuple[Any, ...]) -> Any:
    name = given[0].removeprefix("purging ")
    if name == "count":
        trigger: Any = CountTrigger.of(given[1])
    else:
        trigger = EventTimeTrigger.create() if name == "default" else ContinuousEventTimeTrigger.of(given[1])
    return PurgingTrigger.of(trigger) if given[0].startswith("purging") else trigger


def _window(node: Node, stream: DataStream) -> DataStream:
    windowed = _keyed(node, stream).window(_assigner(node["assigner"]))
    return _evaluate(node, windowed, functions.Show(node), functions.ShowProcess(node))


def _window_all(node: Node, stream: DataStream) -> DataStream:
    windowed = stream.window_all(_assigner(node["assigner"]))
    return _evaluate(node, windowed, functions.ShowAll(node), functions.ShowAllProcess(node))


def _evaluate(node: Node, windowed: Any, apply: Any, process: Any) -> DataStream:
    result: DataStream
    if node["trigger"] != ("default",):
        windowed = windowed.trigger(_trigger(node["trigger"]))
    if node["evictor"] is not None:
        kind, size, after = node["evictor"]
        windowed = windowed.evictor((CountEvictor if kind == "count" else TimeEvictor).of(size, after))
    if node["lateness"]:
        windowed = windowed.allowed_lateness(node["lateness"])
    if node["late"]:
        windowed = windowed.side_output_late_data(TAGS["late"])
    match node["function"]:
        case "reduce":
            result = windowed.reduce(functions.Combine(node))
        case "reduce+process":
            result = windowed.reduce(functions.Combine(node), process, output_type=_typed(node))
        case "aggregate":
            result = windowed.aggregate(functions.Mean())
        case "aggregate+process":
            result = windowed.aggregate(functions.Mean(), process, output_type=_typed(node))
        case "apply":
            result = windowed.apply(apply, output_type=_typed(node))
        case "process":
            result = windowed.process(process, output_type=_typed(node))
        case "aggregate+apply":
            result = windowed.aggregate(functions.Mean(), functions.Show(node), output_type=_typed(node))
        case name:
            result = getattr(windowed, name)(1)
    return result


def _count_window(node: Node, stream: DataStream) -> DataStream:
    windowed = _keyed(node, stream).count_window(node["size"], node["slide"])
    return windowed.apply(functions.ShowCount(node), output_type=_typed(node))


# --- two inputs


def _union(node: Node, first: DataStream, second: DataStream) -> DataStream:
    return first.union(second)


def _co_map(node: Node, first: DataStream, second: DataStream) -> DataStream:
    return first.connect(second).map(functions.TwoWays(node), output_type=_typed(node))


def _co_process(node: Node, first: DataStream, second: DataStream) -> DataStream:
    selector = KeyOf(node["key"] or "text")
    keyed = first.connect(second).key_by(selector, selector, selector.type())
    return keyed.process(functions.ScriptedTwo(node), output_type=_typed(node))


def _equal(node: Node, streams: Any) -> Any:
    selector = KeyOf(node["key"] or "text")
    return streams.where(selector, selector.type()).equal_to(selector, selector.type())


def _join(node: Node, first: DataStream, second: DataStream) -> DataStream:
    joined = _equal(node, first.join(second))
    result: DataStream = joined.window(_assigner(node["assigner"])).apply(functions.Pair(node), _typed(node))
    return result


def _co_group(node: Node, first: DataStream, second: DataStream) -> DataStream:
    grouped = _equal(node, first.co_group(second))
    result: DataStream = grouped.window(_assigner(node["assigner"])).apply(functions.Groups(node), _typed(node))
    return result


def _interval_join(node: Node, first: DataStream, second: DataStream) -> DataStream:
    keyed = _keyed(node, first).interval_join(_keyed(node, second))
    joined = keyed.between(node["low"], node["high"])
    joined = joined.lower_bound_exclusive() if node["open"][0] else joined
    joined = joined.upper_bound_exclusive() if node["open"][1] else joined
    if node["late"]:
        joined = joined.side_output_left_late_data(TAGS["left"]).side_output_right_late_data(TAGS["right"])
    return joined.process(functions.Near(node), output_type=_typed(node))


def _broadcast(node: Node, first: DataStream, second: DataStream) -> DataStream:
    connected = _keyed(node, first).connect(second.broadcast(functions.RULES))
    return connected.process(functions.WithRules(node), output_type=_typed(node))
