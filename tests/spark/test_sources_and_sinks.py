"""Every way into a job on Spark and out of it, in the shared session."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tests.spark.jobs import add_file, collected, durable, environment
from tests.waiting import eventually
from tidemill.checkpoint.log import ManifestLog
from tidemill.checkpoint.storage.storages import storage_for
from tidemill.common import Encoder, JobStatus, Row, Types
from tidemill.datastream.connectors.file_system import BucketAssigner, FileSink, RollingPolicy
from tidemill.datastream.functions import KeyedProcessFunction, RuntimeContext, SinkFunction
from tidemill.datastream.state import ValueStateDescriptor
from tidemill.errors import FencedError, JobCancelledError, UserCodeError
from tidemill.runtime.driver.job import RunningJob
from tidemill.spark.bounded.parquet_input import materialise_frame

pytestmark = pytest.mark.usefixtures("spark")


class Count(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield ctx.get_current_key(), count


# --- bounded sources


def test_collection_over_many_epochs() -> None:
    env = environment({"execution.epoch.max-records": "4"})
    words = env.from_collection(["a", "b", "a", "c", "a", "b"] * 3)
    assert sorted(collected(words.key_by(lambda word: word).process(Count()))) == sorted(
        [("a", n) for n in range(1, 10)] + [("b", n) for n in range(1, 7)] + [("c", n) for n in range(1, 4)]
    )


def test_empty_collection_ends_at_once() -> None:
    env = environment()
    assert collected(env.from_collection([]).map(lambda value: value)) == []


def test_number_sequence_is_read_in_parallel() -> None:
    env = environment({"execution.epoch.max-records": "300"})
    numbers = env.from_sequence(1, 1000).map(lambda n: n * 2).filter(lambda n: n % 3 == 0)
    assert sorted(collected(numbers)) == [n * 2 for n in range(1, 1001) if n * 2 % 3 == 0]


def test_batch_dataframe_as_rows_with_nulls_and_nested_columns(spark: SparkSession) -> None:
    frame = spark.createDataFrame(
        [(1, "a", [1, 2], {"x": 1.5}), (2, None, [], {}), (3, "c", None, None)],
        "id LONG, name STRING, list ARRAY<INT>, map MAP<STRING, DOUBLE>",
    )
    rows = sorted(collected(environment().from_dataframe(frame)), key=lambda row: row.id)
    assert rows[0] == Row(id=1, name="a", list=[1, 2], map={"x": 1.5})
    assert (rows[1].name, rows[1].list, rows[1].map) == (None, [], {})
    assert (rows[2].list, rows[2].map) == (None, None)


def test_batch_dataframe_as_tuples(spark: SparkSession) -> None:
    frame = spark.range(0, 1000, 1, 4).selectExpr("id", "cast(id % 7 as string) as k")
    env = environment()
    pairs = env.from_dataframe(frame, Types.TUPLE([Types.LONG(), Types.STRING()]))
    totals = collected(pairs.map(lambda pair: (pair[1], pair[0])).key_by(lambda pair: pair[0]).sum(1))
    assert {key: max(total for k, total in totals if k == key) for key, _ in totals} == {
        str(key): sum(range(key, 1000, 7)) for key in range(7)
    }


def test_text_csv_json_and_parquet_files(spark: SparkSession, tmp_path: Path) -> None:
    rows = [(n, f"name {n}") for n in range(20)]
    (tmp_path / "lines.txt").write_text("one\ntwo\n\nfour\n")
    (tmp_path / "table.csv").write_text("".join(f"{n},{name}\n" for n, name in rows))
    (tmp_path / "table.json").write_text("".join(json.dumps({"n": n, "name": name}) + "\n" for n, name in rows))
    spark.createDataFrame(rows, "n LONG, name STRING").write.parquet(str(tmp_path / "parquet"))
    env = environment()
    assert sorted(collected(env.read_text_file(str(tmp_path / "lines.txt")))) == ["", "four", "one", "two"]
    schema = "n LONG, name STRING"
    for stream in (
        env.read_csv(str(tmp_path / "table.csv"), schema),
        env.read_json(str(tmp_path / "table.json"), schema),
        env.read_json(str(tmp_path / "table.json")),
        env.read_parquet(str(tmp_path / "parquet")),
    ):
        assert sorted(collected(stream.map(lambda row: (row.n, row.name)))) == rows


def test_sources_of_different_kinds_and_schemas_meet(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "lines.txt").write_text("x\ny\n")
    env = environment()
    lines = env.read_text_file(str(tmp_path / "lines.txt")).map(lambda line: (line, 1))
    frame = spark.createDataFrame([("x", 10, True), ("z", 20, False)], "k STRING, n LONG, flag BOOLEAN")
    rows = env.from_dataframe(frame).map(lambda row: (row.k, row.n))
    numbers = env.from_sequence(1, 4).map(lambda n: ("x", 100))
    assert sorted(collected(lines.union(rows, numbers))) == sorted(
        [("x", 1), ("y", 1), ("x", 10), ("z", 20), *[("x", 100)] * 4]
    )


# --- unbounded sources


def test_file_stream_commits_every_file_and_stops_when_cancelled(spark: SparkSession, tmp_path: Path) -> None:
    source = tmp_path / "in"
    source.mkdir()
    for index in range(4):
        (source / f"{index}.json").write_text(json.dumps({"k": "ab"[index % 2], "n": index}) + "\n")
    frame = spark.readStream.schema("k STRING, n LONG").option("maxFilesPerTrigger", 1).json(str(source))
    env = environment(durable(tmp_path / "checkpoints"))
    counts = env.from_dataframe(frame).key_by(lambda row: row.k).process(Count())
    with counts.execute_and_collect() as results:
        found = [next(results) for _ in range(4)]
        assert sorted(found) == [("a", 1), ("a", 2), ("b", 1), ("b", 2)]
        # Files that come while the job runs are read too.
        add_file(source / "late.json", '{"k": "a", "n": 9}\n')
        assert next(results) == ("a", 3)


def test_a_file_stream_resumes_where_it_was(spark: SparkSession, tmp_path: Path) -> None:
    source = tmp_path / "in"
    source.mkdir()

    def run(names: str, until: int) -> None:
        for name in names:
            (source / f"{name}.json").write_text('{"k": "a"}\n')
        env = environment(durable(tmp_path / "checkpoints"))
        stream = env.read_json(str(source), "k STRING", {"maxFilesPerTrigger": "1"}, watch=True)
        stream.key_by(lambda row: row.k).process(Count()).map(str).sink_to(files(tmp_path / "out"))
        client = env.execute_async("stream")
        eventually(lambda: len(written(tmp_path / "out")) >= until)
        client.cancel().result(60)

    run("123", until=3)
    run("45", until=5)
    assert written(tmp_path / "out") == [f"('a', {n})" for n in range(1, 6)]


def files(folder: Path) -> FileSink:
    return (
        FileSink.for_row_format(str(folder), Encoder.simple_string_encoder())
        .with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
        .with_rolling_policy(RollingPolicy.on_epoch_rolling_policy())
        .build()
    )


def written(folder: Path) -> list[str]:
    """The lines of all files a reader of a sink's directory sees."""
    return sorted(line for path in folder.glob("[!.]*") for line in path.read_text().splitlines())


class Reminder(KeyedProcessFunction):
    """Answers each record a little later, however quiet the stream is by then."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.text = runtime_context.get_state(ValueStateDescriptor("text", Types.STRING()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        self.text.update(f"remember {value.k}")
        ctx.timer_service().register_processing_time_timer(ctx.timer_service().current_processing_time() + 300)
        return ()

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterable[Any]:
        yield self.text.value()


def test_timers_of_a_stream_fire_without_input_and_input_continues_after_them(
    spark: SparkSession, tmp_path: Path
) -> None:
    source = tmp_path / "source"
    source.mkdir()

    def start() -> Any:
        env = environment(durable(tmp_path / "checkpoints"))
        stream = env.from_dataframe(spark.readStream.schema("k STRING").json(str(source))).uid("words")
        stream.key_by(lambda row: row.k).process(Reminder()).uid("remind").sink_to(files(tmp_path / "out"))
        return env.execute_async("reminders")

    client = start()
    add_file(source / "1.json", '{"k": "a"}\n')
    eventually(lambda: written(tmp_path / "out") == ["remember a"])
    add_file(source / "2.json", '{"k": "b"}\n')
    eventually(lambda: written(tmp_path / "out") == ["remember a", "remember b"])
    # The last manifest is of an epoch without input: the stream resumes from the batch before it.
    client.cancel().result(60)
    client = start()
    add_file(source / "3.json", '{"k": "c"}\n')
    eventually(lambda: written(tmp_path / "out") == ["remember a", "remember b", "remember c"])
    client.cancel().result(60)


def test_slow_records_of_a_dataframe_are_committed_steadily(spark: SparkSession) -> None:
    """All rows are in one row group, which is read in slices."""
    cost, duration = 0.02, 2.0
    env = environment({"execution.epoch.max-duration": f"{int(duration * 1000)} ms"})

    def slow(row: Row) -> int:
        time.sleep(cost)
        return int(row.id)

    env.from_dataframe(spark.range(400).coalesce(1)).map(slow, Types.LONG()).uid("slow").print()
    client = env.execute_async("slow rows")
    client.get_job_execution_result().result(60)
    assert isinstance(client, RunningJob)
    first, *others = [epoch.records_in for epoch in client.epochs if epoch.records_in]
    assert first == 100
    assert sum(others) == 300
    assert max(others) <= 2 * duration / 2 / cost, "of two subtasks, which share each slice"
    assert client.get_accumulators().result()["slow.numRecordsOut"] == 400


def test_a_stream_without_input_ends_when_another_driver_has_its_job(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "tidemill")
    (tmp_path / "in").mkdir()
    env = environment(durable(tmp_path / "checkpoints", **{"execution.owner-check-interval": "200 ms"}))
    env.read_format("text", str(tmp_path / "in"), watch=True).print()
    client = env.execute_async("idle")
    successor = ManifestLog(storage_for(str(tmp_path / "checkpoints" / "job")), "job")
    eventually(lambda: "job job is run by lineage" in caplog.text)
    successor.open_lineage()
    with pytest.raises(FencedError, match="was taken over by lineage"):
        client.get_job_execution_result().result(60)
    assert client.get_job_status().result() is JobStatus.SUSPENDED
    successor.check_owner()


def test_rate_source_as_tuples(spark: SparkSession) -> None:
    frame = spark.readStream.format("rate-micro-batch").options(rowsPerBatch="50", numPartitions="3").load()
    pairs = environment().from_dataframe(frame.select("value"), Types.LONG())
    with pairs.map(lambda n: n % 5).key_by(lambda n: n).process(Count()).execute_and_collect() as results:
        found = [next(results) for _ in range(200)]
    assert {key for key, _ in found} == set(range(5))
    assert max(count for _, count in found) == 40


# --- sinks


def test_print_reaches_the_driver(capfd: pytest.CaptureFixture[str]) -> None:
    env = environment()
    env.from_collection(["printed-one", "printed-two"]).print()
    env.execute("print")
    out = capfd.readouterr().out
    assert "printed-one" in out
    assert "printed-two" in out


def test_file_sink_shows_whole_epochs_only(tmp_path: Path) -> None:
    env = environment({"execution.epoch.max-records": "25"})
    env.from_sequence(1, 100).map(str).sink_to(files(tmp_path / "out"))
    env.execute("files")
    assert len(list((tmp_path / "out").iterdir())) >= 4
    assert sorted(map(int, written(tmp_path / "out"))) == list(range(1, 101))
    assert not list((tmp_path / "out").glob(".*"))


class AppendToFile(SinkFunction):
    def __init__(self, folder: str) -> None:
        self.folder = folder

    def open(self, runtime_context: RuntimeContext) -> None:
        name = f"{runtime_context.get_index_of_this_subtask()}.txt"
        self.file = (Path(self.folder) / name).open("a", encoding="utf-8")

    def close(self) -> None:
        self.file.close()

    def invoke(self, value: Any, context: SinkFunction.Context) -> None:
        self.file.write(f"{value}\n")


def test_sink_function_is_opened_and_closed_around_all_epochs(tmp_path: Path) -> None:
    env = environment({"execution.epoch.max-records": "25"})
    env.from_sequence(1, 100).add_sink(AppendToFile(str(tmp_path)))
    env.execute("sink function")
    lines = [line for path in tmp_path.iterdir() for line in path.read_text().splitlines()]
    assert sorted(map(int, lines)) == list(range(1, 101))


# --- jobs


def test_job_is_cancelled_from_another_thread_than_its_own(spark: SparkSession) -> None:
    env = environment()
    frame = spark.readStream.format("rate").options(rowsPerSecond="100").load()
    env.from_dataframe(frame).map(lambda row: row.value).add_sink(Nowhere())
    client = env.execute_async("endless")
    eventually(lambda: client.get_job_status().result() is JobStatus.RUNNING)
    eventually(lambda: bool(client.get_accumulators().result()), what="an epoch is committed")
    client.cancel().result(60)
    assert client.get_job_status().result() is JobStatus.CANCELED
    with pytest.raises(JobCancelledError):
        client.get_job_execution_result().result(60)
    assert not spark.streams.active


def test_long_epoch_of_a_bounded_job_is_cancelled_in_its_middle(tmp_path: Path) -> None:
    begun = tmp_path / "begun"

    def slowly(value: int) -> int:
        begun.touch()
        time.sleep(0.05)
        return value

    env = environment()
    env.from_sequence(1, 10_000).map(slowly).add_sink(Nowhere())
    client = env.execute_async("slow")
    eventually(begun.exists)
    client.cancel().result(60)
    assert client.get_job_status().result() is JobStatus.CANCELED


class Nowhere(SinkFunction):
    def invoke(self, value: Any, context: SinkFunction.Context) -> None:
        pass


def test_two_jobs_one_after_the_other_and_status_of_a_finished_one() -> None:
    env = environment()
    assert sorted(collected(env.from_sequence(1, 10).map(lambda n: n + 1))) == list(range(2, 12))
    env = environment()
    assert sorted(collected(env.from_sequence(1, 10).map(lambda n: n + 2))) == list(range(3, 13))
    env = environment()
    env.from_sequence(1, 10).add_sink(Nowhere())
    client = env.execute_async("status")
    result = client.get_job_execution_result().result(60)
    assert client.get_job_status().result() is JobStatus.FINISHED
    assert result.get_job_id() == client.get_job_id()


def test_two_jobs_at_the_same_time() -> None:
    clients = []
    for _ in range(2):
        env = environment({"execution.epoch.max-records": "50"})
        env.from_sequence(1, 200).map(lambda n: n).key_by(lambda n: n % 3).process(Count()).add_sink(Nowhere())
        clients.append(env.execute_async("beside"))
    for client in clients:
        client.get_job_execution_result().result(120)
        assert client.get_job_status().result() is JobStatus.FINISHED


def test_a_job_started_from_another_thread_leaves_the_session_as_it_is(spark: SparkSession) -> None:
    env = environment()
    found: list[int] = []
    numbers = env.from_sequence(1, 10).map(lambda n: n)
    thread = threading.Thread(target=lambda: found.extend(collected(numbers)))
    thread.start()
    thread.join()
    assert sorted(found) == list(range(1, 11))
    assert spark.range(3).count() == 3


def test_a_cancelled_stream_keeps_the_input_of_its_bounded_sources(spark: SparkSession, tmp_path: Path) -> None:
    source = tmp_path / "in"
    source.mkdir()

    def start(partitions: int) -> Any:
        env = environment(durable(tmp_path / "checkpoints", **{"execution.epoch.max-records": "10"}))
        stream = env.read_json(str(source), "k STRING", watch=True).map(lambda row: row.k, Types.STRING())
        frame = spark.range(0, 40, 1, partitions).selectExpr("concat('row', id) as v")
        stream.union(env.from_dataframe(frame, Types.STRING())).sink_to(files(tmp_path / "out"))
        return env.execute_async("stream and frame")

    client = start(4)
    eventually(lambda: len(written(tmp_path / "out")) >= 10)
    client.cancel().result(60)
    # The same rows, but cut differently: the position of the first start means nothing in them.
    client = start(2)
    add_file(source / "1.json", '{"k": "streamed"}\n')
    eventually(lambda: len(written(tmp_path / "out")) >= 41)
    client.cancel().result(60)
    assert written(tmp_path / "out") == sorted(["streamed", *(f"row{n}" for n in range(40))])


class Unlucky(KeyedProcessFunction):
    """Its timer, which fires between two batches, fails when a batch waits for it, which a file indicates."""

    def __init__(self, fires: Path, awaited: Path) -> None:
        self.fires, self.awaited = fires, awaited

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        if value.k == "first":
            ctx.timer_service().register_processing_time_timer(ctx.timer_service().current_processing_time() + 200)
        yield value.k

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterable[Any]:
        self.fires.touch()
        deadline = time.monotonic() + 60
        while not self.awaited.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        raise OSError("the service is away")


def test_a_batch_that_waits_while_an_epoch_fails_is_not_taken_as_done(spark: SparkSession, tmp_path: Path) -> None:
    source = tmp_path / "in"
    source.mkdir()
    env = environment(durable(tmp_path / "checkpoints"))
    stream = env.from_dataframe(spark.readStream.schema("k STRING").option("cleanSource", "delete").json(str(source)))
    fires, awaited = tmp_path / "fires", tmp_path / "awaited"
    stream.key_by(lambda row: row.k).process(Unlucky(fires, awaited)).sink_to(files(tmp_path / "out"))
    (source / "0.json").write_text('{"k": "first"}\n')
    client = env.execute_async("unlucky")
    eventually(lambda: fires.exists() and written(tmp_path / "out") == ["first"])
    add_file(source / "1.json", '{"k": "second"}\n')
    eventually(lambda: list((tmp_path / "checkpoints" / "job" / "spark").glob("*/offsets/1")))
    time.sleep(0.3)  # Spark has chosen the batch, and soon comes to us with it
    awaited.touch()
    with pytest.raises(UserCodeError, match="the service is away"):
        client.get_job_execution_result().result(60)
    (location,) = (tmp_path / "checkpoints" / "job" / "spark").iterdir()
    assert [commit.name for commit in (location / "commits").glob("[0-9]*")] == ["0"]
    assert (source / "1.json").exists()


def test_two_drivers_that_start_together_materialise_one_input(spark: SparkSession, tmp_path: Path) -> None:
    storage = storage_for(str(tmp_path))
    frame = spark.range(0, 100, 1, 2)
    found: list[str] = []

    def start() -> None:
        found.append(materialise_frame(lambda: frame, storage, "source"))

    threads = [threading.Thread(target=start) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert len(found) == 2
    assert len(set(found)) == 1
    folder = tmp_path / found[0]
    assert sum(pq.read_metadata(path).num_rows for path in folder.glob("*.parquet")) == 100
    assert materialise_frame(lambda: frame, storage, "source") == found[0]
    assert [path.name for path in folder.parent.iterdir() if path.is_dir()] == [folder.name]
