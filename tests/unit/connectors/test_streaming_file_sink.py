"""The file sink of Flink 1.x in its forms, and sinks that transform their stream."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tidemill.common import Configuration, Encoder, Types
from tidemill.connectors.collection import CollectionSource
from tidemill.connectors.file_system.writer import FileSettings
from tidemill.connectors.sinks import Sink, SinkWriter
from tidemill.datastream import DataStream, StreamExecutionEnvironment
from tidemill.datastream.connectors import (
    BucketAssigner,
    DefaultRollingPolicy,
    OnCheckpointRollingPolicy,
    OutputFileConfig,
    RollingPolicy,
    StreamingFileSink,
)
from tidemill.datastream.connectors.base import StreamTransformer, SupportsPreprocessing
from tidemill.datastream.formats.parquet import ParquetBulkWriters

JAVA = "org.apache.flink.streaming.api.functions.sink.filesystem.bucketassigners."
TEXT = Encoder.simple_string_encoder()


def settings(**given: Any) -> FileSettings:
    builder = StreamingFileSink.for_row_format("/tmp/out", TEXT)
    for name, value in given.items():
        getattr(builder, name)(value)
    return builder.build().settings


def test_policies_of_pyflink_1_12() -> None:
    builder = DefaultRollingPolicy.builder().with_rollover_interval(900_000).with_inactivity_interval(300_000)
    policy = builder.with_max_part_size(1 << 30).build()
    assert policy == RollingPolicy.default_rolling_policy(1 << 30, 900_000, 300_000)
    assert settings(with_rolling_policy=policy).policy == policy
    assert OnCheckpointRollingPolicy.build() == RollingPolicy.on_checkpoint_rolling_policy()


def test_bucket_assigners_of_pyflink_1_12() -> None:
    builder = StreamingFileSink.for_row_format("/tmp/out", TEXT)
    by_name = builder.with_bucket_assigner(assigner_class_name=f"{JAVA}BasePathBucketAssigner").build().settings
    assert by_name.bucket_assigner == BucketAssigner.base_path_bucket_assigner()
    by_hour = settings(with_bucket_assigner=f"{JAVA}DateTimeBucketAssigner").bucket_assigner
    assert by_hour == BucketAssigner.date_time_bucket_assigner()
    with pytest.raises(TypeError, match=r"not 'com\.example\.Mine': extend BucketAssigner"):
        settings(with_bucket_assigner="com.example.Mine")


def test_builders_have_the_names_of_the_older_sink() -> None:
    assert isinstance(StreamingFileSink.for_row_format("/tmp/out", TEXT), StreamingFileSink.DefaultRowFormatBuilder)
    rows = ParquetBulkWriters.for_row_type("id LONG")
    assert isinstance(StreamingFileSink.for_bulk_format("/tmp/out", rows), StreamingFileSink.DefaultBulkFormatBuilder)


def test_a_job_writes_with_add_sink(tmp_path: Path) -> None:
    env = StreamExecutionEnvironment.get_execution_environment(
        Configuration.from_dict({"execution.target": "local", "parallelism.default": 1})
    )
    sink = (
        StreamingFileSink.for_row_format(str(tmp_path), TEXT)
        .with_bucket_assigner(f"{JAVA}BasePathBucketAssigner")
        .with_bucket_check_interval(1000)
        .with_rolling_policy(policy=RollingPolicy.default_rolling_policy())
        .with_output_file_config(OutputFileConfig.builder().with_part_suffix(".txt").build())
        .build()
    )
    env.from_collection(["a", "b"], Types.STRING()).add_sink(sink)
    env.execute()
    assert [line for path in tmp_path.glob("*.txt") for line in path.read_text().split()] == ["a", "b"]


class Upper(StreamTransformer):
    def apply(self, ds: DataStream) -> DataStream:
        return ds.map(str.upper, Types.STRING())


class Shouting(Sink, SupportsPreprocessing):
    seen: list[str] = []  # noqa: RUF012 - what all copies share

    def __init__(self, transformer: StreamTransformer | None) -> None:
        self.transformer = transformer

    def get_transformer(self) -> StreamTransformer | None:
        return self.transformer

    def create_writer(self, subtask: int, parallelism: int) -> SinkWriter:
        class Writer(SinkWriter):
            def write(self, values: list[Any], timestamps: list[int] | None) -> None:
                Shouting.seen += values

        return Writer()


def test_a_sink_may_transform_its_stream() -> None:
    env = StreamExecutionEnvironment.get_execution_environment(
        Configuration.from_dict({"execution.target": "local", "parallelism.default": 1})
    )
    stream = env.from_source(CollectionSource(["a", "b"]), None, "words")
    stream.sink_to(Shouting(Upper()))
    stream.sink_to(Shouting(None))
    env.execute()
    assert sorted(Shouting.seen) == ["A", "B", "a", "b"]
