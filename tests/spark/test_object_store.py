"""Jobs on Spark with their checkpoints and output files in an object store: workers write and read them there."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.object_store import BUCKET, Server
from tidemill.checkpoint.storage.objects import ObjectStorage
from tidemill.common import Configuration, Encoder, Types
from tidemill.datastream import StreamExecutionEnvironment
from tidemill.datastream.connectors.file_system import BucketAssigner, FileSink, RollingPolicy
from tidemill.errors import UserCodeError


def environment(place: str, options: dict[str, str], **more: str) -> StreamExecutionEnvironment:
    configuration = Configuration.from_dict(
        {
            "execution.job-id": "words",
            "execution.checkpointing.dir": place,
            "execution.epoch.max-records": "2",
            "parallelism.default": "2",
            "state.inline-delta-size": "0",
            **{f"s3.{key}": value for key, value in options.items()},
            **more,
        }
    )
    return StreamExecutionEnvironment.get_execution_environment(configuration)


def test_a_failed_job_comes_back_from_the_store(spark: SparkSession, server: Server, tmp_path: Path) -> None:
    obstacle = tmp_path / "obstacle"
    obstacle.touch()

    def careful(word: tuple[str, int]) -> Any:
        if word[1] == 3 and obstacle.exists():
            raise ValueError("not yet")
        return word[0], 1

    def counted(options: dict[str, str], place: str, backend: str) -> list[Any]:
        env = environment(place, options, **{"state.backend.type": backend})
        words = [(letter, number) for number in range(1, 5) for letter in "ab"]
        stream = env.from_collection(words, Types.TUPLE([Types.STRING(), Types.LONG()])).uid("words")
        pairs = stream.map(careful, Types.TUPLE([Types.STRING(), Types.LONG()]))
        return sorted(pairs.key_by(lambda word: word[0]).sum(1).uid("count").execute_and_collect())

    place = f"s3://{BUCKET}/{uuid.uuid4()}"
    with pytest.raises(UserCodeError, match="not yet"):
        counted(server.options, place, "hashmap")
    obstacle.unlink()
    # The first two epochs are committed: their counts are in the store, and another backend continues with them.
    results = set(counted(server.options, place, "rocksdb"))
    assert results >= {("a", 3), ("a", 4), ("b", 3), ("b", 4)}
    assert ("a", 1) not in results


def test_a_failed_job_continues_with_the_files_it_has_started_there(
    spark: SparkSession, server: Server, tmp_path: Path
) -> None:
    place, obstacle = f"s3://{BUCKET}/{uuid.uuid4()}", tmp_path / "obstacle"
    obstacle.touch()

    def careful(number: int) -> str:
        if number == 7 and obstacle.exists():
            raise ValueError("not yet")
        return f"line-{number}"

    def write() -> None:
        env = environment(f"{place}/checkpoints", server.options)
        builder = FileSink.for_row_format(f"{place}/out", Encoder.simple_string_encoder())
        builder.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
        builder.with_rolling_policy(RollingPolicy.default_rolling_policy(1 << 20, 1 << 40, 1 << 40))
        lines = env.from_collection(list(range(1, 9)), Types.LONG()).uid("numbers").rebalance().map(careful)
        lines.sink_to(builder.build()).uid("files")
        env.execute("lines")

    def shown() -> list[str]:
        storage = ObjectStorage(f"{place}/out", server.options)
        return sorted(line for name in storage.list() for line in storage.read(name).decode().split())

    with pytest.raises(UserCodeError, match="not yet"):
        write()
    begun = ObjectStorage(f"{place}/out", server.options).list()
    assert begun
    assert all(name.startswith(".tidemill-") for name in begun)
    obstacle.unlink()
    write()
    assert shown() == [f"line-{number}" for number in range(1, 9)]
    assert len(ObjectStorage(f"{place}/out", server.options).list()) <= 2  # a file of each subtask, and nothing else
