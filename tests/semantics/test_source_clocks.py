"""Event time of sources that are read as Spark reads them: who reads what is decided anew in each epoch."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tests.semantics.cases_state import SecondField
from tests.semantics.dealt import Dealt, DealtSource, Row
from tests.semantics.partitions import EveryThird, KeyedTellTime, told
from tests.semantics.windows import Show
from tests.thorough import examples
from tidemill.common import Types, WatermarkStrategy
from tidemill.datastream import (
    DataStream,
    OutputTag,
    ProcessFunction,
    StreamExecutionEnvironment,
    TumblingEventTimeWindows,
)
from tidemill.faults import Fault
from tidemill.testing import JobHarness

Env = StreamExecutionEnvironment
BY = ("topic", "part")


few = settings(
    max_examples=examples(12), deadline=None, database=None, phases=[Phase.explicit, Phase.generate, Phase.shrink]
)


def monotonous() -> WatermarkStrategy:
    return WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(SecondField())


def out_of_order(bound: int) -> WatermarkStrategy:
    return WatermarkStrategy.for_bounded_out_of_orderness(bound).with_timestamp_assigner(SecondField())


def telling(
    dealt: Dealt,
    partition_by: tuple[str, ...] = (),
    strategy: WatermarkStrategy | None = None,
    *,
    at_source: bool = True,
) -> Any:
    """(name, time, the watermark) of each record, and alarms at the times of the records."""

    def build(env: Env) -> DataStream:
        given = strategy or monotonous()
        source = env.from_source(DealtSource(dealt, partition_by), given if at_source else None, "dealt").uid("dealt")
        timed = source if at_source else source.assign_timestamps_and_watermarks(given)
        records = timed.map(lambda row: (row[0], row[1]), Types.TUPLE([Types.STRING(), Types.LONG()]))
        return records.key_by(lambda record: "all").process(KeyedTellTime()).set_parallelism(1)

    return build


def harness(build: Any) -> JobHarness:
    return JobHarness(build, parallelism=1, workers=3)


def due(job: JobHarness) -> int | None:
    """When an epoch is to be run, whether rows come or not."""
    return job.head.next_timer


def a(at: int, part: str = "p") -> Row:
    return "a", at, part


# --- one clock for a source


both_ways = pytest.mark.parametrize("at_source", [True, False], ids=["at the source", "behind it"])


@both_ways
def test_what_is_read_in_one_epoch_does_not_make_each_other_late(at_source: bool) -> None:
    dealt = Dealt()
    with harness(telling(dealt, at_source=at_source)) as job:
        one_file, another = [a(100), a(200), a(300)], [a(10), a(20), a(30)]
        first = dealt.run(job, [*one_file, *another])
        assert {seen for name, _, seen in first if name == "a"} == {"min"}
        assert [time for name, time, seen in first if name == "alarm"] == [10, 20, 30, 100, 200]
        assert dealt.run(job, [a(301)])[0] == ("a", 301, 299)


@both_ways
def test_the_furthest_task_determines_the_time_at_the_end_of_the_epoch(at_source: bool) -> None:
    dealt = Dealt()
    with harness(telling(dealt, at_source=at_source)) as job:
        first = dealt.run(job, [a(10)], [a(50)], [])
        assert first[-1] == ("alarm", 10, 49), "neither the slow task nor the one without rows is waited for"
        assert dealt.run(job, [a(60)]) == [("a", 60, 49), ("alarm", 50, 59)]
        assert dealt.run(job, [], [a(70)], [], []) == [("a", 70, 59), ("alarm", 60, 69)]
        job.restart()
        assert dealt.run(job, [], [a(80)]) == [("a", 80, 69), ("alarm", 70, 79)]


def test_functions_beside_the_source_see_time_go_on_only() -> None:
    class Tell(ProcessFunction):
        def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Any:
            yield value[1], told(ctx.timer_service().current_watermark())

    dealt = Dealt()

    def build(env: Env) -> DataStream:
        return env.from_source(DealtSource(dealt), monotonous(), "dealt").uid("dealt").process(Tell())

    with harness(build) as job:
        assert sorted(dealt.run(job, [a(10)], [a(50)])) == [(10, "min"), (50, "min")]
        assert dealt.run(job, [a(20)], [], []) == [(20, 49)]
        assert dealt.run(job, [], [a(51)]) == [(51, 49)]


def test_a_source_without_rows_is_waited_for() -> None:
    silent, dealt = Dealt(), Dealt()

    def build(env: Env) -> DataStream:
        one = env.from_source(DealtSource(dealt), monotonous(), "dealt").uid("dealt")
        other = env.from_source(DealtSource(silent), monotonous(), "silent").uid("silent")
        return one.union(other).map(lambda row: row[:2]).key_by(lambda r: "all").process(KeyedTellTime())

    with harness(build) as job:
        dealt.run(job, [a(10)], [])
        assert dealt.run(job, [a(20)], []) == [("a", 20, "min")]
        silent.epochs.append([[a(15)], []])
        assert ("alarm", 10, 14) in dealt.run(job, [a(30)])


def test_it_is_idle_when_no_task_has_had_rows_for_long() -> None:
    dealt = Dealt()
    with harness(telling(dealt, strategy=monotonous().with_idleness(100))) as job:
        dealt.run(job, [a(10)], [], clock=0)
        dealt.run(job, [], [a(20)], [], clock=90)
        dealt.run(job, [], [], clock=120)
        assert due(job) == 191, "the last rows came at 90"
        dealt.run(job, [], [], [], clock=191)
        assert due(job) is None
        assert dealt.run(job, [a(30)], clock=222) == [("a", 30, 19), ("alarm", 20, 29)]


@few
@given(st.randoms(use_true_random=False))
def test_who_reads_what_changes_nothing_not_even_what_is_late(chance: random.Random) -> None:
    epochs = [
        [a(20 * number + chance.randint(-25, 25)) for _ in range(chance.randint(0, 6))]
        for number in range(chance.randint(1, 5))
    ]
    late = OutputTag("late", Types.TUPLE([Types.STRING(), Types.LONG()]))

    def outcome(chance: random.Random | None) -> Any:
        dealt = Dealt()

        def build(env: Env) -> dict[str, DataStream]:
            rows = env.from_source(DealtSource(dealt), out_of_order(5), "dealt").uid("dealt")
            pairs = rows.map(lambda row: (row[0], row[1]), Types.TUPLE([Types.STRING(), Types.LONG()]))
            windowed = pairs.key_by(0).window(TumblingEventTimeWindows.of(10)).side_output_late_data(late)
            shown = windowed.apply(Show())
            return {"output": shown, "late": shown.get_side_output(late)}

        with JobHarness(build, parallelism=1, workers=2) as job:
            for rows in epochs:
                tasks: list[list[Row]] = [[] for _ in range(1 if chance is None else chance.randint(1, 4))]
                for row in rows:
                    (tasks[0] if chance is None else chance.choice(tasks)).append(row)
                dealt.run(job, *tasks)
                if chance is not None and chance.random() < 0.3:
                    job.restart(parallelism=chance.randint(1, 3))
            dealt.ended = True
            job.end()
            windows = sorted((*window[:3], sorted(window[3])) for window in job.output())
            return windows, sorted(job.output("late"))

    assert outcome(chance) == outcome(None)


# --- a clock for each partition


def test_the_slowest_partition_counts_wherever_it_is_read() -> None:
    dealt = Dealt()
    with harness(telling(dealt, BY)) as job:
        dealt.run(job, [a(50, "p"), a(10, "q"), a(60, "p")])
        assert dealt.run(job, [a(70, "p")]) == [("a", 70, 9)], "q stands at 10"
        assert dealt.run(job, [], [a(80, "p")], []) == [("a", 80, 9)]
        assert dealt.run(job, [], [], [], [a(30, "q")]) == [("a", 30, 9), ("alarm", 10, 29)], "whoever reads q"
        assert dealt.run(job, [a(81, "p")], []) == [("a", 81, 29)]


def test_partitions_are_known_by_all_their_columns() -> None:
    dealt = Dealt()
    with harness(telling(dealt, BY)) as job:
        dealt.run(job, [a(50, "p"), a(10, "q")], [])
        entries = [entry for state in job.head.times["dealt"] for entry in state or ()]
        assert {entry[0]: entry[1] for entry in entries} == {"t/p": 49, "t/q": 9}


@pytest.mark.parametrize("crash", [False, True])
def test_each_task_keeps_the_time_of_the_partitions_it_reads(crash: bool) -> None:
    """As with Kafka, where a task reads a partition, and the same one as long as all have records."""
    dealt = Dealt()
    with harness(telling(dealt, BY)) as job:
        first = dealt.run(job, [a(50, "p")], [a(10, "q")])
        assert [record for record in first if record[0] == "alarm"] == []
        if crash:
            job.crash(Fault("manifest.before"))
        second = dealt.run(job, [a(60, "p")], [a(55, "q")])
        assert [record[1] for record in second if record[0] == "alarm"] == [10, 50], "at once: each read its own"


def test_partitions_are_unknown_before_the_first_row() -> None:
    dealt, other = Dealt(), Dealt()

    def build(env: Env) -> DataStream:
        named = env.from_source(DealtSource(dealt, BY), monotonous(), "dealt").uid("dealt")
        plain = env.from_source(DealtSource(other), monotonous(), "other").uid("other")
        return named.union(plain).map(lambda row: row[:2]).key_by(lambda r: "all").process(KeyedTellTime())

    with harness(build) as job:
        other.epochs.append([[a(10)]])
        dealt.run(job, [], [])
        other.epochs.append([[a(20)]])
        assert dealt.run(job, []) == [("a", 20, "min")], "the one without rows is waited for"
        other.epochs.append([[a(30)]])
        dealt.run(job, [a(25)], [])
        assert dealt.run(job, [a(40)])[-1] == ("alarm", 25, 29), "and then it is not"


def test_a_partition_without_rows_goes_idle_and_comes_back() -> None:
    dealt = Dealt()
    with harness(telling(dealt, BY, monotonous().with_idleness(100))) as job:
        dealt.run(job, [a(50, "p"), a(10, "q")], clock=0)
        assert dealt.run(job, [a(60, "p")], clock=50) == [("a", 60, 9)]
        assert due(job) == 101, "of q there were none since 0"
        dealt.run(job, [a(70, "p")], clock=101)
        assert dealt.run(job, [a(80, "p")], clock=152) == [("a", 80, 69), ("alarm", 70, 79)]
        job.restart()
        assert dealt.run(job, [a(90, "p")], [], clock=153) == [("a", 90, 79), ("alarm", 80, 89)], "still idle"
        dealt.run(job, [a(20, "q")], clock=154)
        assert dealt.run(job, [a(100, "p")], clock=155) == [("a", 100, 89)], "q is back, and behind"


def test_a_generator_goes_with_its_partition() -> None:
    strategy = WatermarkStrategy.for_generator(EveryThird).with_timestamp_assigner(SecondField())
    dealt = Dealt()
    with harness(telling(dealt, ("part",), strategy)) as job:
        dealt.run(job, [a(1), a(2)])
        third = dealt.run(job, [], [a(3)])
        assert third == [("a", 3, "min"), ("alarm", 1, 3), ("alarm", 2, 3), ("alarm", 3, 3)], "it was read elsewhere"


@few
@given(st.randoms(use_true_random=False))
def test_partitions_in_order_make_nothing_late_however_far_apart_they_are(chance: random.Random) -> None:
    names = ["p", "q", "r"][: chance.randint(1, 3)]
    now = {name: chance.randint(0, 500) for name in names}
    seen: list[int] = []
    dealt = Dealt()
    with harness(telling(dealt, BY)) as job:
        read_before: set[str] = set()
        for _ in range(chance.randint(1, 8)):
            tasks: list[list[Row]] = [[] for _ in range(chance.randint(1, 3))]
            # All partitions come first once: until then nobody can know of one that is behind.
            for name in names if not read_before else chance.sample(names, chance.randint(0, len(names))):
                task = chance.choice(tasks)
                for _ in range(chance.randint(1, 3)):
                    now[name] += chance.randint(1, 30)
                    task.append((f"{name}{now[name]}", now[name], name))
            read_before |= {row[2] for task in tasks for row in task}
            for name, at, mark in dealt.run(job, *tasks):
                if name != "alarm":
                    assert mark == "min" or mark < at, "it is late"
                    seen.append(-1 if mark == "min" else mark)
            if chance.random() < 0.3:
                job.restart()
        assert seen == sorted(seen)
        dealt.run(job, [])
        assert job.head.watermarks["dealt"] == (min(now.values()) - 1,), "and time is that of the slowest"
