"""Savepoints carry the positions of Spark's sources to a query of another job, each to the source of the same uid."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.spark.jobs import durable, environment
from tests.waiting import eventually
from tidemill.common import Encoder, JobClient, JobStatus, Types
from tidemill.datastream import DataStream
from tidemill.datastream.connectors.file_system import FileSink, RollingPolicy
from tidemill.datastream.functions import KeyedProcessFunction, RuntimeContext
from tidemill.datastream.state import ValueStateDescriptor
from tidemill.errors import JobFinishedError
from tidemill.spark.frames.frames import combine
from tidemill.spark.locations.locations import source_numbers

SECONDS = 60


class Count(KeyedProcessFunction):
    """Each record with how often its key has come."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield f"{value}:{count}"


def start(spark: SparkSession, folder: Path, job_id: str, order: str, **options: str) -> JobClient:
    """Count numbers that Spark makes and words of a watched directory, in a query that has them in this order."""
    env = environment(durable(folder / "checkpoints", job_id, **{**options, "pipeline.max-parallelism": "8"}))

    def numbers() -> DataStream:
        frame = spark.readStream.format("rate").options(rowsPerSecond="20", numPartitions="1").load()
        return env.from_dataframe(frame.select("value"), Types.LONG()).uid("numbers").map(str, Types.STRING())

    def words() -> DataStream:
        stream = env.read_json(str(folder / "in"), "k STRING", {"maxFilesPerTrigger": "1"}, watch=True)
        return stream.uid("words").map(lambda row: row.k, Types.STRING())

    def more() -> DataStream:
        stream = env.read_json(str(folder / "more"), "k STRING", watch=True)
        return stream.uid("more").map(lambda row: row.k, Types.STRING())

    first, *others = ({"numbers": numbers, "words": words, "more": more}[name]() for name in order.split())
    sink = (
        FileSink.for_row_format(str(folder / "out"), Encoder.simple_string_encoder())
        .with_rolling_policy(RollingPolicy.on_epoch_rolling_policy())
        .build()
    )
    kept = first.union(*others) if others else first
    kept.key_by(lambda value: value).process(Count(), Types.STRING()).uid("count").sink_to(sink).uid("sink")
    return env.execute_async(job_id)


def give(folder: Path, name: str, *words: str) -> None:
    """Put a file into a watched directory, at once."""
    folder.mkdir(exist_ok=True)
    hidden = folder / f".{name}"
    hidden.write_text("".join(json.dumps({"k": word}) + "\n" for word in words))
    hidden.rename(folder / name)


def seen(folder: Path) -> Counter[str]:
    """What was committed so far: every word and number, with its count."""
    parts = [part for part in (folder / "out").rglob("*") if part.is_file() and not part.name.startswith(".")]
    return Counter(line for part in parts for line in part.read_text().splitlines())


def numbers_of(lines: Counter[str]) -> list[int]:
    return sorted(int(line.partition(":")[0]) for line in lines if line[0].isdigit())


def test_positions_find_their_sources_by_uid_in_another_job_in_another_order(
    spark: SparkSession, tmp_path: Path
) -> None:
    give(tmp_path / "in", "1", "a", "b", "a")
    give(tmp_path / "in", "2", "c")
    first = start(spark, tmp_path, "first", "numbers words")
    eventually(lambda: "c:1" in seen(tmp_path) and len(numbers_of(seen(tmp_path))) > 5)

    meanwhile = first.trigger_savepoint(str(tmp_path / "saved")).result(SECONDS)
    before = len(numbers_of(seen(tmp_path)))
    eventually(lambda: len(numbers_of(seen(tmp_path))) > before, what="the job goes on")
    last = first.stop_with_savepoint(False, str(tmp_path / "saved")).result(SECONDS)
    assert first.get_job_status().result() == JobStatus.FINISHED
    assert Path(meanwhile).is_dir()
    assert meanwhile != last
    stopped_at = numbers_of(seen(tmp_path))

    # Moved to another place; nothing is left of the first job, nor of its savepoints.
    shutil.copytree(last, tmp_path / "moved")
    shutil.rmtree(tmp_path / "saved")
    shutil.rmtree(tmp_path / "checkpoints")
    give(tmp_path / "in", "3", "a", "d")
    give(tmp_path / "more", "1", "new")
    options = {"execution.state-recovery.path": str(tmp_path / "moved"), "state.backend.type": "rocksdb"}
    second = start(spark, tmp_path, "second", "more words numbers", **options, **{"parallelism.default": "3"})
    eventually(lambda: {"d:1", "new:1"} <= seen(tmp_path).keys())
    eventually(lambda: len(numbers_of(seen(tmp_path))) > len(stopped_at))
    second.cancel().result(SECONDS)

    lines = seen(tmp_path)
    words = sorted(line for line in lines.elements() if not line[0].isdigit())
    assert words == ["a:1", "a:2", "a:3", "b:1", "c:1", "d:1", "new:1"]
    numbers = numbers_of(lines)
    assert numbers == list(range(len(numbers)))
    assert set(lines.values()) == {1}


@pytest.mark.slow
def test_a_job_is_taken_back_to_its_savepoint_once(spark: SparkSession, tmp_path: Path) -> None:
    give(tmp_path / "in", "1", "a")
    job = start(spark, tmp_path, "job", "words")
    eventually(lambda: seen(tmp_path) == Counter(["a:1"]))
    saved = job.trigger_savepoint(str(tmp_path / "saved")).result(SECONDS)
    give(tmp_path / "in", "2", "a", "b")
    eventually(lambda: seen(tmp_path) == Counter(["a:1", "a:2", "b:1"]))
    job.cancel().result(SECONDS)

    options = {"execution.state-recovery.path": saved, "execution.state-recovery.allow-pickle": "true"}
    job = start(spark, tmp_path, "job", "words", **options)
    again = Counter(["a:1", "a:2", "b:1", "a:2", "b:1"])  # read and written again
    eventually(lambda: seen(tmp_path) == again)
    job.cancel().result(SECONDS)

    give(tmp_path / "in", "3", "a")
    job = start(spark, tmp_path, "job", "words", **options)  # as a process manager would
    eventually(lambda: "a:3" in seen(tmp_path))
    job.cancel().result(SECONDS)
    assert seen(tmp_path) == again + Counter(["a:3"])


class Last(KeyedProcessFunction):
    """Tells of a key when time is over."""

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> None:
        ctx.timer_service().register_event_time_timer(2**60)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterable[str]:
        yield f"{ctx.get_current_key()} at the end"


def test_a_drained_job_fires_its_timers_and_is_over(spark: SparkSession, tmp_path: Path) -> None:
    def run(job_id: str, **options: str) -> JobClient:
        env = environment(durable(tmp_path / "checkpoints", job_id, **options))
        words = env.read_json(str(tmp_path / "in"), "k STRING", watch=True).uid("words")
        sink = (
            FileSink.for_row_format(str(tmp_path / "out"), Encoder.simple_string_encoder())
            .with_rolling_policy(RollingPolicy.on_epoch_rolling_policy())
            .build()
        )
        ends = words.map(lambda row: row.k, Types.STRING()).key_by(lambda k: k).process(Last(), Types.STRING())
        ends.uid("last").sink_to(sink).uid("sink")
        return env.execute_async(job_id)

    give(tmp_path / "in", "1", "a", "b", "a")
    first = run("first")
    eventually(lambda: bool(first.get_checkpoint_history().checkpoints))
    path = first.stop_with_savepoint(True, str(tmp_path / "saved")).result(SECONDS)
    assert first.get_job_status().result() == JobStatus.FINISHED
    give(tmp_path / "in", "2", "c")
    with pytest.raises(JobFinishedError, match="which is FINISHED"):
        run("second", **{"execution.state-recovery.path": path})
    assert seen(tmp_path) == Counter(["a at the end", "b at the end"])


def test_which_of_sparks_numbers_are_whose(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    ticks = spark.readStream.format("rate").load().selectExpr("CAST(value AS STRING) AS value")
    lines = spark.readStream.format("text").load(str(tmp_path / "in"))
    frames = {"lines": lines, "both": ticks.union(lines), "ticks": ticks.where("value > 3")}
    # Where a stream is read in two places it has two lines of offsets, but one log of its own.
    assert source_numbers(combine(dict(enumerate(frames.values()))), frames) == {
        "lines": [[0, 0, "FileSource"]],
        "both": [[1, 1, "rate"], [2, 0, "FileSource"]],
        "ticks": [[3, 1, "rate"]],
    }
    assert source_numbers(lines, {"lines": lines}) == {"lines": [[0, 0, "FileSource"]]}


def test_rows_of_a_bounded_dataframe_that_are_still_to_be_read_go_along(spark: SparkSession, tmp_path: Path) -> None:
    def run(job_id: str, frame: Any, **options: str) -> JobClient:
        # After the first epoch there is time for all that is to happen then.
        pace = {"execution.epoch.max-records": "10", "execution.epoch.min-interval": "1h"}
        env = environment(durable(tmp_path / "checkpoints", job_id, **{**pace, **options}))
        sink = (
            FileSink.for_row_format(str(tmp_path / "out"), Encoder.simple_string_encoder())
            .with_rolling_policy(RollingPolicy.on_epoch_rolling_policy())
            .build()
        )
        rows = env.from_dataframe(frame, Types.LONG()).uid("rows").map(str, Types.STRING())
        rows.key_by(lambda value: value).process(Count(), Types.STRING()).uid("count").sink_to(sink).uid("sink")
        return env.execute_async(job_id)

    first = run("first", spark.range(0, 100, 1, 10))
    eventually(lambda: bool(seen(tmp_path)))
    path = first.cancel_with_savepoint(str(tmp_path / "saved")).result(SECONDS)
    assert first.get_job_status().result() == JobStatus.CANCELED
    some = len(seen(tmp_path))
    assert some < 100
    # The same rows, but cut otherwise: only a job that has the old ones knows which are left.
    frame = spark.range(99, -1, -1, 3)
    options = {"execution.state-recovery.path": path, "execution.state-recovery.claim-mode": "CLAIM"}
    second = run("second", frame, **options, **{"execution.epoch.min-interval": "0s"})
    second.get_job_execution_result().result(SECONDS)
    assert seen(tmp_path) == Counter(f"{n}:1" for n in range(100))
    assert not Path(path).exists()
