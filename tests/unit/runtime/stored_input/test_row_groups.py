"""Which row groups an epoch reads, and what that makes of event time: never a late record of a file in order."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.semantics.cases_state import SecondField
from tests.semantics.partitions import OnMarker, told
from tests.thorough import examples
from tidemill.checkpoint.storage.storages import LocalStorage
from tidemill.common import Types, WatermarkStrategy
from tidemill.connectors.sources import ClockOf, Split
from tidemill.datastream import DataStream, KeyedProcessFunction, StreamExecutionEnvironment
from tidemill.runtime.stored_input.parquet_source import ParquetSource
from tidemill.runtime.stored_input.row_groups import UNREAD, Beginning, RowGroup, RowGroups
from tidemill.testing import JobHarness

ROW = Types.TUPLE([Types.STRING(), Types.LONG(), Types.STRING()])


# --- the choice


def files(*starts: list[int], rows: int = 10) -> list[list[RowGroup]]:
    """A file for each list; its row groups begin at these times."""
    return [
        [RowGroup(f"dir/f{name}", index, rows, f"f{name}", 100) for index in range(len(times))]
        for name, times in enumerate(starts)
    ]


def beginning_at(*starts: list[int]) -> Any:
    return lambda group: Beginning(starts[int(group.file[-1])][group.index], starts[int(group.file[-1])][group.index])


def by_task(splits: Iterable[Split | Iterable[Split]]) -> list[list[Split]]:
    return [[some] if isinstance(some, Split) else list(some) for some in splits]


def read(splits: Iterable[Split | Iterable[Split]]) -> list[tuple[str, int]]:
    """(file, row group) of all that is read."""
    every = [split for some in by_task(splits) for split in some]
    return [(group.partition, group.index) for split in every for group in split.payload]


def test_without_event_time_files_are_read_one_after_the_other() -> None:
    groups = RowGroups(files([0, 1], [0, 1]), None, None)
    assert read(groups.next_splits(1, 20)) == [("f0", 0), ("f0", 1)]
    assert groups.position() == 2, "the position is a number, as ever"
    again = RowGroups(files([0, 1], [0, 1]), 2, None)
    assert read(again.next_splits(1, 10)) == [("f1", 0)]
    assert not again.finished
    assert read(again.next_splits(1, 10)) == [("f1", 1)]
    assert again.finished


def test_the_row_group_that_begins_earliest_is_read_next() -> None:
    starts = [0, 50, 90], [10, 20, 95]
    groups = RowGroups(files(*starts), None, beginning_at(*starts))
    order = [read(groups.next_splits(1, 10)) for _ in range(4)]
    assert order == [[("f0", 0)], [("f1", 0)], [("f1", 1)], [("f0", 1)]]
    assert groups.position() == [2, 2]
    assert read(RowGroups(files(*starts), [1, 1], beginning_at(*starts)).next_splits(1, 10)) == [("f1", 1)]


def test_files_of_which_nothing_is_known_are_read_in_turn() -> None:
    groups = RowGroups(files([0, 0], [0, 0]), None, lambda group: Beginning())
    assert [read(groups.next_splits(1, 10)) for _ in range(3)] == [[("f0", 0)], [("f1", 0)], [("f0", 1)]]


def test_each_file_is_a_partition_and_those_not_started_are_one() -> None:
    starts = [0, 50], [10, 20], [30]
    groups = RowGroups(files(*starts), None, beginning_at(*starts))
    first, second, third, fourth = (by_task(groups.next_splits(1, 10))[0] for _ in range(4))
    assert [(s.partition, s.last, s.watermark) for s in first] == [("f0", False, None), (UNREAD, False, 10)]
    assert [(s.partition, s.last, s.watermark) for s in second] == [("f1", False, None), (UNREAD, False, 30)]
    assert [(s.partition, s.last, s.watermark) for s in third] == [("f1", True, None), (UNREAD, False, 30)]
    assert [(s.partition, s.last, s.watermark) for s in fourth] == [("f2", True, None), (UNREAD, True, None)]
    assert [s.partition for s in by_task(groups.next_splits(1, 10))[0]] == ["f0"], "all were begun"


def test_a_file_that_ends_says_so_to_all_that_read_it() -> None:
    groups = RowGroups(files([0, 1, 2, 3]), None, beginning_at([0, 1, 2, 3]))
    assert [[s.last for s in splits if s.partition == "f0"] for splits in by_task(groups.next_splits(2, 100))] == [
        [True]
    ] * 2


def test_files_that_are_read_at_once_are_not_inspected() -> None:
    def never(group: RowGroup) -> Beginning:
        raise AssertionError(group)

    groups = RowGroups(files([0, 1], [2, 3]), None, never)
    assert len(read(groups.next_splits(2, 40))) == 4
    assert groups.finished


def test_a_row_group_with_more_rows_than_an_epoch_may_have_is_read_in_slices_by_all_subtasks() -> None:
    groups = RowGroups(files([0, 1], rows=10), None, None)
    (first, second) = by_task(groups.next_splits(2, 4))
    assert [(g.index, g.start, g.rows) for s in (*first, *second) for g in s.payload] == [(0, 0, 2), (0, 2, 2)]
    assert groups.position() == {"groups": [0], "rows": [4]}
    again = RowGroups(files([0, 1], rows=10), groups.position(), None)
    ((rest,),) = by_task(again.next_splits(1, 8))
    assert [(g.index, g.start, g.rows) for g in rest.payload] == [(0, 4, 6)]
    assert again.position() == 1, "the position is a number again"


def test_a_part_that_is_read_in_slices_ends_with_the_last_of_them() -> None:
    groups = RowGroups(files([0], [5], rows=10), None, beginning_at([0], [5]))
    ends = []
    while not groups.finished:
        ends.append([(s.partition, s.last, s.watermark) for s in by_task(groups.next_splits(1, 6))[0]])
    assert ends == [
        [("f0", False, None), (UNREAD, False, 5)],
        [("f0", True, None), (UNREAD, False, 5)],
        [("f1", False, None), (UNREAD, True, None)],
        [("f1", True, None)],
    ]


@pytest.mark.parametrize("seed", range(20))
def test_slices_are_all_rows_once_whatever_the_limit_and_the_restarts(seed: int) -> None:
    dice = random.Random(seed)
    parts = [
        [RowGroup(f"f{part}", index, dice.randint(1, 30), f"f{part}", 1) for index in range(dice.randint(1, 4))]
        for part in range(dice.randint(1, 4))
    ]
    beginning = (lambda group: Beginning(group.index)) if dice.random() < 0.5 else None
    groups, seen = RowGroups(parts, None, beginning), []
    while not groups.finished:
        limit = dice.choice([1, 2, 7, 20, 50])
        chosen = [g for task in by_task(groups.next_splits(dice.randint(1, 3), limit)) for s in task for g in s.payload]
        assert 1 <= sum(group.rows for group in chosen) <= limit
        seen += [(g.file, g.index, row) for g in chosen for row in range(g.start, g.start + g.rows)]
        if dice.random() < 0.4:
            groups = RowGroups(parts, json.loads(json.dumps(groups.position())), beginning)
    assert sorted(seen) == [
        (f"f{part}", group.index, row) for part, some in enumerate(parts) for group in some for row in range(group.rows)
    ]


def test_ten_thousand_files_are_dealt_out_in_one_go() -> None:
    """Each file is inspected once, and its turn is requested as often as it has one."""
    looked: list[RowGroup] = []

    def beginning(group: RowGroup) -> Beginning:
        looked.append(group)
        return Beginning(int(group.file))

    many = [[RowGroup(f"{name:05}", index, 1, f"{name:05}", 100) for index in range(2)] for name in range(10_000)]
    groups = RowGroups(many, None, beginning)
    began = time.thread_time()
    taken = read(groups.next_splits(4, 10_000))
    assert taken == [(f"{name:05}", index) for name in range(5_000) for index in range(2)]
    assert len(looked) == len(set(looked)), "none is looked into twice"
    assert time.thread_time() - began < 5, "with a walk over all files for each it is half a minute"


# --- what becomes of event time


class Read(ParquetSource):
    """As the executor makes it."""

    clock_of = ClockOf.PARTITION


class Seen(KeyedProcessFunction):
    """(name, event time, the watermark), and an alarm at each event time."""

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        ctx.timer_service().register_event_time_timer(value[1])
        yield value[0], value[1], told(ctx.timer_service().current_watermark())

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterable[Any]:
        yield "alarm", timestamp, told(ctx.timer_service().current_watermark())


def write(folder: Path, contents: Iterable[Iterable[tuple[str, int, str]]], group: int) -> Path:
    for number, rows in enumerate(contents):
        names, times, parts = zip(*rows, strict=True) if rows else ((), (), ())
        schema = pa.schema([("name", pa.string()), ("at", pa.int64()), ("part", pa.string())])
        table = pa.table([pa.array(names, pa.string()), pa.array(times, pa.int64()), pa.array(parts)], schema=schema)
        pq.write_table(table, folder / f"part-{number:05}.parquet", row_group_size=group)
    return folder


MONOTONOUS = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(SecondField())


def program(
    folder: Path,
    *,
    partition_by: tuple[str, ...] = (),
    at_source: bool = True,
    behind: bool = False,
    strategy: WatermarkStrategy = MONOTONOUS,
) -> Any:
    def build(env: StreamExecutionEnvironment) -> DataStream:
        place = LocalStorage(folder.parent), f"{folder.name}/"
        source = Read(*place, ROW, partition_by, has_time=True, strategy=strategy if at_source else None)
        rows = env.from_source(source, strategy if at_source else None, "rows").uid("rows")
        timed = rows.map(lambda row: row, ROW).assign_timestamps_and_watermarks(strategy) if behind else rows
        return timed.key_by(lambda row: "all").process(Seen()).uid("seen").set_parallelism(1)

    return build


def records(output: Iterable[Any]) -> list[Any]:
    return [record for record in output if record[0] != "alarm"]


def test_files_in_order_of_time_do_not_wait_for_each_other(tmp_path: Path) -> None:
    days = [[(f"{day}", day * 100 + at, "p") for at in range(0, 100, 5)] for day in range(3)]
    with JobHarness(program(write(tmp_path, days, 4)), parallelism=1, max_records=8) as job:
        job.rescale({"rows": 2})
        job.run()
        output = job.output()
    order = [record[:2] for record in output]
    assert order.index(("alarm", 50)) < order.index(("1", 100)), "the first day is over before the second begins"
    assert order.index(("alarm", 150)) < order.index(("2", 200))


@pytest.mark.parametrize("behind", [False, True], ids=["at the source", "and behind it again"])
def test_files_of_the_same_time_are_read_side_by_side(tmp_path: Path, behind: bool) -> None:
    hours = [[(f"{file}", at + file, "p") for at in range(0, 400, 10)] for file in range(3)]
    with JobHarness(program(write(tmp_path, hours, 4), behind=behind), parallelism=1, max_records=16) as job:
        job.rescale({"rows": 2})
        job.run()
        output = job.output()
    assert all(mark == "min" or mark < at for _, at, mark in records(output)), "none is late"
    order = [record[:2] for record in output]
    assert order.index(("alarm", 100)) < order.index(("0", 300)), "and windows need not wait for the end"


@pytest.mark.parametrize("at_source", [True, False], ids=["at the source", "behind it"])
def test_a_partition_in_a_separate_file_is_announced_before_it_is_read(tmp_path: Path, at_source: bool) -> None:
    """As of a topic that is read as a batch: one partition would else be at its end before another begins."""
    logs = [[(part, at, part) for at in range(start, start + 100, 10)] for part, start in (("p", 50), ("q", 0))]
    by = ("part",) if at_source else ()
    build = program(write(tmp_path, logs, 5), partition_by=by, at_source=at_source, behind=not at_source)
    with JobHarness(build, parallelism=1, max_records=5) as job:
        job.run()
        assert all(mark == "min" or mark < at for _, at, mark in records(job.output())), "none is late"
        assert len(records(job.output())) == 20


@pytest.mark.parametrize("at_source", [True, False], ids=["at the source", "behind it"])
def test_a_file_that_waits_for_its_turn_is_not_idle(tmp_path: Path, at_source: bool) -> None:
    """Each epoch takes longer than the idle timeout, and reads one of two files of the same hours."""
    hours = [[(f"{file}", at + file, "p") for at in range(0, 1000, 10)] for file in range(2)]
    build = program(
        write(tmp_path, hours, 50), at_source=at_source, behind=not at_source, strategy=MONOTONOUS.with_idleness(1000)
    )
    with JobHarness(build, parallelism=1, max_records=50) as job:
        for epoch in range(1, 5):
            job.set_processing_time(5000 * epoch)
            job.epoch()
        assert job.head.finished
        assert all(mark == "min" or mark < at for _, at, mark in records(job.output())), "none is late"


def test_a_partition_of_a_file_that_has_ended_elsewhere_holds_no_other_back(tmp_path: Path) -> None:
    """The second file is begun by the second task, and read to its end by the first."""
    starts = {"a": (0, 50), "b": (0, 100), "c": (55, 255)}
    contents = [[(name, at, "p") for at in range(start, end, 10)] for name, (start, end) in starts.items()]
    build = program(write(tmp_path, contents, 5), partition_by=("part",))
    with JobHarness(build, parallelism=1, max_records=10) as job:
        job.rescale({"rows": 2})
        times: list[int] = []
        for _ in range(3):
            job.epoch()
            times += job.head.watermarks["seen"]
        assert times == [39, 94, 194], "the third file alone tells the time when the second has ended"
        assert [entry[0] for state in job.head.times["rows"] for entry in state] == ["part-00002.parquet/p"] * 2


def test_a_record_that_is_its_own_watermark_is_not_late(tmp_path: Path) -> None:
    """What is known of a file before it is read must leave room for its first record."""
    contents = [[("mark", at, "p") for at in range(start, start + 50, 10)] for start in (0, 100)]
    strategy = WatermarkStrategy.for_generator(OnMarker).with_timestamp_assigner(SecondField())
    with JobHarness(program(write(tmp_path, contents, 5), strategy=strategy), parallelism=1, max_records=5) as job:
        job.run()
        assert all(mark == "min" or mark < at for _, at, mark in records(job.output()))


@settings(
    max_examples=examples(15),
    deadline=None,
    database=None,
    phases=[Phase.explicit, Phase.generate, Phase.shrink],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(chance=st.randoms(use_true_random=False), by=st.sampled_from([(), ("part",)]))
def test_no_record_of_files_in_order_is_late_and_none_is_lost(
    tmp_path_factory: pytest.TempPathFactory, chance: random.Random, by: tuple[str, ...]
) -> None:
    contents = []
    for number in range(chance.randint(1, 5)):
        now = chance.choice([0, 0, 1000 * number])
        rows = []
        for index in range(chance.randint(0, 30)):
            now += chance.randint(0, 50)
            rows.append((f"{number}-{index}", now, chance.choice("pq")))
        contents.append(rows)
    folder = write(tmp_path_factory.mktemp("rows"), contents, chance.randint(1, 8))
    with JobHarness(program(folder, partition_by=by), parallelism=1, max_records=chance.randint(1, 20)) as job:
        while not job.head.finished:
            job.rescale({"rows": chance.randint(1, 3)})
            job.epoch()
            if chance.random() < 0.3 and not job.head.finished:
                job.restart()
        output = job.output()
    assert sorted(name for name, *_ in records(output)) == sorted(name for rows in contents for name, *_ in rows)
    assert all(mark == "min" or mark < at for _, at, mark in records(output)), "none is late"
    marks = [float("-inf") if mark == "min" else mark for _, _, mark in records(output)]
    assert marks == sorted(marks), "and time never goes back"
