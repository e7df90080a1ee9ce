"""Streams that Spark reads, of jobs with their checkpoints in an object store: nothing on a driver's disk is needed."""

from __future__ import annotations

import json
import os
import uuid
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's customary name

from tests.kafka_broker import KafkaBroker
from tests.object_store import BUCKET, Proxy, Server
from tests.spark.jobs import add_file, environment
from tests.spark.kafka_jobs import counting, reading, seen
from tests.spark.processes import fault, run
from tests.spark.programs import watched_job
from tests.thorough import WHEN_THOROUGH
from tests.waiting import eventually
from tidemill.checkpoint.storage.objects import ObjectStorage
from tidemill.common import JobClient
from tidemill.datastream.connectors.kafka import KafkaOffsetsInitializer
from tidemill.errors import GraphError
from tidemill.spark.frames.stateless import check_stateless

SECONDS = 60


def stored_in(place: str, options: dict[str, str], **more: str) -> dict[str, str]:
    return {"execution.checkpointing.dir": place, **{f"s3.{key}": value for key, value in options.items()}, **more}


def add_words(folder: Path, numbers: range) -> None:
    """A file for each number, with the word "every" and one of its own."""
    for number in numbers:
        add_file(folder / f"{number}.json", f'{{"word": "every"}}\n{{"word": "of {number}"}}\n')
        os.utime(folder / f"{number}.json", (1e9 + number, 1e9 + number))  # Spark takes files by age


def expected(files: int) -> Counter[str]:
    return Counter([f"every:{n}" for n in range(1, files + 1)] + [f"of {n}:1" for n in range(files)])


@WHEN_THOROUGH  # otherwise with checkpoints in a directory, and other jobs with theirs in a store: test_object_store
@pytest.mark.timeout(400)
def test_a_watched_directory_resumes_where_a_killed_driver_was_and_from_savepoints_in_both_kinds_of_storage(
    server: Server, tmp_path: Path
) -> None:
    source, place = tmp_path / "in", f"s3://{BUCKET}/{uuid.uuid4()}"
    source.mkdir()

    def job(checkpoints: str, job_id: str, **more: str) -> JobClient:
        return watched_job.start(
            source, tmp_path / "out", stored_in(checkpoints, server.options, **{"execution.job-id": job_id, **more})
        )

    def reaches(files: int, client: JobClient) -> None:
        ended = client.get_job_execution_result()
        eventually(lambda: ended.done() or seen(tmp_path).total() >= 2 * files, shown=lambda: seen(tmp_path))
        assert seen(tmp_path) == expected(files)

    add_words(source, range(7))
    options = stored_in(place, server.options, **{"execution.job-id": "first"})
    arguments = {"input": str(source), "output": str(tmp_path / "out"), "options": options}
    ended = run(
        "watched_job.py",
        json.dumps(arguments),
        faults=[fault("manifest.before", skip=4)],  # a file is begun, and its epoch does not count
        log=tmp_path / "killed.log",
    )
    assert ended.killed, ended.text[-3000:]
    assert seen(tmp_path) == expected(4)

    client = job(place, "first")
    reaches(7, client)
    assert ObjectStorage(f"{place}/first", server.options).list("spark/") == [], "there is no query"
    saved = client.stop_with_savepoint(False, str(tmp_path / "saved")).result(SECONDS)

    add_words(source, range(7, 8))
    client = job(str(tmp_path / "checkpoints"), "second", **{"execution.state-recovery.path": saved})
    reaches(8, client)
    saved = client.stop_with_savepoint(False, f"{place}/saved").result(SECONDS)

    add_words(source, range(8, 9))
    client = job(f"{place}/third", "third", **{"execution.state-recovery.path": saved})
    reaches(9, client)
    client.cancel().result(SECONDS)


@pytest.mark.timeout(400)
def test_a_topic_is_read_from_where_the_first_driver_began_and_each_record_once(
    spark: SparkSession, kafka: KafkaBroker, server: Server, tmp_path: Path
) -> None:
    topic, place = kafka.create_topic("stored-elsewhere"), f"s3://{BUCKET}/{uuid.uuid4()}"
    kafka.produce(topic, ["before"])
    source = reading(kafka, topic).set_starting_offsets(KafkaOffsetsInitializer.latest()).set_max_records_per_epoch(1)
    storage = ObjectStorage(f"{place}/job", server.options)
    with Proxy(server) as proxy:

        def job(**more: str) -> JobClient:
            return counting(source, tmp_path, **stored_in(place, proxy.options, **more))

        def refuse_logs(number: int, method: str, path: str) -> str | None:
            if method != "PUT" or "/spark/" not in path:
                return None
            refused.append(path)
            return "500" if len(refused) <= 3 else None  # a request and its two repetitions

        # Nothing is read by the first driver, and the second one begins where that would have begun.
        first = job()
        stored = lambda: [name for name in storage.list("spark/") if "/sources/0/" in name]  # noqa: E731
        eventually(stored, what="where the topic ends is stored")
        first.cancel().result(SECONDS)
        kafka.produce(topic, ["a", "b"])
        second = job()
        eventually(lambda: seen(tmp_path).total() == 2)
        begun = len(proxy.requests)
        kafka.produce(topic, ["a", "c"])
        eventually(lambda: seen(tmp_path).total() == 4)
        second.cancel().result(SECONDS)
        written = [path for method, path in proxy.requests[begun:] if method == "PUT" and "/spark/" in path]
        assert written == [], "where a batch ended is in its manifest"
        # A log that cannot be stored is an epoch that fails, which a job may bear.
        kafka.produce(topic, ["a"])
        refused: list[str] = []
        proxy.trouble = refuse_logs
        third = job(**{"execution.checkpointing.tolerable-failed-checkpoints": "1"})
        eventually(lambda: seen(tmp_path).total() == 5)
        third.cancel().result(SECONDS)
    assert len(refused) > 3
    assert seen(tmp_path) == Counter(["a:1", "a:2", "a:3", "b:1", "c:1"])


def test_a_stream_for_which_spark_keeps_state_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    ticks = spark.readStream.format("rate").load()
    timely, fixed = ticks.withWatermark("timestamp", "1 second"), spark.range(3)
    stateful: dict[str, DataFrame] = {
        "dropDuplicates": ticks.dropDuplicates(["value"]),
        "dropDuplicatesWithinWatermark": timely.dropDuplicatesWithinWatermark(["value"]),
        "groupBy": timely.groupBy(F.window("timestamp", "1 second")).count().select("count"),
        "limit": ticks.limit(3),
        "a join of two streams": ticks.join(timely.withColumnRenamed("value", "other"), F.expr("value = other")),
    }
    for what, frame in stateful.items():
        with pytest.raises(GraphError, match=f"the source with uid 'ticks' has {what}, for which Spark keeps state"):
            check_stateless(frame, "ticks")
    counted: Any = fixed.groupBy("id").count()
    check_stateless(timely.union(ticks).join(counted, F.expr("id = value")).filter("value > 1"), "ticks")

    env = environment()
    env.from_dataframe(stateful["limit"]).uid("ticks").map(lambda row: row[1]).print()
    with pytest.raises(GraphError, match="Do it in the job, on the stream"):
        env.execute("limited")
