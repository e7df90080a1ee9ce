"""Window joins and co-groups: who meets whom in which window, also over cuts, restarts and rescales."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.semantics.cases_state import SecondField
from tests.semantics.restarts import portions
from tests.thorough import how_many
from tidemill.common import Duration, Types, WatermarkStrategy
from tidemill.datastream import (
    CoGroupFunction,
    DataStream,
    FlatJoinFunction,
    JoinFunction,
    KeySelector,
    ProcessFunction,
    RuntimeContext,
    StreamExecutionEnvironment,
)
from tidemill.datastream.streams.joined_streams import CoGroupedStreams, JoinedStreams
from tidemill.datastream.window import (
    CountEvictor,
    CountTrigger,
    EventTimeSessionWindows,
    GlobalWindows,
    PurgingTrigger,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    WindowAssigner,
)
from tidemill.errors import GraphError, TidemillError, UserCodeError
from tidemill.faults import Fault
from tidemill.testing import JobHarness
from tidemill.testing.job_harness import moving

Env = StreamExecutionEnvironment
Apply = Callable[[DataStream, DataStream], DataStream]

TENS = TumblingEventTimeWindows.of(Duration.of_millis(10))


def stamped(stream: DataStream, lag: int = 0) -> DataStream:
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(lag))
    return stream.assign_timestamps_and_watermarks(strategy.with_timestamp_assigner(SecondField()))


class WithTime(ProcessFunction):
    """Records with their timestamps."""

    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Iterable[Any]:
        yield value, ctx.timestamp()


class Both(JoinFunction):
    def join(self, first: Any, second: Any) -> Any:
        return first, second


class FullOuter(CoGroupFunction):
    def co_group(self, first: Iterable[Any], second: Iterable[Any]) -> Iterable[Any]:
        lefts, rights = list(first) or [None], list(second) or [None]
        yield from ((left, right) for left in lefts for right in rights)


def joined(assigner: WindowAssigner, left: DataStream, right: DataStream) -> JoinedStreams:
    return stamped(left).join(stamped(right)).where(0).equal_to(0).window(assigner)


def grouped(assigner: WindowAssigner, left: DataStream, right: DataStream) -> CoGroupedStreams:
    return stamped(left).co_group(stamped(right)).where(0).equal_to(0).window(assigner)


def job_of(apply: Apply, **options: Any) -> JobHarness:
    def build(env: Env, left: DataStream, right: DataStream) -> DataStream:
        return apply(left, right).uid("join")

    return JobHarness(build, inputs=["left", "right"], **options)


def outcome(apply: Apply, left: Iterable[Any], right: Iterable[Any], **options: Any) -> list[Any]:
    """What comes out, all input in one epoch."""
    with job_of(apply, **options) as job:
        job.epoch(left=left, right=right)
        job.end()
        return job.output()


def left_over(job: JobHarness) -> int:
    """The number of committed entries of the join, of any state and timer."""
    committed = job._committed()
    uid = job._operator("join").uid
    return sum(table.entries() for (operator, _), table in committed._tables.items() if operator == uid)


# --- joins


def test_records_meet_in_their_window_and_nowhere_else() -> None:
    left = [("a", 1), ("a", 9), ("b", 3), ("a", 10), ("c", 11)]
    right = [("a", 0), ("b", 9), ("b", 10), ("a", 19)]
    found = outcome(lambda one, two: joined(TENS, one, two).apply(Both()), left, right)
    assert sorted(found) == [
        (("a", 1), ("a", 0)),
        (("a", 9), ("a", 0)),
        (("a", 10), ("a", 19)),
        (("b", 3), ("b", 9)),
    ]


def test_results_have_the_last_timestamp_of_their_window() -> None:
    def apply(left: DataStream, right: DataStream) -> DataStream:
        return joined(TENS, left, right).apply(Both()).process(WithTime())

    found = outcome(apply, [("a", 1), ("a", 12)], [("a", 3), ("a", 15)], parallelism=1)
    assert [timestamp for _, timestamp in found] == [9, 19]


def test_pairs_of_a_window_come_by_the_order_of_the_first_stream() -> None:
    left, right = [("a", 5), ("a", 2)], [("a", 7), ("a", 6), ("a", 8)]
    found = outcome(lambda one, two: joined(TENS, one, two).apply(Both()), left, right, parallelism=1)
    assert [(one[1], two[1]) for one, two in found] == [(5, 7), (5, 6), (5, 8), (2, 7), (2, 6), (2, 8)]


@pytest.mark.parametrize("parallelism", [1, 2, 3])
def test_the_records_of_a_stream_stay_in_order_whatever_the_parallelism(parallelism: int) -> None:
    """The streams have one subtask each, the join has more: nothing spreads records before they are keyed."""

    class Sides(CoGroupFunction):
        def co_group(self, first: Iterable[Any], second: Iterable[Any]) -> Iterable[Any]:
            yield [value[2] for value in first], [value[2] for value in second]

    def build(env: Env, left: DataStream, right: DataStream) -> DataStream:
        one, two = (stamped(stream, 10).set_parallelism(1) for stream in (left, right))
        return one.co_group(two).where(0).equal_to(0).window(TENS).apply(Sides())

    with JobHarness(build, inputs=["left", "right"], parallelism=parallelism) as job:
        job.epoch(left=[("a", 1, n) for n in range(5)], right=[("a", 9 - n, n) for n in range(5)])
        job.end()
        assert job.output() == [([0, 1, 2, 3, 4], [0, 1, 2, 3, 4])]


def test_in_sliding_windows_a_pair_meets_as_often_as_it_shares_a_window() -> None:
    assigner = SlidingEventTimeWindows.of(Duration.of_millis(10), Duration.of_millis(5))
    found = outcome(lambda one, two: joined(assigner, one, two).apply(Both()), [("a", 7)], [("a", 8), ("a", 11)])
    assert Counter(two[1] for _, two in found) == {8: 2, 11: 1}


def test_a_record_of_one_stream_keeps_a_session_of_the_other_open() -> None:
    assigner = EventTimeSessionWindows.with_gap(Duration.of_millis(5))
    left, right = [("a", 0), ("a", 8), ("a", 30)], [("a", 4), ("a", 20)]
    found = outcome(lambda one, two: joined(assigner, one, two).apply(Both()), left, right)
    assert sorted(found) == [(("a", 0), ("a", 4)), (("a", 8), ("a", 4))]


def test_a_callable_joins_and_none_is_a_record_like_any_other() -> None:
    found = outcome(
        lambda one, two: joined(TENS, one, two).apply(lambda first, second: None if second[1] == 2 else second[1]),
        [("a", 1)],
        [("a", 2), ("a", 3)],
        parallelism=1,
    )
    assert found == [None, 3]


def test_a_flat_join_gives_any_number_of_records() -> None:
    class Repeat(FlatJoinFunction):
        def join(self, first: Any, second: Any) -> Iterable[Any] | None:
            return None if second[1] == 0 else [second[1]] * second[1]

    right = [("a", 0), ("a", 1), ("a", 2)]
    found = outcome(lambda one, two: joined(TENS, one, two).apply(Repeat()), [("a", 0)], right, parallelism=1)
    assert found == [1, 2, 2]


def test_functions_are_opened() -> None:
    class Named(JoinFunction):
        def open(self, runtime_context: RuntimeContext) -> None:
            self.subtasks = runtime_context.get_number_of_parallel_subtasks()

        def join(self, first: Any, second: Any) -> Any:
            return self.subtasks

    assert outcome(lambda one, two: joined(TENS, one, two).apply(Named()), [("a", 1)], [("a", 1)]) == [2]


def test_each_stream_has_a_key_of_its_own() -> None:
    class Reversed(KeySelector):
        def open(self, runtime_context: RuntimeContext) -> None:
            self.step = -1

        def get_key(self, value: Any) -> str:
            name: str = value[0]
            return name[:: self.step]

    def apply(left: DataStream, right: DataStream) -> DataStream:
        keyed = stamped(left).join(stamped(right)).where(Reversed(), Types.STRING()).equal_to(lambda value: value[2])
        return keyed.window(TENS).apply(Both(), output_type=Types.PICKLED_BYTE_ARRAY())

    found = outcome(apply, [("ab", 1), ("cd", 2)], [("x", 3, "ba"), ("y", 4, "ab")])
    assert found == [(("ab", 1), ("x", 3, "ba"))]


def test_streams_of_different_types_and_keyed_streams() -> None:
    def apply(left: DataStream, right: DataStream) -> DataStream:
        numbers = stamped(left).map(lambda pair: pair[1], output_type=Types.LONG())
        texts = stamped(right).map(lambda pair: str(pair[1]), output_type=Types.STRING())
        both = numbers.key_by(lambda number: 0).join(texts.key_by(lambda text: 0))
        return both.where(lambda number: number % 7).equal_to(lambda text: int(text) % 7).window(TENS).apply(Both())

    assert sorted(outcome(apply, [("a", 1), ("a", 2)], [("a", 8), ("b", 9)])) == [(1, "8"), (2, "9")]


# --- triggers, evictors, lateness


def test_a_trigger_of_its_own() -> None:
    def apply(left: DataStream, right: DataStream) -> DataStream:
        windowed = joined(GlobalWindows.create(), left, right)
        return windowed.trigger(PurgingTrigger.of(CountTrigger.of(3))).apply(lambda one, two: (one[1], two[1]))

    with job_of(apply, parallelism=1) as job:
        for step, (side, timestamp) in enumerate([("left", 1), ("right", 2), ("right", 3), ("left", 4), ("left", 5)]):
            job.epoch(**{side: [("a", timestamp)]})
            assert job.output() == ([] if step < 2 else [(1, 2), (1, 3)])


def test_an_evictor_sees_the_records_of_both_streams() -> None:
    def apply(left: DataStream, right: DataStream) -> DataStream:
        return joined(TENS, left, right).evictor(CountEvictor.of(3)).apply(lambda one, two: (one[1], two[1]))

    with job_of(apply) as job:
        for side, timestamp in [("left", 1), ("left", 2), ("right", 3), ("right", 4)]:
            job.epoch(**{side: [("a", timestamp)]})
        job.end()
        assert job.output() == [(2, 3), (2, 4)]


@pytest.mark.parametrize(("lateness", "pairs"), [(0, [(1, 2)]), (5, [(1, 2), (1, 2), (1, 3)])])
def test_a_late_record_joins_while_its_window_is_kept(lateness: int, pairs: list[Any]) -> None:
    def apply(left: DataStream, right: DataStream) -> DataStream:
        windowed = joined(TENS, left, right).allowed_lateness(Duration.of_millis(lateness))
        return windowed.apply(lambda one, two: (one[1], two[1]))

    with job_of(apply, parallelism=1) as job:
        job.epoch(left=[("a", 1)], right=[("a", 2)])
        job.epoch(left=[("z", 12)], right=[("z", 12)])  # time passes
        job.epoch(right=[("a", 3)])
        job.end()
        assert [pair for pair in job.output() if pair != (12, 12)] == pairs


def test_a_window_fires_when_both_streams_are_past_its_end() -> None:
    with job_of(lambda one, two: joined(TENS, one, two).apply(Both()), parallelism=1) as job:
        job.epoch(left=[("a", 1), ("a", 100)], right=[("a", 2)])
        assert job.output() == []
        job.epoch(right=[("a", 11)])
        assert job.output() == [(("a", 1), ("a", 2))]


# --- co-groups


@pytest.mark.parametrize(
    ("kind", "rows"),
    [
        ("inner", [(1, 2)]),
        ("left", [(1, 2), (11, None)]),
        ("right", [(1, 2), (None, 21)]),
        ("full", [(1, 2), (11, None), (None, 21)]),
    ],
)
def test_outer_joins(kind: str, rows: list[Any]) -> None:
    def co_group(first: list[Any], second: list[Any]) -> Iterable[Any]:
        lefts: list[Any] = [value[1] for value in first]
        rights: list[Any] = [value[1] for value in second]
        if kind in ("right", "full"):
            lefts = lefts or [None]
        if kind in ("left", "full"):
            rights = rights or [None]
        return [(left, right) for left in lefts for right in rights]

    found = outcome(
        lambda one, two: grouped(TENS, one, two).apply(co_group), [("a", 1), ("a", 11)], [("a", 2), ("a", 21)]
    )
    assert sorted(found, key=str) == sorted(rows, key=str)


def test_a_co_group_sees_each_side_in_the_order_of_arrival_once_per_window() -> None:
    class Lists(CoGroupFunction):
        def co_group(self, first: Iterable[Any], second: Iterable[Any]) -> Iterable[Any]:
            yield [value[1] for value in first], [value[1] for value in second]

    with job_of(lambda one, two: grouped(TENS, one, two).apply(Lists())) as job:
        for timestamp in (5, 3, 4):
            job.epoch(left=[("a", timestamp)], right=[("a", timestamp + 1)])
        job.end()
        assert job.output() == [([5, 3, 4], [6, 4, 5])]


def test_sessions_are_grouped_over_both_streams() -> None:
    class Lists(CoGroupFunction):
        def co_group(self, first: Iterable[Any], second: Iterable[Any]) -> Iterable[Any]:
            yield sorted(value[1] for value in first), sorted(value[1] for value in second)

    assigner = EventTimeSessionWindows.with_gap(Duration.of_millis(5))

    def apply(left: DataStream, right: DataStream) -> DataStream:
        return stamped(left, 50).co_group(stamped(right, 50)).where(0).equal_to(0).window(assigner).apply(Lists())

    with job_of(apply) as job:
        job.epoch(left=[("a", 0), ("a", 8)])
        job.restart(parallelism=3)
        job.epoch(right=[("a", 20)])
        job.restart(parallelism=1)
        job.epoch(right=[("a", 4)])  # bridges two sessions
        job.end()
        assert sorted(job.output()) == [([], [20]), ([0, 8], [4])]
        assert left_over(job) == 0


def test_batch_mode() -> None:
    def apply(left: DataStream, right: DataStream) -> DataStream:
        return grouped(TENS, left, right).apply(FullOuter())

    found = outcome(
        apply, [("a", 15), ("a", 1)], [("b", 3), ("a", 14)], configuration={"execution.runtime-mode": "BATCH"}
    )
    assert sorted(found, key=str) == [(("a", 1), None), (("a", 15), ("a", 14)), (None, ("b", 3))]


# --- cuts, restarts, rescales


WINDOWS: dict[str, WindowAssigner] = {
    "tumbling": TENS,
    "sliding": SlidingEventTimeWindows.of(Duration.of_millis(12), Duration.of_millis(5)),
    "sessions": EventTimeSessionWindows.with_gap(Duration.of_millis(4)),
}


def windows_by_hand(kind: str, sides: dict[str, list[Any]]) -> Iterable[tuple[list[Any], list[Any]]]:
    """The records of both sides in each window of each key."""
    keys = {record[0] for records in sides.values() for record in records}
    for key in keys:
        mine = {side: [record for record in records if record[0] == key] for side, records in sides.items()}
        times = sorted({record[1] for records in mine.values() for record in records})
        spans: list[tuple[int, int]] = []
        if kind == "sessions":
            for time in times:
                if spans and time <= spans[-1][1]:
                    spans[-1] = (spans[-1][0], time + 4)
                else:
                    spans.append((time, time + 4))
        else:
            size, slide = (10, 10) if kind == "tumbling" else (12, 5)
            spans = [(start, start + size) for start in range(-slide * 10, times[-1] + 1, slide)]
        for start, end in spans:
            left, right = ([record for record in mine[side] if start <= record[1] < end] for side in ("left", "right"))
            if left or right:
                yield left, right


@pytest.mark.parametrize("kind", list(WINDOWS))
@pytest.mark.parametrize("seed", range(how_many(2, 6)))
def test_random_streams_against_brute_force(kind: str, seed: int, tmp_path: Path) -> None:
    chance = random.Random(f"{kind} {seed}")
    disorder = chance.choice([0, 6, 20])
    sides = {
        side: [(f"key-{chance.randrange(4)}", place * 2 + chance.randint(0, disorder)) for place in range(80)]
        for side in ("left", "right")
    }
    expected = Counter(
        (left, right)
        for lefts, rights in windows_by_hand(kind, sides)
        for left in lefts or [None]
        for right in rights or [None]
    )

    def apply(left: DataStream, right: DataStream) -> DataStream:
        both = stamped(left, disorder).co_group(stamped(right, disorder))
        return both.where(0).equal_to(0).window(WINDOWS[kind]).apply(FullOuter())

    configuration = {"state.backend.type": "rocksdb" if seed % 2 else "hashmap"}
    if seed % 2:
        configuration["state.backend.rocksdb.localdir"] = str(tmp_path)
    placement = moving(3) if seed % 3 == 0 else None
    with job_of(apply, configuration=configuration, workers=3, placement=placement, merge_after=3) as job:
        for sent in portions(sides, chance):
            happening = chance.random()
            if happening < 0.2:
                job.crash(Fault("manifest.before"), **sent)
            else:
                job.epoch(**sent)
                if happening < 0.5:
                    job.restart(parallelism=chance.randint(1, 3))
        job.end()
        assert Counter(job.output()) == expected
        assert left_over(job) == 0


# --- mistakes


def two_streams() -> tuple[DataStream, DataStream]:
    env = Env.get_execution_environment()
    return env.from_collection([("a", 1)]), env.from_collection([("a", 2)])


def test_steps_in_the_wrong_order() -> None:
    left, right = two_streams()
    with pytest.raises(GraphError, match=r"where\(\) before equal_to\(\)"):
        left.join(right).equal_to(0)
    with pytest.raises(GraphError, match=r"before window\(\)"):
        left.join(right).where(0).window(TENS)
    with pytest.raises(GraphError, match=r"before apply\(\)"):
        left.co_group(right).where(0).equal_to(0).apply(FullOuter())


def test_what_is_no_function_key_or_stream() -> None:
    left, right = two_streams()
    ready = left.join(right).where(0).equal_to(0).window(TENS)
    with pytest.raises(TypeError, match="JoinFunction"):
        ready.apply("join")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="CoGroupFunction"):
        left.co_group(right).where(0).equal_to(0).window(TENS).apply(3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="key"):
        left.join(right).where(None)  # type: ignore[arg-type]
    with pytest.raises(GraphError, match="of one type"):
        left.join(right).where(0, Types.STRING()).equal_to(0, Types.LONG())
    with pytest.raises(GraphError, match="different environments"):
        left.join(two_streams()[1])
    with pytest.raises(TypeError, match="DataStream"):
        left.co_group([1])  # type: ignore[arg-type]


def test_streams_without_timestamps() -> None:
    def apply(left: DataStream, right: DataStream) -> DataStream:
        return left.join(right).where(0).equal_to(0).window(TENS).apply(Both())

    with pytest.raises(TidemillError, match="assign_timestamps_and_watermarks"):
        outcome(apply, [("a", 1)], [("a", 1)])


def test_an_error_in_a_join_function() -> None:
    def bad(first: Any, second: Any) -> Any:
        raise ValueError("no such pair")

    with pytest.raises(UserCodeError, match="no such pair"):
        outcome(lambda one, two: joined(TENS, one, two).apply(bad), [("a", 1)], [("a", 1)])
