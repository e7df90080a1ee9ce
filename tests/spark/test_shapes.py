"""Dataflows of any shape become levels: forks, diamonds, unions, edges that skip levels, mixed parallelism."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.spark.jobs import collected, durable, environment
from tidemill.common import Encoder, Types
from tidemill.datastream import DataStream, OutputTag
from tidemill.datastream.connectors.file_system import BucketAssigner, FileSink, RollingPolicy
from tidemill.datastream.functions import CoMapFunction, KeyedCoProcessFunction, ProcessFunction, RuntimeContext
from tidemill.datastream.state import ValueStateDescriptor
from tidemill.spark.jobs.stages import Recent, StageBuilder

pytestmark = pytest.mark.usefixtures("spark")

SMALL = {"execution.epoch.max-records": "40"}


def files(folder: Path) -> FileSink:
    return (
        FileSink.for_row_format(str(folder), Encoder.simple_string_encoder())
        .with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
        .with_rolling_policy(RollingPolicy.on_epoch_rolling_policy())
        .build()
    )


def written(folder: Path) -> Counter[str]:
    return Counter(line for path in folder.iterdir() for line in path.read_text().splitlines())


def test_diamond_with_different_parallelism_on_both_sides() -> None:
    env = environment(SMALL)
    numbers = env.from_sequence(1, 100)
    left = numbers.map(lambda n: ("left", n % 5, n)).set_parallelism(3)
    right = numbers.key_by(lambda n: n % 4).map(lambda n: ("right", n % 5, n)).set_parallelism(1)
    joined = left.union(right).key_by(lambda row: row[1]).reduce(lambda a, b: ("both", a[1], a[2] + b[2]))
    last: dict[int, int] = {}
    for _, key, total in collected(joined.set_parallelism(2)):
        last[key] = max(total, last.get(key, 0))
    assert last == {key: 2 * sum(n for n in range(1, 101) if n % 5 == key) for key in range(5)}


def test_union_of_three_and_edges_that_skip_levels(tmp_path: Path) -> None:
    env = environment(SMALL)
    numbers = env.from_sequence(1, 60)
    once = numbers.key_by(lambda n: n % 3).map(lambda n: n)
    twice = once.key_by(lambda n: n % 5).map(lambda n: n).set_parallelism(3)
    thrice = twice.key_by(lambda n: n % 7).map(lambda n: n)
    # The source's own records go past two levels, those of the first step past one.
    numbers.rebalance().union(once, thrice).key_by(lambda n: n % 2).map(str).sink_to(files(tmp_path / "all"))
    env.execute("skipping")
    assert written(tmp_path / "all") == Counter({str(n): 3 for n in range(1, 61)})


def test_fork_with_side_output_and_several_sinks(tmp_path: Path) -> None:
    odd = OutputTag("odd", Types.LONG())

    class Separate(ProcessFunction):
        def process_element(self, value: int, ctx: ProcessFunction.Context) -> Iterable[Any]:
            yield (odd, value) if value % 2 else value

    env = environment(SMALL)
    even: DataStream = env.from_sequence(1, 100).process(Separate(), Types.LONG())
    even.map(str).sink_to(files(tmp_path / "even"))
    even.get_side_output(odd).key_by(lambda n: n % 10).map(str).sink_to(files(tmp_path / "odd"))
    even.filter(lambda n: n % 4 == 0).map(str).set_parallelism(3).sink_to(files(tmp_path / "four"))
    env.execute("forks")
    assert written(tmp_path / "even") == Counter(map(str, range(2, 101, 2)))
    assert written(tmp_path / "odd") == Counter(map(str, range(1, 101, 2)))
    assert written(tmp_path / "four") == Counter(map(str, range(4, 101, 4)))


class Enrich(KeyedCoProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.name = runtime_context.get_state(ValueStateDescriptor("name", Types.STRING()))
        self.waiting = runtime_context.get_state(ValueStateDescriptor("waiting", Types.LONG()))

    def process_element1(self, value: tuple[int, str], ctx: KeyedCoProcessFunction.Context) -> Iterable[Any]:
        self.name.update(value[1])
        for _ in range(self.waiting.value() or 0):
            yield value[1]
        self.waiting.clear()

    def process_element2(self, value: int, ctx: KeyedCoProcessFunction.Context) -> Iterable[Any]:
        if self.name.value() is None:
            self.waiting.update((self.waiting.value() or 0) + 1)
        else:
            yield self.name.value()


def test_two_streams_share_keyed_state_and_the_job_can_be_started_again(tmp_path: Path) -> None:
    env = environment({**SMALL, **durable(tmp_path / "checkpoints")})
    names = env.from_collection([(n, f"name {n}") for n in range(5)])
    visits = env.from_sequence(0, 99).map(lambda n: n % 5)
    enriched = names.connect(visits).key_by(lambda pair: pair[0], lambda n: n).process(Enrich())
    assert Counter(collected(enriched)) == Counter({f"name {n}": 20 for n in range(5)})


def test_connected_streams_without_keys() -> None:
    class Tag(CoMapFunction):
        def map1(self, value: int) -> Any:
            return "one", value

        def map2(self, value: str) -> Any:
            return "two", value

    env = environment(SMALL)
    both = env.from_sequence(1, 3).connect(env.from_collection(["a", "b"])).map(Tag())
    assert sorted(collected(both)) == [("one", 1), ("one", 2), ("one", 3), ("two", "a"), ("two", "b")]


def test_every_partitioning_delivers_each_record_once_and_broadcast_to_all() -> None:
    for name in ("shuffle", "rebalance", "rescale", "global_"):
        env = environment(SMALL)
        moved = getattr(env.from_sequence(1, 100), name)().map(lambda n: n).set_parallelism(3)
        assert sorted(collected(moved)) == list(range(1, 101)), name
    env = environment(SMALL)
    copies = env.from_sequence(1, 20).broadcast().map(lambda n: n).set_parallelism(3)
    assert Counter(collected(copies)) == Counter(dict.fromkeys(range(1, 21), 3))


def test_a_level_wider_than_single_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    # Four lanes with several subtasks each, as a job of some hundred subtasks would have.
    monkeypatch.setattr("tidemill.spark.jobs.engine._LANES_PER_CORE", 2)
    monkeypatch.setattr("tidemill.spark.jobs.stages._SINGLE", 4)
    env = environment()
    counts = env.from_sequence(1, 500).key_by(lambda n: n % 200).map(lambda n: (n % 200, 1)).set_parallelism(11)
    totals = counts.key_by(lambda pair: pair[0]).sum(1).set_parallelism(9)
    best: dict[int, int] = {}
    for key, count in collected(totals):
        best[key] = max(best.get(key, 0), count)
    assert best == {key: len([n for n in range(1, 501) if n % 200 == key]) for key in range(200)}


def echo(split: int, items: Iterable[bytes]) -> Iterable[bytes]:
    return items


def test_wide_levels_of_ever_new_widths_do_not_pile_up(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidemill.spark.jobs.stages._KEPT_JOBS", 1)
    monkeypatch.setattr("tidemill.spark.jobs.stages._SINGLE", 2)
    stages = StageBuilder(spark.sparkContext, 2)
    kept = []
    for width in range(3, 7):
        items = [b"%d" % number for number in range(width)]
        parts = stages.apply(stages.scatter(items), width, 0, ("echo",), lambda targets: echo)
        assert sorted(stages.collect(parts)) == sorted(items)
        kept.append(len(stages._functions))
    assert kept == [2, 2, 2, 2]


def test_what_is_used_now_and_then_is_kept() -> None:
    kept = Recent()
    first = kept.get("often", object)
    for _ in range(5):
        assert kept.get("often", object) is first
        kept.forget_unused()
    kept.forget_unused()
    assert len(kept) == 0
