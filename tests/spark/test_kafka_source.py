"""Topics of a real broker as streams: where reading begins and ends, and what a record says of itself."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from pyspark.sql import SparkSession

from examples.connectors import kafka_windows
from tests.kafka_broker import KafkaBroker
from tests.ports import refusing_port
from tests.spark.jobs import environment
from tests.spark.kafka_jobs import LATEST, read, reading
from tidemill.common import WatermarkStrategy
from tidemill.common.serialization import SimpleStringSchema
from tidemill.connectors.kafka.broker_queries import bounds
from tidemill.datastream.connectors.kafka import (
    KafkaOffsetResetStrategy,
    KafkaOffsetsInitializer,
    KafkaRecord,
    KafkaRecordDeserializationSchema,
    KafkaSource,
    KafkaTopicPartition,
)
from tidemill.errors import ConfigurationError, ConnectorError, LostInputError, SerializationError
from tidemill.spark.kafka import jars as kafka_jars
from tidemill.spark.kafka.broker import Broker
from tidemill.spark.kafka.kafka_reader import KafkaReader

EARLIEST = KafkaOffsetResetStrategy.EARLIEST


def commit(kafka: KafkaBroker, group: str, partition: KafkaTopicPartition, offset: int) -> None:
    """Let a consumer group have read a partition up to an offset."""
    consumer = Consumer({"bootstrap.servers": kafka.address, "group.id": group})
    consumer.commit(offsets=[TopicPartition(*partition, offset)], asynchronous=False)
    consumer.close()


# --------------------------------------------------------------------------------------------------------- what is read


def test_a_topic_is_read_from_its_beginning_to_its_end(spark: SparkSession, kafka: KafkaBroker) -> None:
    topic = kafka.create_topic("all-of-it", partitions=2)
    kafka.produce(topic, ["a", "b"], partition=0)
    kafka.produce(topic, ["c", None, "d"], partition=1)
    assert read(reading(kafka, topic)) == ["a", "b", "c", "d"], "a record without a value is skipped"


def test_topics_can_be_chosen_by_their_names(spark: SparkSession, kafka: KafkaBroker) -> None:
    for name in ("orders-eu", "orders-us", "old-orders-eu"):
        kafka.produce(kafka.create_topic(name), [name])
    assert read(reading(kafka).set_topic_pattern("orders-.*")) == ["orders-eu", "orders-us"]


def test_only_committed_records_are_read_if_configured(spark: SparkSession, kafka: KafkaBroker) -> None:
    topic = kafka.create_topic("half-written")
    for end in ("commit_transaction", "abort_transaction", None):
        writer = Producer({"bootstrap.servers": kafka.address, "transactional.id": f"writer {end}"})
        writer.init_transactions(60)
        writer.begin_transaction()
        writer.produce(topic, str(end).encode())
        writer.flush(60)
        if end is not None:
            getattr(writer, end)(60)
            kafka.await_transactions(topic)
    assert read(reading(kafka, topic).set_property("isolation.level", "read_committed")) == ["commit_transaction"]


class Everything(KafkaRecordDeserializationSchema[tuple[object, ...]]):
    """A record as a tuple, without its offset's place in the world."""

    def deserialize(self, record: KafkaRecord) -> tuple[object, ...] | None:
        if record.value == b"skipped":
            return None
        return record.key, record.value, record.partition, record.offset, record.timestamp, record.headers


def test_a_schema_of_records_sees_all_that_kafka_knows(spark: SparkSession, kafka: KafkaBroker) -> None:
    topic = kafka.create_topic("records", partitions=2)
    now = time.time_ns() // 1_000_000
    kafka.produce(topic, [("k", "v")], partition=1, timestamp=now, headers=[("trace", b"1"), ("trace", b"2")])
    kafka.produce(topic, ["skipped", (None, None)], partition=1, timestamp=now + 1)
    kafka.produce(topic, ["of another partition"], partition=0)
    source = KafkaSource.builder().set_bootstrap_servers(kafka.address).set_deserializer(Everything())
    source.set_partitions({KafkaTopicPartition(topic, 1)})
    records = environment().from_source(
        source.set_bounded(LATEST).build(), WatermarkStrategy.no_watermarks(), "records"
    )
    with records.execute_and_collect() as results:
        assert list(results) == [
            (b"k", b"v", 1, 0, now, (("trace", b"1"), ("trace", b"2"))),
            (None, None, 1, 2, now + 1, ()),
        ]


def test_the_example_adds_orders_up_by_the_time_that_kafka_has_for_them(
    spark: SparkSession, kafka: KafkaBroker
) -> None:
    topic = kafka.create_topic("orders", partitions=2)
    start = time.time_ns() // 1_000_000 // 60_000 * 60_000 - 600_000
    for partition, minute, customer, amount in ((0, 0, "ada", 1.5), (1, 1, "ada", 2.0), (0, 0, "bob", 4.0)):
        order = f'{{"customer": "{customer}", "amount": {amount}}}'
        kafka.produce(topic, [order, order], partition=partition, timestamp=start + 60_000 * minute)
    assert sorted(kafka_windows.main([kafka.address, topic])) == [
        ("ada", start, 3.0),
        ("ada", start + 60_000, 4.0),
        ("bob", start, 8.0),
    ]


# --------------------------------------------------------------------------------------------------- beginning and end


def test_where_reading_begins_and_ends_is_looked_up_in_each_partition(spark: SparkSession, kafka: KafkaBroker) -> None:
    topic = kafka.create_topic("places", partitions=2)
    zero, one = KafkaTopicPartition(topic, 0), KafkaTopicPartition(topic, 1)
    now = time.time_ns() // 1_000_000
    for second in range(5):
        kafka.produce(topic, ["x"], partition=0, timestamp=now + 1000 * second)
    kafka.produce(topic, ["x", "x", "x"], partition=1, timestamp=now)
    kafka.delete_records(topic, 1, before=1)
    commit(kafka, "places", zero, 4)

    def found(initializer: KafkaOffsetsInitializer, stopping: KafkaOffsetsInitializer = LATEST) -> list[dict[int, int]]:
        builder = reading(kafka, topic).set_group_id("places")
        source = builder.set_starting_offsets(initializer).set_bounded(stopping).build()
        with Broker(spark, source) as broker:
            places = bounds(broker, source)
        return [{partition.partition: offset for partition, offset in offsets.items()} for offsets in places]

    at = KafkaOffsetsInitializer
    assert found(at.earliest()) == [{0: 0, 1: 1}, {0: 5, 1: 3}]
    assert found(at.latest()) == [{0: 5, 1: 3}, {0: 5, 1: 3}]
    assert found(at.timestamp(now + 1500)) == [{0: 2, 1: 3}, {0: 5, 1: 3}]
    assert found(at.committed_offsets(EARLIEST)) == [{0: 4, 1: 1}, {0: 5, 1: 3}]
    assert found(at.offsets({zero: 3, one: 2})) == [{0: 3, 1: 2}, {0: 5, 1: 3}]
    assert found(at.offsets({one: 0})) == [{0: 4, 1: 1}, {0: 5, 1: 3}], "committed where not named; 0 is deleted"
    assert found(at.earliest(), at.offsets({zero: 2, one: 3})) == [{0: 0, 1: 1}, {0: 2, 1: 3}]
    assert found(at.earliest(), at.timestamp(now + 2500)) == [{0: 0, 1: 1}, {0: 3, 1: 3}]
    with pytest.raises(ConfigurationError, match="group 'places' has committed no offset for places-1"):
        found(at.committed_offsets())
    with pytest.raises(LostInputError, match="offset 0 of places-1 is required, but the first available one is 1"):
        found(at.offsets({one: 0}, KafkaOffsetResetStrategy.NONE))
    with pytest.raises(ConfigurationError, match="stop at offset 9 of places-0, which ends at 5"):
        found(at.earliest(), at.offsets({zero: 9}))
    builder = reading(kafka, topic).set_starting_offsets(at.offsets({zero: 3}, EARLIEST))
    assert read(builder) == ["x"] * 4, "Spark takes them as they are"


# --------------------------------------------------------------------------------------------------------------- errors


def test_an_address_without_a_server_is_reported_in_time(spark: SparkSession) -> None:
    with refusing_port() as port:
        source = KafkaSource.builder().set_bootstrap_servers(f"127.0.0.1:{port}").set_topics("clicks")
        source.set_value_only_deserializer(SimpleStringSchema()).set_property("default.api.timeout.ms", "1500")
        env = environment()
        env.from_source(source.build(), WatermarkStrategy.no_watermarks(), "clicks").print()
        begun = time.monotonic()
        with pytest.raises(ConnectorError, match=rf"Kafka at 127\.0\.0\.1:{port} cannot be queried for topics clicks"):
            env.execute()
        assert time.monotonic() - begun < 60, "less than if it were not told how long"


def test_a_missing_topic_is_reported_with_those_of_similar_names(spark: SparkSession, kafka: KafkaBroker) -> None:
    kafka.create_topic("measurements")
    with pytest.raises(ConfigurationError, match=r"topic 'mesurements' is not known to .*mean 'measurements'\?"):
        KafkaReader(reading(kafka, "mesurements").build()).check(spark)
    gone = reading(kafka).set_partitions({KafkaTopicPartition("measurements", 3)})
    with pytest.raises(ConfigurationError, match=r"'measurements' at .* has no partition 3, only 0"):
        KafkaReader(gone.build()).check(spark)


def test_a_record_that_cannot_be_read_is_shown_with_its_place(spark: SparkSession, kafka: KafkaBroker) -> None:
    topic = kafka.create_topic("broken")
    kafka.produce(topic, ["fine", b"\xff\xfe" * 500])
    with pytest.raises(SerializationError, match=r"offset 1 of topic 'broken', partition 0, cannot be read") as caught:
        read(reading(kafka, topic))
    assert r"b'\xff\xfe" in str(caught.value)
    assert "(1,000 bytes)" in str(caught.value)


def test_where_the_connector_cannot_be_had_the_message_says_what_to_do(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_java(*_: object, **__: object) -> None:
        raise OSError("there is no Java")

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(subprocess, "run", no_java)
    wanted = rf"--packages org\.apache\.spark:spark-sql-kafka-0-10_2\.\d+:{spark.version}.*\n.*there is no Java"
    with pytest.raises(ConfigurationError, match=wanted):
        kafka_jars.connector_jars(spark)
