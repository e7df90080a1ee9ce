"""FlinkKafkaConsumer on Spark: where it begins, and that it resumes there."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from tests.kafka_broker import KafkaBroker
from tests.spark.jobs import durable, environment
from tests.waiting import eventually
from tidemill.common import Encoder, JobClient, Types
from tidemill.common.serialization import SimpleStringSchema
from tidemill.datastream.connectors import FlinkKafkaConsumer, StreamingFileSink
from tidemill.datastream.connectors.file_system import RollingPolicy


def lines(folder: Path) -> list[str]:
    files = [path for path in folder.rglob("part-*") if path.is_file()]
    return sorted(line for path in files for line in path.read_text().splitlines())


def copying(consumer: FlinkKafkaConsumer, folder: Path) -> JobClient:
    env = environment(durable(folder / "checkpoints"))
    words = env.add_source(consumer, "words").uid("words").map(str.upper, Types.STRING()).uid("upper")
    sink = (
        StreamingFileSink.for_row_format(str(folder / "out"), Encoder.simple_string_encoder())
        .with_rolling_policy(RollingPolicy.on_epoch_rolling_policy())
        .build()
    )
    words.add_sink(sink).uid("sink")
    return env.execute_async("copy")


def test_a_topic_is_read_from_the_beginning_and_each_record_once(
    spark: SparkSession, kafka: KafkaBroker, tmp_path: Path
) -> None:
    topic = kafka.create_topic("old-consumer", partitions=2)
    kafka.produce(topic, ["a", "b"], partition=0)
    kafka.produce(topic, ["c"], partition=1)
    properties = {"bootstrap.servers": kafka.address, "group.id": "old-consumer"}

    def consumer() -> FlinkKafkaConsumer:
        return FlinkKafkaConsumer(topic, SimpleStringSchema(), properties).set_start_from_earliest()

    client = copying(consumer(), tmp_path)
    eventually(lambda: lines(tmp_path / "out") == ["A", "B", "C"])
    client.cancel().result()
    kafka.produce(topic, ["d"], partition=1)
    client = copying(consumer(), tmp_path)
    eventually(lambda: "D" in lines(tmp_path / "out"))
    client.cancel().result()
    assert lines(tmp_path / "out") == ["A", "B", "C", "D"]
