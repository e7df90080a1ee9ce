"""KafkaSink on Spark: the example, and epochs so large that they are delivered by workers."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from examples.connectors import kafka_to_kafka
from tests.kafka_broker import KafkaBroker
from tidemill.common import Configuration, WatermarkStrategy
from tidemill.common.serialization import SimpleStringSchema
from tidemill.datastream import StreamExecutionEnvironment
from tidemill.datastream.connectors.base import DeliveryGuarantee
from tidemill.datastream.connectors.kafka import KafkaRecordSerializationSchema, KafkaSink
from tidemill.datastream.connectors.number_seq import NumberSequenceSource

LINES = ["to be or not to be", "that is the question"]
SIZE = 2_000


@pytest.mark.usefixtures("spark")
def test_the_example_counts_words_exactly_once(kafka: KafkaBroker, tmp_path: Path) -> None:
    words, counts = kafka.create_topic("example-words", 2), kafka.create_topic("example-counts", 2)
    kafka.produce(words, LINES)
    arguments = ["--servers", kafka.address, "--from", words, "--to", counts, "--checkpoints", str(tmp_path)]
    for _ in range(2):  # the second start finds that all is done
        kafka_to_kafka.main(arguments)
        kafka.await_transactions(counts)
        last = {word: int(count) for word, count in sorted(line.split() for line in kafka.values(counts))}
        assert last == Counter(" ".join(LINES).split())
        assert len(kafka.values(counts)) == 10


@pytest.mark.parametrize(
    "guarantee", [DeliveryGuarantee.EXACTLY_ONCE, DeliveryGuarantee.AT_LEAST_ONCE], ids=lambda each: each.name
)
def test_large_epochs_are_delivered_by_workers(
    spark: SparkSession, kafka: KafkaBroker, tmp_path: Path, guarantee: DeliveryGuarantee
) -> None:
    topic = kafka.create_topic(f"large-epochs-{guarantee.name}", 2)
    configuration = Configuration()
    configuration.set_string("execution.checkpointing.dir", str(tmp_path))
    configuration.set_string("execution.epoch.max-records", "200")
    env = StreamExecutionEnvironment.get_execution_environment(configuration).set_parallelism(2)
    serializer = KafkaRecordSerializationSchema.builder().set_topic(topic)
    sink = (
        KafkaSink.builder()
        .set_bootstrap_servers(kafka.address)
        .set_delivery_guarantee(guarantee)
        .set_transactional_id_prefix(topic)
        .set_record_serializer(serializer.set_value_serialization_schema(SimpleStringSchema()).build())
        .build()
    )
    numbers = env.from_source(NumberSequenceSource(0, 599), WatermarkStrategy.no_watermarks(), "numbers")
    numbers.map(lambda number: str(number).zfill(SIZE)).sink_to(sink).uid("sink")
    env.execute("large epochs")
    kafka.await_transactions(topic)
    assert sorted(map(int, kafka.values(topic))) == list(range(600))
