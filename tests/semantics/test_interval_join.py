"""Interval joins: which records meet, when they are given up, and that no cut, crash or move changes any of it."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.own_logs import logged_here
from tests.semantics.cases_state import SecondField
from tests.semantics.restarts import portions
from tests.thorough import how_many
from tidemill.common import Duration, Row, Time, Types, WatermarkStrategy
from tidemill.common.typeinfo import TypeInformation
from tidemill.datastream import (
    DataStream,
    KeyedStream,
    OutputTag,
    ProcessJoinFunction,
    RuntimeContext,
    StateTtlConfig,
    StreamExecutionEnvironment,
    ValueStateDescriptor,
)
from tidemill.datastream.streams.interval_join import IntervalJoined
from tidemill.errors import GraphError, UserCodeError
from tidemill.faults import Fault
from tidemill.runtime.operators import join_buffer
from tidemill.testing import JobHarness, KeyedHarness
from tidemill.testing.job_harness import moving

Env = StreamExecutionEnvironment
Stamped = tuple[str, int]

MAX_TIME = 2**63 - 1
LEFT_LATE = OutputTag("left-late")
RIGHT_LATE = OutputTag("right-late")
BUFFERS = ("_left_buffer", "_right_buffer")


class Pair(ProcessJoinFunction):
    """Both records, as they are."""

    def process_element(self, left: Any, right: Any, ctx: ProcessJoinFunction.Context) -> Iterable[Any]:
        yield left, right


def join(lower: int, upper: int, *, without: str = "", function: ProcessJoinFunction | None = None) -> Any:
    """An interval join of two streams, to be put into a harness; ``without`` the "lower" or "upper" bound or both."""

    def build(left: KeyedStream, right: KeyedStream) -> DataStream:
        joined = left.interval_join(right).between(Duration.of_millis(lower), Duration.of_millis(upper))
        joined = joined.side_output_left_late_data(LEFT_LATE).side_output_right_late_data(RIGHT_LATE)
        if "lower" in without:
            joined = joined.lower_bound_exclusive()
        if "upper" in without:
            joined = joined.upper_bound_exclusive()
        return joined.process(function or Pair()).uid("join")

    return build


def harness(lower: int, upper: int, **options: Any) -> KeyedHarness:
    what = {name: options.pop(name) for name in ("without", "function") if name in options}
    return KeyedHarness(join(lower, upper, **what), key_selector=0, key_type=Types.STRING(), **options)


def push(running: KeyedHarness, side: str, *timestamps: int, key: str = "k") -> None:
    for timestamp in timestamps:
        running.process((key, timestamp), timestamp, stream=1 if side == "left" else 2)


def times(running: KeyedHarness) -> list[tuple[int, int]]:
    """The timestamps of the pairs so far."""
    return [(left[1], right[1]) for left, right in running.output()]


def buffered(running: KeyedHarness, key: str = "k") -> tuple[list[int], list[int]]:
    """The timestamps of the records that are kept, left and right."""
    left, right = (sorted(running.state(name, key)) for name in BUFFERS)
    return left, right


# --- bounds


@pytest.mark.parametrize("first", ["left", "right"])
@pytest.mark.parametrize(
    ("lower", "upper", "without", "partners"),
    [
        (-2, 1, "", [8, 9, 10, 11]),
        (-2, 1, "lower", [9, 10, 11]),
        (-2, 1, "upper", [8, 9, 10]),
        (-2, 1, "lower, upper", [9, 10]),
        (0, 0, "", [10]),
        (0, 0, "lower", []),
        (0, 0, "upper", []),
        (0, 0, "lower, upper", []),
        (0, 1, "lower", [11]),
        (0, 1, "upper", [10]),
        (0, 1, "lower, upper", []),
        (1, 3, "", [11, 12, 13]),
        (1, 3, "lower, upper", [12]),
        (-3, -1, "", [7, 8, 9]),
        (-3, -1, "lower", [8, 9]),
        (-3, -1, "upper", [7, 8]),
        (-100, 100, "", [6, 7, 8, 9, 10, 11, 12, 13, 14]),
        (100, 200, "", []),
        (-200, -100, "", []),
    ],
)
def test_partners_of_a_record(lower: int, upper: int, without: str, partners: list[int], first: str) -> None:
    """A left record at 10, right ones from 6 to 14; which of them comes first makes no difference."""
    with harness(lower, upper, without=without) as running:
        if first == "left":
            push(running, "left", 10)
        push(running, "right", *range(6, 15))
        if first == "right":
            push(running, "left", 10)
        assert times(running) == [(10, partner) for partner in partners]


def test_times_before_1970() -> None:
    with harness(-5, 5) as running:
        push(running, "left", -7, -1)
        push(running, "right", -12, 3)
        assert times(running) == [(-7, -12), (-1, 3)]


@pytest.mark.parametrize("bound", [Duration.of_millis(2), Time.milliseconds(2), timedelta(milliseconds=2), 2])
def test_bounds_are_lengths_of_time_of_any_kind(bound: Any) -> None:
    def build(left: KeyedStream, right: KeyedStream) -> DataStream:
        return left.interval_join(right).in_event_time().between(0, bound).process(Pair())

    with KeyedHarness(build, key_selector=0) as running:
        push(running, "left", 10)
        push(running, "right", 12, 13)
        assert times(running) == [(10, 12)]


# --- pairs


def test_records_of_different_keys_do_not_meet() -> None:
    with harness(-5, 5) as running:
        push(running, "left", 10, key="a")
        push(running, "right", 10, key="b")
        assert running.output() == []


def test_a_result_has_the_later_timestamp_of_its_pair() -> None:
    with harness(-5, 5) as running:
        push(running, "left", 10)
        push(running, "right", 7, 12)
        assert [timestamp for _, timestamp in running.output_with_timestamps()] == [10, 12]


def test_the_context_knows_all_three_timestamps() -> None:
    class Times(ProcessJoinFunction):
        def process_element(self, left: Any, right: Any, ctx: ProcessJoinFunction.Context) -> Iterable[Any]:
            yield ctx.get_left_timestamp(), ctx.get_right_timestamp(), ctx.get_timestamp()

    with harness(-5, 5, function=Times()) as running:
        push(running, "left", 10)
        push(running, "right", 7, 12)
        push(running, "left", 8)
        assert running.output() == [(10, 7, 10), (10, 12, 12), (8, 7, 8), (8, 12, 12)]


def test_pairs_of_a_record_come_by_time_then_in_the_order_of_arrival() -> None:
    with harness(-5, 5) as running:
        for name, timestamp in [("x", 12), ("y", 9), ("z", 12), ("w", 9)]:
            running.process(("k", name), timestamp, stream=2)
        running.process(("k", "left"), 10)
        assert [right[1] for _, right in running.output()] == ["y", "w", "x", "z"]


def test_equal_records_are_different_records() -> None:
    with harness(0, 0) as running:
        push(running, "left", 10, 10)
        push(running, "right", 10, 10, 10)
        assert times(running) == [(10, 10)] * 6


def test_records_of_one_timestamp_meet_across_epochs() -> None:
    with harness(0, 0) as running:
        for side in ("left", "right", "left", "right"):
            push(running, side, 10)
            running.checkpoint()
        assert times(running) == [(10, 10)] * 4
        assert running.state("_left_buffer", "k") == {10: [("k", 10), ("k", 10)]}


def test_a_function_may_give_nothing_or_much_or_to_a_side_output() -> None:
    odd = OutputTag("odd", Types.LONG())

    class Split(ProcessJoinFunction):
        def process_element(self, left: Any, right: Any, ctx: ProcessJoinFunction.Context) -> Iterable[Any] | None:
            if right[1] == 10:
                return None
            if right[1] % 2:
                return [(odd, right[1])]
            return [right[1], right[1]]

    with harness(-5, 5, function=Split()) as running:
        push(running, "left", 10)
        push(running, "right", 9, 10, 12)
        assert running.output_with_timestamps() == [(12, 12), (12, 12)]
        assert running.side_output_with_timestamps(odd) == [(9, 10)]


def test_a_function_may_have_state_of_the_key() -> None:
    class Number(ProcessJoinFunction):
        def open(self, runtime_context: RuntimeContext) -> None:
            self.seen = runtime_context.get_state(ValueStateDescriptor("seen", Types.LONG()))

        def process_element(self, left: Any, right: Any, ctx: ProcessJoinFunction.Context) -> Iterable[Any]:
            self.seen.update((self.seen.value() or 0) + 1)
            yield left[0], self.seen.value()

    with harness(0, 0, function=Number()) as running:
        for key in ("a", "b", "a"):
            push(running, "left", 1, key=key)
        running.checkpoint()
        for key in ("a", "b"):
            push(running, "right", 1, key=key)
        assert running.output() == [("a", 1), ("a", 2), ("b", 1)]


def test_event_time_of_a_pair_is_what_its_state_expires_by() -> None:
    class Fresh(ProcessJoinFunction):
        def open(self, runtime_context: RuntimeContext) -> None:
            ttl = StateTtlConfig.new_builder(Time.milliseconds(10))
            ttl.set_ttl_time_characteristic(StateTtlConfig.TtlTimeCharacteristic.EventTime)
            seen = ValueStateDescriptor("seen", Types.LONG())
            seen.enable_time_to_live(ttl.build())
            self.seen = runtime_context.get_state(seen)

        def process_element(self, left: Any, right: Any, ctx: ProcessJoinFunction.Context) -> Iterable[Any]:
            yield self.seen.value()
            self.seen.update(ctx.get_timestamp())

    with harness(0, 0, function=Fresh()) as running:
        for timestamp in (0, 5, 30):
            running.watermark(timestamp)
            push(running, "left", timestamp)
            push(running, "right", timestamp)
        assert running.output() == [None, 0, None]


@pytest.mark.parametrize("declared", [None, Types.MAP(Types.STRING(), Types.LONG())])
def test_what_a_function_does_to_a_record_is_not_seen_by_the_next_pair(declared: TypeInformation | None) -> None:
    class Enrich(ProcessJoinFunction):
        def process_element(self, left: Any, right: Any, ctx: ProcessJoinFunction.Context) -> Iterable[Any]:
            left["n"] = left.get("n", 0) + right["n"]
            right["n"] = 0
            yield left

    with KeyedHarness(
        join(-5, 5, function=Enrich()), key_selector=lambda record: record["k"], types=[declared, declared]
    ) as running:
        running.process({"k": 1}, 10)
        running.process({"k": 1, "n": 2}, 10, stream=2)
        running.checkpoint()
        running.process({"k": 1, "n": 3}, 11, stream=2)
        running.process({"k": 1, "n": 9}, 12)
        assert [record["n"] for record in running.output()] == [2, 3, 11, 12]


# --- late records


def test_a_record_below_the_watermark_is_late_and_one_at_it_is_not() -> None:
    with harness(-5, 5) as running:
        push(running, "left", 10, 12)
        running.watermark(10)
        push(running, "right", 9, 10)
        assert times(running) == [(10, 10), (12, 10)]
        assert running.side_output_with_timestamps(RIGHT_LATE) == [(("k", 9), 9)]
        push(running, "left", 9)
        assert running.side_output_with_timestamps(LEFT_LATE) == [(("k", 9), 9)]
        assert buffered(running) == ([10, 12], [10])


def test_nothing_is_late_before_the_first_watermark() -> None:
    with harness(0, 0) as running:
        push(running, "left", -(2**63) + 1)
        push(running, "right", -(2**63) + 1)
        assert len(running.output()) == 1


def test_late_records_are_dropped_and_counted_if_they_are_not_read(caplog: pytest.LogCaptureFixture) -> None:
    def build(left: KeyedStream, right: KeyedStream) -> DataStream:
        return left.interval_join(right).between(-5, 5).process(Pair())

    with KeyedHarness(build, key_selector=0) as running:
        push(running, "right", 9)
        running.watermark(10)
        push(running, "left", 9, 8, 11)
        assert times(running) == [(11, 9)]
        assert running._chain.head.context.metrics.counters["numLateRecordsDropped"].count == 2
    [message] = logged_here(caplog)  # the first one only
    for part in ("Interval Join", "first stream", "event time is 9", "watermark 10", "side_output_left_late_data()"):
        assert part in message


def test_only_the_slower_input_makes_records_late() -> None:
    with harness(-5, 5) as running:
        running.watermark(100, stream=1)
        push(running, "left", 50)
        push(running, "right", 50)
        assert times(running) == [(50, 50)]
        running.watermark(60, stream=2)
        push(running, "left", 59, 60)
        assert running.side_output(LEFT_LATE) == [("k", 59)]
        assert running.watermarks() == [60]


# --- how long records are kept


@pytest.mark.parametrize(
    ("lower", "upper", "left_until", "right_until"),
    [
        (-3, 5, 15, 13),
        (0, 0, 10, 10),
        (2, 5, 15, 10),  # a right record comes after its partners
        (-5, -2, 10, 15),  # and a left record after its
        (0, 5, 15, 10),
    ],
)
def test_a_record_is_kept_while_it_can_find_partners(lower: int, upper: int, left_until: int, right_until: int) -> None:
    for side, until in (("left", left_until), ("right", right_until)):
        with harness(lower, upper) as running:
            push(running, side, 10)
            running.watermark(until - 1)
            assert sum(map(len, buffered(running))) == 1
            running.watermark(until)
            assert buffered(running) == ([], [])
            assert running.timers() == []


def test_a_record_is_given_up_at_the_last_moment_even_if_a_partner_may_come_in_time() -> None:
    """As in Flink: at watermark 15 a record with timestamp 15 is not late, but what it would meet is gone."""
    with harness(0, 5) as running:
        push(running, "left", 10)
        running.watermark(15)
        push(running, "right", 15)
        assert running.output() == []
        assert running.side_output(RIGHT_LATE) == []


def test_a_record_at_the_watermark_that_needs_no_future_goes_with_the_next_watermark() -> None:
    with harness(-5, 0) as running:
        running.watermark(10)
        push(running, "left", 10)
        assert buffered(running) == ([10], [])
        running.watermark(11)
        assert buffered(running) == ([], [])


def test_what_was_given_up_does_not_come_back_with_a_record_of_the_same_timestamp() -> None:
    with harness(-5, 0) as running:
        push(running, "left", 10, 12)
        running.watermark(10)
        push(running, "left", 10)
        push(running, "right", 10)
        assert times(running) == [(10, 10), (12, 10)]
        assert running.state("_left_buffer", "k") == {10: [("k", 10)], 12: [("k", 12)]}


def test_records_are_given_up_one_after_the_other() -> None:
    with harness(0, 5) as running:
        push(running, "left", 12, 10, 11, 10)
        kept = []
        for watermark in range(14, 19):
            running.watermark(watermark)
            kept.append(buffered(running)[0])
        assert kept == [[10, 11, 12], [11, 12], [12], [], []]


def test_one_timer_waits_for_the_earliest_record_of_a_key_and_side() -> None:
    with harness(-7, 5) as running:
        push(running, "left", *range(10, 20))
        push(running, "right", *range(10, 20))
        assert running.timers() == [(15, "k"), (17, "k")]
        push(running, "left", 8)  # earlier than all: its time comes first
        assert running.timers() == [(13, "k"), (15, "k"), (17, "k")]
        running.watermark(16)
        assert buffered(running) == (list(range(12, 20)), list(range(10, 20)))
        assert running.timers() == [(17, "k"), (17, "k")]


def test_nothing_is_left_after_the_end_of_time() -> None:
    with harness(-(10**6), 10**6) as running:
        for key in "abc":
            push(running, "left", *range(50), key=key)
            push(running, "right", *range(0, 100, 3), key=key)
            running.checkpoint()
        running.end_input()
        running.checkpoint()
        assert running._backend().entries() == 0
        assert running.timers() == []


def test_bounds_that_reach_beyond_the_end_of_time() -> None:
    with harness(-(2**62), 2**62) as running:
        push(running, "left", 2**62 + 5)
        push(running, "right", 2**62 + 10)
        assert len(running.output()) == 1
        assert running.timers() == [(MAX_TIME, "k"), (MAX_TIME, "k")]
        running.watermark(MAX_TIME - 1)
        assert buffered(running) == ([2**62 + 5], [2**62 + 10])
        running.watermark(MAX_TIME)
        assert buffered(running) == ([], [])


def test_an_empty_interval_keeps_records_no_longer_than_any_other() -> None:
    with harness(0, 0, without="lower, upper") as running:
        push(running, "left", 10)
        push(running, "right", 10)
        running.watermark(10)
        assert buffered(running) == ([], [])


def test_a_key_that_comes_back_begins_anew() -> None:
    with harness(0, 5) as running:
        push(running, "left", 10)
        running.watermark(20)
        push(running, "right", 20)
        push(running, "left", 20)
        assert times(running) == [(20, 20)]
        assert buffered(running) == ([20], [20])


# --- snapshots


@pytest.mark.parametrize("typed", [False, True])
def test_a_restored_join_continues(typed: bool) -> None:
    declared = Types.TUPLE([Types.STRING(), Types.LONG()]) if typed else None
    running = harness(-5, 5, types=[declared, declared])
    push(running, "left", 10, 12)
    push(running, "right", 11)
    running.watermark(8)
    snapshot = running.snapshot()
    running.close()
    with running.restore(snapshot) as again:
        assert again.timers() == [(15, "k"), (16, "k")]
        push(again, "right", 13, 7)
        assert times(again) == [(10, 13), (12, 13)]
        assert again.side_output(RIGHT_LATE) == [("k", 7)]
        again.watermark(15)
        push(again, "right", 16)
        assert times(again)[2:] == [(12, 16)]
        again.watermark(MAX_TIME)
        assert buffered(again) == ([], [])
        assert again.timers() == []


def test_keys_go_where_their_key_group_goes() -> None:
    running = harness(-5, 5)
    keys = [f"key-{number}" for number in range(40)]
    for key in keys:
        push(running, "left", 10, key=key)
    snapshot = running.snapshot()
    running.close()
    met = []
    for subtask in range(3):
        with running.restore(snapshot, parallelism=3, subtask=subtask) as part:
            mine = part.keys("_left_buffer")
            for key in mine:
                push(part, "right", 10, key=key)
            met += [left[0] for left, _ in part.output()]
    assert sorted(met) == sorted(keys)


def test_what_came_and_went_within_an_epoch_is_not_written() -> None:
    with harness(0, 0) as running:
        push(running, "left", 10)
        push(running, "right", 10)
        running.watermark(10)
        assert running.checkpoint() == b""


# --- BATCH mode


def test_batch_mode_joins_all_there_is_whatever_its_order() -> None:
    with harness(-1, 1, runtime_mode="BATCH") as running:
        push(running, "left", 30, 10, key="a")
        push(running, "right", 11, 50, 29, 9, key="a")
        push(running, "left", 1, key="b")
        push(running, "right", 1, 3, key="b")
        assert running.output() == []
        running.end_input()
        assert sorted(times(running)) == [(1, 1), (10, 9), (10, 11), (30, 29)]
        assert running.side_output(LEFT_LATE) == running.side_output(RIGHT_LATE) == []


# --- what cannot be joined


@pytest.mark.parametrize(("stream", "named"), [(1, "first stream"), (2, "second stream")])
def test_records_without_timestamps(stream: int, named: str) -> None:
    with harness(-5, 5) as running, pytest.raises(GraphError) as caught:
        running.process(("k", 1), stream=stream)
    for part in (named, "Interval Join", "assign_timestamps_and_watermarks()", __file__):
        assert part in str(caught.value)


def test_a_timestamp_that_stands_for_none() -> None:
    with harness(-5, 5) as running, pytest.raises(GraphError, match="without timestamps"):
        running.process(("k", 1), -(2**63))


def two_streams() -> tuple[KeyedStream, KeyedStream]:
    env = Env.get_execution_environment()
    return env.from_collection([("a", 1)]).key_by(0), env.from_collection([("a", 2)]).key_by(0)


def test_bounds_the_wrong_way_round() -> None:
    left, right = two_streams()
    with pytest.raises(GraphError, match=r"between\(2 ms, 1 ms\).*must not be above"):
        left.interval_join(right).between(2, 1)


def test_processing_time() -> None:
    left, right = two_streams()
    with pytest.raises(GraphError, match="event time"):
        left.interval_join(right).in_processing_time().between(0, 1)
    assert isinstance(left.interval_join(right).in_processing_time().in_event_time().between(0, 1), IntervalJoined)


def test_a_stream_without_keys() -> None:
    left, right = two_streams()
    with pytest.raises(TypeError, match="KeyedStream"):
        left.interval_join(right._origin)  # type: ignore[arg-type]


def test_another_kind_of_function() -> None:
    left, right = two_streams()
    with pytest.raises(TypeError, match="ProcessJoinFunction"):
        left.interval_join(right).between(0, 1).process(lambda one, two: None)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="OutputTag"):
        left.interval_join(right).between(0, 1).side_output_left_late_data("late")  # type: ignore[arg-type]


def test_streams_of_two_environments() -> None:
    left, _ = two_streams()
    _, right = two_streams()
    with pytest.raises(GraphError, match="different environments"):
        left.interval_join(right)


def test_an_error_names_the_pair() -> None:
    class Bad(ProcessJoinFunction):
        def process_element(self, left: Any, right: Any, ctx: ProcessJoinFunction.Context) -> Iterable[Any]:
            raise ValueError("no such pair")

    with harness(0, 0, function=Bad()) as running:
        push(running, "right", 5)
        with pytest.raises(UserCodeError) as caught:
            push(running, "left", 5)
    for part in ("no such pair", "process_element()", "(('k', 5), ('k', 5))", "key 'k'", "Interval Join"):
        assert part in str(caught.value)


# --- against a plain model


class Model:
    """The operator as Flink describes it, written down without a thought for speed: one timer for each record."""

    def __init__(self, lower: int, upper: int) -> None:
        self.ranges = {"left": (lower, upper), "right": (-upper, -lower)}
        self.kept: dict[str, list[Stamped]] = {"left": [], "right": []}
        self.pairs: list[tuple[Stamped, Stamped]] = []
        self.late: list[Stamped] = []
        self.watermark = -(2**63)

    def push(self, side: str, record: Stamped) -> None:
        if record[1] < self.watermark:
            self.late.append(record)
            return
        other = "right" if side == "left" else "left"
        lower, upper = (record[1] + bound for bound in self.ranges[side])
        self.kept[side].append(record)
        for partner in sorted(self.kept[other], key=lambda kept: kept[1]):
            if partner[0] == record[0] and lower <= partner[1] <= upper:
                self.pairs.append((record, partner) if side == "left" else (partner, record))

    def move_on(self, watermark: int) -> None:
        if watermark > self.watermark:
            self.watermark = watermark
            for side, (_, upper) in self.ranges.items():
                self.kept[side] = [record for record in self.kept[side] if record[1] + max(0, upper) > watermark]

    def buffered(self, key: str) -> tuple[list[int], list[int]]:
        left, right = ({at for owner, at in self.kept[side] if owner == key} for side in ("left", "right"))
        return sorted(left), sorted(right)


@pytest.mark.parametrize("seed", range(how_many(15, 40)))
def test_does_what_the_model_does(seed: int) -> None:
    """With late records, records at the watermark, and watermarks of both inputs, after every step."""
    chance = random.Random(seed)
    lower = chance.randint(-6, 4)
    upper = lower + chance.randint(0, 8)
    model, running = Model(lower, upper), harness(lower, upper)
    now, marks, pairs, late = 0, {"left": -(2**63), "right": -(2**63)}, 0, 0
    for _ in range(150):
        what = chance.random()
        side = chance.choice(["left", "right"])
        if what < 0.6:
            now += chance.randint(0, 2)
            record = (chance.choice("ab"), now + chance.randint(-6, 3))
            model.push(side, record)
            push(running, side, record[1], key=record[0])
        elif what < 0.8:
            marks[side] = max(marks[side], now - chance.randint(-2, 5))
            running.watermark(marks[side], stream=1 if side == "left" else 2)
            model.move_on(min(marks.values()))
        elif what < 0.95:
            running.checkpoint()
        else:
            assert running.output() == model.pairs[pairs:]
            pairs = len(model.pairs)
            snapshot = running.snapshot()
            running.close()
            late += len(running.side_output(LEFT_LATE)) + len(running.side_output(RIGHT_LATE))
            running = running.restore(snapshot)
            marks = dict.fromkeys(marks, model.watermark)
        assert running.output() == model.pairs[pairs:]
        assert {key: buffered(running, key) for key in "ab"} == {key: model.buffered(key) for key in "ab"}
    late += len(running.side_output(LEFT_LATE)) + len(running.side_output(RIGHT_LATE))
    assert late == len(model.late)
    running.close()


# --- as a job


def stamped(stream: DataStream, lateness: int = 0) -> DataStream:
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(lateness))
    return stream.assign_timestamps_and_watermarks(strategy.with_timestamp_assigner(SecondField()))


def program(lower: int, upper: int, lateness: int) -> Any:
    def build(env: Env, left: DataStream, right: DataStream) -> dict[str, DataStream]:
        joined = join(lower, upper)(stamped(left, lateness).key_by(0), stamped(right, lateness).key_by(0))
        late = joined.get_side_output(LEFT_LATE).union(joined.get_side_output(RIGHT_LATE))
        return {"output": joined, "late": late}

    return build


def test_of_records_that_come_together_only_some_are_late() -> None:
    with JobHarness(program(0, 0, lateness=0), inputs=["left", "right"], parallelism=1) as job:
        job.epoch(left=[("k", 11)], right=[("k", 11)])  # the watermark is 10 now
        job.epoch(left=[("k", 9), ("k", 10), ("k", 12), ("k", 8), ("j", 12)])
        job.epoch(right=[("k", 12), ("k", 9), ("k", 10)])
        assert job.output("late") == [("k", 9), ("k", 8), ("k", 9)]
        assert job.output() == [(("k", 11), ("k", 11)), (("k", 12), ("k", 12)), (("k", 10), ("k", 10))]


def rows_program(env: Env, left: DataStream, right: DataStream) -> DataStream:
    row = Types.ROW_NAMED(["k", "t"], [Types.STRING(), Types.LONG()])
    lefts = stamped(left).map(lambda pair: Row(k=pair[0], t=pair[1]), output_type=row).key_by("k")
    rights = stamped(right).map(lambda pair: Row(k=pair[0], t=pair[1]), output_type=row).key_by("k")
    return lefts.interval_join(rights).between(-5, 5).process(Pair()).uid("join").map(lambda pair: (*pair[0], *pair[1]))


def test_rows_are_joined_and_stored() -> None:
    with JobHarness(rows_program, inputs=["left", "right"]) as job:
        job.epoch(left=[("a", 10), ("b", 11)])
        job.restart(parallelism=3)
        job.epoch(right=[("b", 13), ("a", 12)])
        job.end()
        assert sorted(job.output()) == [("a", 10, "a", 12), ("b", 11, "b", 13)]
        assert job.timers("join") == []
        assert all(not job.state("join", buffer) for buffer in BUFFERS)


@pytest.mark.parametrize("seed", range(how_many(3, 12)))
@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_random_streams_cut_crashed_moved_and_rescaled(
    seed: int, backend: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Compared with all pairs, by brute force. The streams' disorder stays within their bound, so nothing is late."""
    chance = random.Random(seed)
    lower = chance.randint(-30, 20)
    upper = lower + chance.randint(0, 40)
    disorder = chance.choice([0, 5, 25])
    # A record must not come when a partner of it has been given up: watermarks lag behind by the width of the interval.
    lag = disorder + max(0, upper, -lower) + 1
    sides = {}
    for side in ("left", "right"):
        step = chance.choice([1, 3, 10])
        sides[side] = [
            (f"key-{chance.randrange(5)}", place * step + chance.randint(0, disorder)) for place in range(120)
        ]
    expected = Counter(
        (left, right)
        for left in sides["left"]
        for right in sides["right"]
        if left[0] == right[0] and lower <= right[1] - left[1] <= upper
    )
    configuration = {"state.backend.type": backend}
    if backend == "rocksdb":
        configuration |= {
            "state.backend.rocksdb.localdir": str(tmp_path),
            "state.backend.rocksdb.cached-values": "2",
            "state.backend.rocksdb.timer-service.cache-size": "2",
        }
    if seed % 2:
        monkeypatch.setattr(join_buffer, "_REMEMBERED", 5)  # too few: what is known of the state is forgotten at times
    with JobHarness(
        program(lower, upper, lag),
        inputs=["left", "right"],
        configuration=configuration,
        workers=3,
        placement=moving(3) if seed % 3 == 0 else None,
        merge_after=3,
    ) as job:
        for sent in portions(sides, chance):
            happening = chance.random()
            if happening < 0.15:
                job.crash(Fault("manifest.before"), **sent)
            else:
                job.epoch(**sent)
                if happening < 0.3:
                    job.restart(parallelism=chance.randint(1, 3))
                elif happening < 0.4:
                    job.kill_worker(chance.randrange(3))
                elif happening < 0.5:
                    job.rescale(chance.randint(1, 3))
        job.end()
        assert Counter(job.output()) == expected
        assert job.output("late") == []
        assert job.timers("join") == []
        assert all(not job.state("join", buffer) for buffer in BUFFERS)
