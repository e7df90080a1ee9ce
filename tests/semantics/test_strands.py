"""Time within an epoch of what Spark reads: each file, and each partition, of each task has a time; the slowest counts.

A model computes from the input alone how far time may have come, and must have come, at each record of each target.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tests.semantics.cases_state import SecondField
from tests.semantics.dealt import Dealt, DealtSource, Row, Tasks
from tests.semantics.partitions import KeyedTellTime, OnMarker
from tests.semantics.windows import Show
from tests.thorough import examples
from tidemill.common import Duration, Types, WatermarkStrategy
from tidemill.datastream import (
    AsyncDataStream,
    AsyncFunction,
    DataStream,
    KeyedProcessFunction,
    OutputTag,
    StreamExecutionEnvironment,
    TumblingEventTimeWindows,
)
from tidemill.faults import Fault
from tidemill.runtime.exchange import sender as exchange
from tidemill.runtime.time import strands
from tidemill.testing import JobHarness

Env = StreamExecutionEnvironment
MIN_TIME = -(2**63)
BY = ("topic", "part")
BOUND = 5
TIMEOUT = 100

few = settings(
    max_examples=examples(15), deadline=None, database=None, phases=[Phase.explicit, Phase.generate, Phase.shrink]
)


def out_of_order(bound: int = BOUND) -> WatermarkStrategy:
    return WatermarkStrategy.for_bounded_out_of_orderness(bound).with_timestamp_assigner(SecondField())


@pytest.fixture(autouse=True)
def small_parcels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two records make a parcel, so that there are many to be put in order."""
    monkeypatch.setattr(exchange, "_FIRST_COUNT", 2)
    monkeypatch.setattr(exchange, "_MOST_COUNT", 2)


def telling(dealt: Dealt, partition_by: tuple[str, ...] = (), strategy: WatermarkStrategy | None = None) -> Any:
    def build(env: Env) -> DataStream:
        source = DealtSource(dealt, partition_by, files=not partition_by)
        rows = env.from_source(source, strategy or out_of_order(), "dealt").uid("dealt")
        pairs = rows.map(lambda row: (row[0], row[1]), Types.TUPLE([Types.STRING(), Types.LONG()]))
        return pairs.key_by(lambda pair: "all").process(KeyedTellTime()).set_parallelism(1)

    return build


def rows_of(part: str, *times: int) -> list[Row]:
    return [(f"{part}{at}", at, part) for at in times]


def names(output: Iterable[Any]) -> list[str]:
    return [f"{name} {at}" if name == "alarm" else name for name, at, *_ in output]


# --- examples


def test_a_large_epoch_moves_time_on_as_it_goes() -> None:
    """One task reads two files one after the other; both are of the same ten seconds."""
    dealt = Dealt()
    one, other = rows_of("x", *range(0, 10_000, 100)), rows_of("y", *range(50, 10_000, 100))
    with JobHarness(telling(dealt), parallelism=1) as job:
        output = names(dealt.run(job, [*one, *other]))
    assert output.index("alarm 1000") < output.index("x9900")
    assert output.index("alarm 5000") < output.index("y9950")
    assert not any(output.index(f"alarm {at}") < output.index(f"y{at + 50}") for at in range(0, 9_000, 100)), "in turn"


def test_no_file_waits_for_one_that_is_read_to_its_end() -> None:
    dealt = Dealt()
    with JobHarness(telling(dealt), parallelism=1) as job:
        output = dealt.run(job, rows_of("short", 10, 20), rows_of("long", *range(0, 400, 10)))
        last = [record for record in output if record[0] == "long390"]
        assert last[0][2] >= 360, "the short one has ended at 20"


def test_only_rows_of_one_file_make_each_other_late() -> None:
    late = OutputTag("late", Types.TUPLE([Types.STRING(), Types.LONG()]))
    dealt = Dealt()

    def build(env: Env) -> dict[str, DataStream]:
        rows = env.from_source(DealtSource(dealt, files=True), out_of_order(), "dealt").uid("dealt")
        pairs = rows.map(lambda row: (row[0], row[1]), Types.TUPLE([Types.STRING(), Types.LONG()]))
        windowed = pairs.key_by(lambda pair: 0).window(TumblingEventTimeWindows.of(10)).side_output_late_data(late)
        shown = windowed.apply(Show())
        return {"output": shown, "late": shown.get_side_output(late)}

    with JobHarness(build, parallelism=1) as job:
        dealt.run(job, [*rows_of("x", 100, 101, 102, 103, 20, 104), *rows_of("y", 3, 4, 5, 50)])
        assert [name for name, _ in job.output("late")] == ["x20"]
        assert next(len(pairs) for *_, pairs in job.output()) == 3, "of the first window none was lost"


def test_a_partition_is_waited_for_in_band() -> None:
    dealt = Dealt()
    with JobHarness(telling(dealt, BY), parallelism=1) as job:
        first = names(dealt.run(job, [*rows_of("p", *range(0, 400, 10)), *rows_of("q", *range(0, 200, 10))]))
        assert first.index("alarm 50") < first.index("q190")
        assert "alarm 190" not in first, "q may still bring something"
        second = names(dealt.run(job, [], rows_of("p", *range(400, 800, 10))))
        assert second == [f"p{at}" for at in range(400, 800, 10)], "q brought nothing"
        third = names(dealt.run(job, rows_of("q", *range(200, 800, 10))))
        assert third.index("alarm 300") < third.index("q790")


def test_rows_of_which_nothing_is_known_may_be_in_any_order() -> None:
    dealt = Dealt()

    def build(env: Env) -> DataStream:
        rows = env.from_source(DealtSource(dealt), out_of_order(), "dealt").uid("dealt")
        return rows.map(lambda row: (row[0], row[1])).key_by(lambda pair: 0).process(KeyedTellTime())

    with JobHarness(build, parallelism=1) as job:
        output = dealt.run(job, rows_of("x", *range(1000, 0, -10)))
        assert {mark for name, _, mark in output if name != "alarm"} == {"min"}
        assert job.head.watermarks["dealt"] == (1000 - BOUND - 1,)


def test_what_a_generator_emits_counts_from_the_next_record_of_its_strand_on() -> None:
    strategy = WatermarkStrategy.for_generator(OnMarker).with_timestamp_assigner(SecondField())
    dealt = Dealt()
    with JobHarness(telling(dealt, (), strategy), parallelism=1) as job:
        output = dealt.run(job, [("x1", 1, "f"), ("mark", 7, "f"), ("x8", 8, "f"), ("x2", 2, "f")])
    assert [record for record in output if record[0] != "alarm"][-2:] == [("x8", 8, 7), ("x2", 2, 7)]


def test_a_stream_beside_the_one_with_watermarks_has_none() -> None:
    """Time in what is united with it stands: nobody knows what it may still bring."""
    dealt, other = Dealt(), Dealt()

    def build(env: Env) -> DataStream:
        rows = env.from_source(DealtSource(dealt, files=True), None, "dealt").uid("dealt")
        timed = rows.assign_timestamps_and_watermarks(out_of_order())
        more = env.from_source(DealtSource(other, files=True), out_of_order(), "other").uid("other")
        plain = rows.map(lambda row: row[:2]).set_parallelism(1)
        watched = more.map(lambda row: row[:2]).union(plain, timed.map(lambda row: row[:2]))
        return watched.key_by(lambda pair: 0).process(KeyedTellTime())

    with JobHarness(build, parallelism=1) as job:
        for start in (0, 100):
            other.epochs.append([rows_of("y", start + 5)])
            dealt.run(job, rows_of("x", start))
        assert {mark for *_, mark in job.output()} == {"min"}


class Slowly(AsyncFunction):
    """The first record of a file takes longer than what is read after it."""

    async def async_invoke(self, value: Any) -> list[Any]:
        if value[1] % 100 == 0:
            await asyncio.sleep(0.02)
        return [(value[0], value[1])]


def test_results_of_async_calls_stay_in_their_strand() -> None:
    dealt = Dealt()

    def build(env: Env) -> DataStream:
        rows = env.from_source(DealtSource(dealt, files=True), out_of_order(0), "dealt").uid("dealt")
        called = AsyncDataStream.unordered_wait(rows, Slowly(), Duration.of_seconds(300), 100)
        return called.key_by(lambda pair: 0).process(KeyedTellTime()).set_parallelism(1)

    with JobHarness(build, parallelism=1) as job:
        output = dealt.run(job, [*rows_of("x", *range(100, 200, 5)), *rows_of("y", *range(0, 100, 5))])
    assert all(mark == "min" or mark < at for name, at, mark in output if name != "alarm"), "none is late"


def test_of_many_files_the_later_ones_share_a_strand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strands, "MOST_STRANDS", 2)
    dealt = Dealt()
    files = [rows_of(f"{letter}-", *range(start, start + 500, 10)) for start, letter in enumerate("pqrst")]
    with JobHarness(telling(dealt), parallelism=1) as job:
        output = dealt.run(job, [row for file in files for row in file])
        assert all(mark == "min" or mark < at for name, at, mark in output if name != "alarm"), "none is late"
        assert names(output).index("alarm 100") < names(output).index("q-491")


# --- the model


class Tell(KeyedProcessFunction):
    """(subtask, name, the watermark)."""

    def open(self, runtime_context: Any) -> None:
        self.subtask = runtime_context.get_index_of_this_subtask()

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        yield self.subtask, value[0], ctx.timer_service().current_watermark()


class Model:
    """Time by the rules, from the rows of each epoch."""

    def __init__(self, by_partition: bool, idleness: bool) -> None:
        self.by_partition = by_partition
        self.idleness = idleness
        self.time = MIN_TIME
        self.known: dict[str, int] = {}
        self.idle: set[str] = set()
        self.since: dict[str, int] = {}

    def strands(self, tasks: Tasks) -> dict[Any, list[tuple[str, int]]]:
        """The rows of each strand as (name, the strand's time before it); the last one has the time after all."""
        found: dict[Any, list[tuple[str, int]]] = {}
        for number, rows in enumerate(tasks):
            times: dict[str, int] = {}
            for start in range(0, len(rows), 2):
                for piece in self._pieces(rows[start : start + 2]):
                    part = piece[0][2]
                    time = times.setdefault(part, self.known.get(part, MIN_TIME) if self.by_partition else self.time)
                    found.setdefault((number, part), []).extend((name, time) for name, _, _ in piece)
                    times[part] = max(time, max(at for _, at, _ in piece) - BOUND - 1)
            for part, time in times.items():
                found[number, part].append(("", time))
        return found

    def _pieces(self, rows: Any) -> Iterator[list[Row]]:
        if len(rows) == 2 and rows[0][2] != rows[1][2]:
            yield [rows[0]]
            yield [rows[1]]
        else:
            yield list(rows)

    def check(self, tasks: Tasks, clock: int, told: list[tuple[int, str, int]], end: Any) -> None:
        """What the targets reported in an epoch must be what the rules allow; then go to the next epoch."""
        found = self.strands(tasks)
        before = self.time
        self._end(found, clock)
        for target in {subtask for subtask, _, _ in told}:
            self._check_target(found, before, [record[1:] for record in told if record[0] == target])
        assert set(end) == {self.time}

    def _end(self, found: dict[Any, list[tuple[str, int]]], clock: int) -> None:
        read: dict[str, int] = {}
        for (_, part), rows in found.items():
            read[part] = max(read.get(part, MIN_TIME), rows[-1][1])
        if not self.by_partition:
            self.time = max([self.time, *read.values()])
            return
        for part in self.known.keys() | read.keys():
            if part in read:
                self.known[part] = read[part]
                self.idle.discard(part)
                self.since[part] = clock
            elif part not in self.idle and clock - self.since.setdefault(part, clock) > TIMEOUT and self.idleness:
                self.idle.add(part)
        active = [time for part, time in self.known.items() if part not in self.idle]
        self.time = max(self.time, min(active) if active else max(self.known.values(), default=MIN_TIME))

    def restarted(self) -> None:
        self.since = {}

    def _check_target(self, found: Any, before: int, told: list[tuple[str, int]]) -> None:
        here = {name for name, _ in told}
        # What each strand brings here: the rows, and the time before each of them.
        left = {key: [row for row in rows if row[0] in here] for key, rows in found.items()}
        left = {key: rows for key, rows in left.items() if rows}
        assert sum(map(len, left.values())) == len(told)
        strand_of = {row[0]: key for key, rows in left.items() for row in rows}
        heard = {key: found[key][0][1] for key in left}
        last = MIN_TIME
        for name, mark in told:
            key = strand_of[name]
            assert left[key][0][0] == name, "the rows of a strand stay in order"
            heard[key] = left[key][0][1]
            most = self._allowed(before, {key: rows[0][1] for key, rows in left.items()})
            least = self._allowed(before, {key: heard[key] for key in left})
            assert least <= mark <= most
            assert mark >= last, "never back"
            last = mark
            left[key].pop(0)
            if not left[key]:
                del left[key]

    def _allowed(self, before: int, unread: dict[Any, int]) -> int:
        times = list(unread.values())
        if self.by_partition:
            parts = {part for _, part in unread}
            times += [t for part, t in self.known.items() if part not in parts and part not in self.idle]
        elif not unread:
            times = [self.time]
        return max(before, min(times, default=max(self.known.values(), default=MIN_TIME)))


@pytest.mark.parametrize("kind", ["files", "partitions", "partitions that go idle"])
@few
@given(chance=st.randoms(use_true_random=False))
def test_time_is_as_the_model_says(chance: random.Random, kind: str) -> None:
    by_partition, idleness = kind != "files", kind == "partitions that go idle"
    strategy = out_of_order().with_idleness(TIMEOUT) if idleness else out_of_order()
    model, dealt, clock = Model(by_partition, idleness), Dealt(), 0
    now = {part: chance.randint(0, 300) for part in "pqr"}

    def build(env: Env) -> DataStream:
        source = DealtSource(dealt, BY if by_partition else (), files=not by_partition)
        rows = env.from_source(source, strategy, "dealt").uid("dealt")
        return rows.map(lambda row: (row[0], row[1])).key_by(lambda pair: pair[0]).process(Tell()).uid("tell")

    number = 0
    with JobHarness(build, parallelism=chance.randint(1, 3), workers=3) as job:
        for _ in range(chance.randint(1, 6)):
            tasks: list[list[Row]] = [[] for _ in range(chance.randint(1, 3))]
            for part in chance.sample("pqr", chance.randint(0, 2 if idleness and number else 3)):
                for _ in range(chance.randint(1, 20)):
                    now[part] += chance.randint(-8, 12)
                    chosen = chance.choice(tasks) if chance.random() < 0.1 else tasks[ord(part) % len(tasks)]
                    chosen.insert(len(chosen) - chance.randint(0, min(2, len(chosen))), (f"{number}", now[part], part))
                    number += 1
            clock += chance.choice([1, 60, 150])
            if chance.random() < 0.2:
                job.crash(Fault("manifest.before"))
                model.restarted()
            told = dealt.run(job, *tasks, clock=clock)
            model.check(tasks, clock, told, job.head.watermarks["tell"])
            if chance.random() < 0.3:
                job.restart(parallelism=chance.randint(1, 3))
                model.restarted()
