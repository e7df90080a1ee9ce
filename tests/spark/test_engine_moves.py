"""Jobs that move between the engines with their savepoints: every record counts once, as if they had stayed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.kafka_broker import KafkaBroker
from tests.spark.jobs import add_file, durable, environment
from tests.spark.kafka_jobs import Count, reading, seen
from tests.waiting import eventually
from tidemill.common import Encoder, JobClient, Types, WatermarkStrategy
from tidemill.datastream import DataStream, StreamExecutionEnvironment
from tidemill.datastream.connectors.file_system import FileSink, RollingPolicy
from tidemill.errors import JobFinishedError

SECONDS = 120


def counting(env: StreamExecutionEnvironment, words: DataStream, folder: Path, name: str) -> JobClient:
    counts = words.key_by(lambda word: word).process(Count(), Types.STRING()).uid("count")
    sink = FileSink.for_row_format(str(folder / "out"), Encoder.simple_string_encoder())
    sink.with_rolling_policy(RollingPolicy.on_epoch_rolling_policy())
    counts.sink_to(sink.build()).uid("sink")
    return env.execute_async(name)


def start(kafka: KafkaBroker, topic: str, folder: Path, number: int, target: str, saved: str | None) -> JobClient:
    """Count the words of a topic and of a watched directory."""
    options = {"execution.target": target, "pipeline.max-parallelism": "8"}
    if saved is not None:
        options["execution.state-recovery.path"] = saved
    env = environment(durable(folder / f"checkpoints-{number}", f"job-{number}", **options))
    source = reading(kafka, topic).set_max_records_per_epoch(2).build()
    words = env.from_source(source, WatermarkStrategy.no_watermarks(), "topic").uid("topic")
    rows = env.read_csv(str(folder / "in"), "word STRING, n LONG", {"maxFilesPerTrigger": "1"}, watch=True).uid("files")
    return counting(env, words.union(rows.map(lambda row: row.word, Types.STRING())), folder, f"job-{number}")


def counted(words: Iterable[str]) -> Counter[str]:
    found: Counter[str] = Counter()
    lines: Counter[str] = Counter()
    for word in words:
        found[word] += 1
        lines[f"{word}:{found[word]}"] += 1
    return lines


@pytest.mark.timeout(900)
def test_a_job_moves_to_spark_and_back(spark: SparkSession, kafka: KafkaBroker, tmp_path: Path) -> None:
    topic = kafka.create_topic("moving", partitions=2)
    (tmp_path / "in").mkdir()
    saved: str | None = None
    given: list[str] = []

    def all_counted() -> bool:
        return seen(tmp_path).total() == len(given)

    for number, target in enumerate(("local", "spark", "local")):
        # What arrives while no job runs, and while one does.
        kafka.produce(topic, ["a", "b", "c"], partition=number % 2)
        add_file(tmp_path / "in" / f"{number}-before.csv", "a,1\nf,2\n")
        client = start(kafka, topic, tmp_path, number, target, saved)
        given += ["a", "b", "c", "a", "f"]
        eventually(all_counted, SECONDS)
        kafka.produce(topic, ["d", "a"], partition=1)
        add_file(tmp_path / "in" / f"{number}-after.csv", "f,1\n")
        given += ["d", "a", "f"]
        eventually(all_counted, SECONDS)
        saved = client.stop_with_savepoint(False, str(tmp_path / "saved")).result(SECONDS)
    assert seen(tmp_path) == counted(given)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("targets", [("local", "spark"), ("spark", "local")])
def test_bounded_files_are_read_on_where_the_other_engine_stopped(
    spark: SparkSession, tmp_path: Path, targets: tuple[str, str]
) -> None:
    words = [f"word{number % 5}" for number in range(400)]
    (tmp_path / "in.txt").write_text("\n".join(words))

    def run(number: int, target: str, saved: str | None) -> JobClient:
        options = {"execution.target": target, "pipeline.max-parallelism": "8", "execution.epoch.max-records": "20"}
        if saved is not None:
            options["execution.state-recovery.path"] = saved
        env = environment(durable(tmp_path / f"checkpoints-{number}", f"job-{number}", **options))
        return counting(env, env.read_text_file(str(tmp_path / "in.txt")).uid("files"), tmp_path, f"job-{number}")

    client = run(0, targets[0], None)
    eventually(lambda: seen(tmp_path).total() >= 40, SECONDS)
    try:
        saved = client.stop_with_savepoint(False, str(tmp_path / "saved")).result(SECONDS)
    except JobFinishedError:
        pytest.fail("the job was over before it could be stopped")
    (tmp_path / "in.txt").unlink()  # the savepoint has the rows
    assert seen(tmp_path).total() < len(words)
    run(1, targets[1], saved).get_job_execution_result().result(SECONDS)
    assert seen(tmp_path) == counted(words)
