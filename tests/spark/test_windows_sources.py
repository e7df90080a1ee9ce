"""Event time of what Spark itself reads: by source or by named partition, whichever task reads what in a batch."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.spark.committed import committed_head
from tests.spark.jobs import collected, durable, environment
from tests.spark.test_sources_and_sinks import files, written
from tests.waiting import eventually
from tidemill.common import Types, WatermarkStrategy
from tidemill.common.watermark_strategy import TimestampAssigner
from tidemill.datastream import DataStream, KeyedProcessFunction, ProcessWindowFunction, TumblingEventTimeWindows
from tidemill.errors import GraphError

pytestmark = [pytest.mark.usefixtures("spark"), pytest.mark.timeout(300)]

SCHEMA = "at LONG, part STRING"
ROW = Types.TUPLE([Types.LONG(), Types.STRING()])


class FirstColumn(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return int(value[0])


def in_order() -> WatermarkStrategy:
    return WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(FirstColumn())


def write(folder: Path, name: str, *rows: tuple[int, str]) -> None:
    """A file that is there all at once."""
    folder.mkdir(exist_ok=True)
    text = "".join(json.dumps({"at": at, "part": part}) + "\n" for at, part in rows)
    (folder.parent / f"{name}.tmp").write_text(text)
    (folder.parent / f"{name}.tmp").rename(folder / f"{name}.json")


class Times(ProcessWindowFunction):
    def process(self, key: Any, context: ProcessWindowFunction.Context, elements: Iterable[Any]) -> Iterable[Any]:
        yield f"{context.window().start} {sorted(at for at, _ in elements)}"


def hundreds(stream: DataStream, output: Path) -> None:
    """The times in each window of 100 ms."""
    windows = stream.key_by(lambda row: "all", Types.STRING()).window(TumblingEventTimeWindows.of(100)).process(Times())
    windows.uid("windows").set_parallelism(1).sink_to(files(output)).uid("sink")


def test_two_watched_directories_do_not_hold_each_others_tasks_back(tmp_path: Path) -> None:
    """Each task of a batch reads a file of one source, and has nothing of the other."""
    left, right = tmp_path / "left", tmp_path / "right"
    write(left, "1", (500, "p"), (510, "p"))
    write(left, "2", (10, "p"), (40, "p"))  # read after the other file, or beside it: not late
    write(right, "1", (20, "p"), (600, "p"))
    env = environment(durable(tmp_path / "checkpoints"))
    streams = [env.read_json(str(folder), SCHEMA, watch=True, type_info=ROW) for folder in (left, right)]
    timed = [stream.assign_timestamps_and_watermarks(in_order()) for stream in streams]
    hundreds(timed[0].union(timed[1]), tmp_path / "out")
    client = env.execute_async("two directories")
    eventually(lambda: written(tmp_path / "out") == ["0 [10, 20, 40]"], seconds=120)
    write(left, "3", (700, "p"))
    eventually(lambda: written(tmp_path / "out") == ["0 [10, 20, 40]", "500 [500, 510]"], seconds=120)
    client.cancel().result(60)


def test_named_partitions_of_a_stream_have_their_own_time_also_after_a_restart(
    tmp_path: Path, spark: SparkSession
) -> None:
    source, output = tmp_path / "in", tmp_path / "out"
    directory = tmp_path / "checkpoints" / "job"

    def start() -> Any:
        env = environment(durable(tmp_path / "checkpoints"))
        frame = spark.readStream.schema(SCHEMA).json(str(source))
        hundreds(env.from_dataframe(frame, ROW, in_order(), partition_by="part").uid("rows"), output)
        return env.execute_async("partitions")

    def times() -> dict[str, int]:
        if len(list(directory.glob("manifests/*.tm"))) < 2:
            return {}
        states = committed_head(directory).times.get("rows", ())
        return {entry[0]: entry[1] for state in states for entry in state or ()}

    write(source, "1", (10, "fast"), (510, "fast"), (20, "slow"))
    client = start()
    eventually(lambda: times() == {"fast": 509, "slow": 19}, seconds=120)
    client.cancel().result(60)
    write(source, "2", (30, "slow"), (620, "fast"))
    client = start()
    eventually(lambda: times() == {"fast": 619, "slow": 29}, seconds=120)
    assert written(output) == [], "the slow one may still bring records of the first window"
    write(source, "3", (90, "slow"), (300, "slow"))
    eventually(lambda: written(output) == ["0 [10, 20, 30, 90]"], seconds=120)
    client.cancel().result(60)


class Seen(KeyedProcessFunction):
    """When a record came, by event time."""

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        yield value[0], max(0, ctx.timer_service().current_watermark())


def test_a_bounded_frame_that_only_one_task_reads_at_a_time(spark: SparkSession) -> None:
    """Of an epoch of one row group a single subtask reads: the others hold nobody back."""
    rows = [(100, "p"), (110, "p"), (200, "p"), (210, "p"), (300, "p"), (310, "p")]
    frame = spark.createDataFrame(rows, SCHEMA).coalesce(1).repartitionByRange(3, "at")
    env = environment({"execution.epoch.max-records": "2"})
    stream = env.from_dataframe(frame, ROW, in_order())
    seen = collected(stream.key_by(lambda row: "all", Types.STRING()).process(Seen()).set_parallelism(1))
    assert seen == [(100, 0), (110, 0), (200, 199), (210, 199), (300, 299), (310, 299)], (
        "each file begins where it does"
    )


def test_files_of_a_bounded_frame_do_not_make_each_other_late(spark: SparkSession) -> None:
    """Of an epoch of one row group; all files are of the same time, and the one that begins first is read first."""
    rows = [(at, f"{at % 3}") for at in range(10, 100)]
    frame = spark.createDataFrame(rows, SCHEMA).repartition(3, "part").sortWithinPartitions("at")
    env = environment({"execution.epoch.max-records": "2"})
    stream = env.from_dataframe(frame, ROW, in_order())
    seen = collected(stream.key_by(lambda row: "all", Types.STRING()).process(Seen()).set_parallelism(1))
    assert sorted(at for at, _ in seen) == [at for at, _ in rows]
    assert all(mark < at for at, mark in seen)


def test_files_of_one_batch_move_time_on_side_by_side(tmp_path: Path, spark: SparkSession) -> None:
    """Four files for two tasks, which read them one after the other, in batches of five rows."""
    folder, output = tmp_path / "in", tmp_path / "out"
    for number in range(4):
        write(folder, f"{number}", *((at + number, "p") for at in range(0, 400, 10)))
    before = spark.conf.get("spark.sql.execution.arrow.maxRecordsPerBatch")
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "5")
    try:
        env = environment(durable(tmp_path / "checkpoints"))
        stream = env.read_json(str(folder), SCHEMA, watch=True, type_info=ROW)
        timed = stream.assign_timestamps_and_watermarks(in_order())
        told = timed.key_by(lambda row: "all", Types.STRING()).process(Seen()).set_parallelism(1).uid("seen")
        told.map(lambda pair: f"{pair[0]} {pair[1]}", Types.STRING()).sink_to(files(output)).uid("sink")
        client = env.execute_async("side by side")
        eventually(lambda: len(written(output)) == 160, seconds=120)
        client.cancel().result(60)
    finally:
        spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", before or "10000")
    seen = [tuple(map(int, line.split())) for line in written(output)]
    assert all(mark < at or mark == 0 for at, mark in seen), "none is late"
    assert max(mark for _, mark in seen) > 200, "time went on within the batch"


def test_partitions_are_columns(spark: SparkSession) -> None:
    env = environment()
    env.from_dataframe(spark.createDataFrame([(1, "p")], SCHEMA), ROW, in_order(), partition_by=["topic"]).print()
    with pytest.raises(GraphError, match="partitioned by topic, but its columns are at, part"):
        env.execute("no such column")


def test_files_are_not_mixed_up_where_python_reads_ahead(tmp_path: Path, spark: SparkSession) -> None:
    """Two files of the same hours, each of more than one batch: Spark tells the wrong file behind Python."""
    folder, output = tmp_path / "in", tmp_path / "out"
    for number in range(2):
        write(folder, f"{number}", *((at + number, "p") for at in range(0, 120_000, 10)))
    frame = spark.readStream.schema(SCHEMA).json(str(folder)).coalesce(1).mapInPandas(lambda parts: parts, SCHEMA)
    env = environment(durable(tmp_path / "checkpoints"))
    stream = env.from_dataframe(frame, ROW, in_order())
    told = stream.key_by(lambda row: "all", Types.STRING()).process(Seen()).set_parallelism(1).uid("seen")
    told.map(lambda pair: f"{pair[0]} {pair[1]}", Types.STRING()).sink_to(files(output)).uid("sink")
    client = env.execute_async("read ahead")
    eventually(lambda: len(written(output)) == 24_000, seconds=120)
    client.cancel().result(60)
    seen = [tuple(map(int, line.split())) for line in written(output)]
    assert all(mark < at or mark == 0 for at, mark in seen), "none is late"
