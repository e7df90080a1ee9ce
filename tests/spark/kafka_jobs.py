"""Jobs that read topics, in the shared session."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.kafka_broker import KafkaBroker
from tests.spark.jobs import durable, environment
from tidemill.common import Encoder, JobClient, Types, WatermarkStrategy
from tidemill.common.serialization import SimpleStringSchema
from tidemill.datastream import DataStream
from tidemill.datastream.connectors.file_system import FileSink, RollingPolicy
from tidemill.datastream.connectors.kafka import KafkaOffsetsInitializer, KafkaSource, KafkaSourceBuilder
from tidemill.datastream.functions import KeyedProcessFunction, RuntimeContext
from tidemill.datastream.state import ValueStateDescriptor

LATEST = KafkaOffsetsInitializer.latest()


def reading(kafka: KafkaBroker, *topics: str) -> KafkaSourceBuilder:
    """A source of text, still to be finished."""
    return reading_at(kafka.address, *topics)


def reading_at(servers: str, *topics: str) -> KafkaSourceBuilder:
    """A source of text of a broker that another process has."""
    builder = KafkaSource.builder().set_bootstrap_servers(servers)
    builder.set_value_only_deserializer(SimpleStringSchema())
    return builder.set_topics(*topics) if topics else builder


def read(builder: KafkaSourceBuilder) -> list[Any]:
    """All records of a source up to the present end of its topics, sorted."""
    stream = environment().from_source(builder.set_bounded(LATEST).build(), WatermarkStrategy.no_watermarks(), "topic")
    with stream.execute_and_collect() as results:
        return sorted(results)


class Count(KeyedProcessFunction):
    """Each record with how often it has come."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield f"{value}:{count}"


def counting(builder: KafkaSourceBuilder, folder: Path, job_id: str = "job", **options: str) -> JobClient:
    """Start a job that counts what comes from a topic, each word by itself, exactly once."""
    env = environment(durable(folder / "checkpoints", job_id, **{**options, "pipeline.max-parallelism": "8"}))
    words: DataStream = env.from_source(builder.build(), WatermarkStrategy.no_watermarks(), "topic").uid("topic")
    counts = words.key_by(lambda word: word).process(Count(), Types.STRING()).uid("count")
    counts.sink_to(
        FileSink.for_row_format(str(folder / "out"), Encoder.simple_string_encoder())
        .with_rolling_policy(RollingPolicy.on_epoch_rolling_policy())
        .build()
    ).uid("sink")
    return env.execute_async(job_id)


def seen(folder: Path) -> Counter[str]:
    """What was committed so far."""
    parts = [part for part in (folder / "out").rglob("*") if part.is_file() and not part.name.startswith(".")]
    return Counter(line for part in parts for line in part.read_text().splitlines())
