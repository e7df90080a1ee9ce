"""Topics of a real broker, read without Spark: where reading begins and ends, restarts, growth, loss, kills."""

from __future__ import annotations

import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.integration import local_kafka_job
from tests.kafka_broker import KafkaBroker
from tests.kafka_ways_in import way_into
from tests.ports import refusing_port
from tests.waiting import eventually
from tidemill.common import Configuration, Duration, JobClient, Time, Types, WatermarkStrategy
from tidemill.common.serialization import SimpleStringSchema
from tidemill.connectors.kafka.broker_queries import bounds
from tidemill.connectors.kafka.library_broker import LibraryBroker
from tidemill.datastream import StreamExecutionEnvironment, TumblingEventTimeWindows
from tidemill.datastream.connectors.kafka import (
    KafkaOffsetResetStrategy,
    KafkaOffsetsInitializer,
    KafkaRecord,
    KafkaRecordDeserializationSchema,
    KafkaSource,
    KafkaSourceBuilder,
    KafkaTopicPartition,
)
from tidemill.errors import ConfigurationError, ConnectorError, LostInputError, SerializationError

SECONDS = 60
LATEST = KafkaOffsetsInitializer.latest()
EARLIEST = KafkaOffsetResetStrategy.EARLIEST


def reading(kafka: KafkaBroker, *topics: str) -> KafkaSourceBuilder:
    builder = KafkaSource.builder().set_bootstrap_servers(kafka.address)
    builder.set_value_only_deserializer(SimpleStringSchema())
    return builder.set_topics(*topics) if topics else builder


def environment(**options: str) -> StreamExecutionEnvironment:
    configuration = Configuration.from_dict({"execution.target": "local", **options})
    return StreamExecutionEnvironment.get_execution_environment(configuration)


def read(builder: KafkaSourceBuilder) -> list[Any]:
    """All records of a source up to the present end of its topics, sorted."""
    stream = environment().from_source(builder.set_bounded(LATEST).build(), WatermarkStrategy.no_watermarks(), "topic")
    with stream.execute_and_collect() as results:
        return sorted(results)


def counting(builder: KafkaSourceBuilder, folder: Path, job_id: str = "job", **options: str) -> JobClient:
    return local_kafka_job.counting(builder.build(), folder, job_id, **options)


seen = local_kafka_job.seen


def cancel(client: JobClient) -> None:
    client.cancel().result(SECONDS)


def test_a_topic_is_read_from_its_beginning_to_its_end(kafka: KafkaBroker) -> None:
    topic = kafka.create_topic("local-all", partitions=2)
    kafka.produce(topic, ["a", "b"], partition=0)
    kafka.produce(topic, ["c", None, "d"], partition=1)
    assert read(reading(kafka, topic)) == ["a", "b", "c", "d"], "a record without a value is skipped"


def test_topics_can_be_chosen_by_their_names(kafka: KafkaBroker) -> None:
    for name in ("fruit-eu", "fruit-us", "old-fruit-eu"):
        kafka.produce(kafka.create_topic(name), [name])
    assert read(reading(kafka).set_topic_pattern("fruit-.*")) == ["fruit-eu", "fruit-us"]
    with pytest.raises(ConfigurationError, match="uses syntax of Java's regular expressions"):
        read(reading(kafka).set_topic_pattern(r"fruit-\p{Lower}+"))


@pytest.mark.parametrize(("level", "expected"), [("read_committed", 1), (None, 3)])
def test_transactions(kafka: KafkaBroker, level: str | None, expected: int) -> None:
    topic = kafka.create_topic(f"local-half-written-{level}")
    for end in ("commit_transaction", "abort_transaction", None):
        writer = Producer({"bootstrap.servers": kafka.address, "transactional.id": f"local writer {level} {end}"})
        writer.init_transactions(60)
        writer.begin_transaction()
        writer.produce(topic, str(end).encode())
        writer.flush(60)
        if end is not None:
            getattr(writer, end)(60)
            kafka.await_transactions(topic)
    source = reading(kafka, topic)
    found = read(source if level is None else source.set_property("isolation.level", level))
    assert len(found) == expected
    assert "commit_transaction" in found


class Everything(KafkaRecordDeserializationSchema[tuple[object, ...]]):
    """A record as a tuple."""

    def deserialize(self, record: KafkaRecord) -> tuple[object, ...] | None:
        if record.value == b"skipped":
            return None
        return record.key, record.value, record.partition, record.offset, record.timestamp, record.headers


def test_a_schema_of_records_sees_all_that_kafka_knows(kafka: KafkaBroker) -> None:
    topic = kafka.create_topic("local-records", partitions=2)
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


def test_where_reading_begins_and_ends_is_looked_up_in_each_partition(kafka: KafkaBroker) -> None:
    topic = kafka.create_topic("local-places", partitions=2)
    zero, one = KafkaTopicPartition(topic, 0), KafkaTopicPartition(topic, 1)
    now = time.time_ns() // 1_000_000
    for second in range(5):
        kafka.produce(topic, ["x"], partition=0, timestamp=now + 1000 * second)
    kafka.produce(topic, ["x", "x", "x"], partition=1, timestamp=now)
    kafka.delete_records(topic, 1, before=1)
    consumer = Consumer({"bootstrap.servers": kafka.address, "group.id": "local-places"})
    consumer.commit(offsets=[TopicPartition(*zero, 4)], asynchronous=False)
    consumer.close()

    def found(initializer: KafkaOffsetsInitializer, stopping: KafkaOffsetsInitializer = LATEST) -> list[dict[int, int]]:
        builder = reading(kafka, topic).set_group_id("local-places")
        source = builder.set_starting_offsets(initializer).set_bounded(stopping).build()
        with LibraryBroker(source) as broker:
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
    places = reading(kafka, topic).set_starting_offsets(at.offsets({zero: 1}))
    stream = environment().from_source(
        places.set_bounded(at.offsets({zero: 3, one: 2})).build(), WatermarkStrategy.no_watermarks(), "topic"
    )
    with stream.execute_and_collect() as results:
        assert len(list(results)) == 3


def test_each_record_counts_once_over_restarts_and_a_savepoint(kafka: KafkaBroker, tmp_path: Path) -> None:
    topic = kafka.create_topic("local-restarts", partitions=2)
    source = reading(kafka, topic).set_group_id("local-restarts").set_max_records_per_epoch(3)
    kafka.produce(topic, ["a", "b"] * 4, partition=0)
    first = counting(source, tmp_path)
    eventually(lambda: seen(tmp_path).total() == 8)
    cancel(first)

    def committed() -> int:
        consumer = Consumer({"bootstrap.servers": kafka.address, "group.id": "local-restarts"})
        (found,) = consumer.committed([TopicPartition(topic, 0)], timeout=SECONDS)
        consumer.close()
        return int(found.offset)

    eventually(lambda: committed() == 8, what="the committed offset of the group")
    kafka.produce(topic, ["a", "c"], partition=1)
    second = counting(source, tmp_path)
    eventually(lambda: seen(tmp_path).total() == 10)
    saved = second.stop_with_savepoint(False, str(tmp_path / "saved")).result(SECONDS)

    kafka.produce(topic, ["a", "c"], partition=0)
    third = counting(source, tmp_path, "another", **{"execution.state-recovery.path": saved})
    eventually(lambda: seen(tmp_path).total() == 12)
    cancel(third)
    every = [*(f"a:{count}" for count in range(1, 7)), *(f"b:{count}" for count in range(1, 5)), "c:1", "c:2"]
    assert seen(tmp_path) == Counter(every)


def test_the_end_of_a_topic_is_that_of_the_first_start(kafka: KafkaBroker, tmp_path: Path) -> None:
    topic = kafka.create_topic("local-latest")
    kafka.produce(topic, ["before"])
    source = reading(kafka, topic).set_starting_offsets(LATEST)
    client = counting(source, tmp_path)
    eventually(lambda: any((tmp_path / "checkpoints").rglob("manifests/*2.tm")), what="the first epoch")
    cancel(client)
    kafka.produce(topic, ["while it was stopped"])
    client = counting(source, tmp_path)
    eventually(lambda: seen(tmp_path) == Counter(["while it was stopped:1"]))
    cancel(client)


def test_a_topic_that_grows_and_topics_that_appear(kafka: KafkaBroker, tmp_path: Path) -> None:
    kafka.produce(kafka.create_topic("growing-one"), ["a"])
    client = counting(reading(kafka).set_topic_pattern("growing-.*"), tmp_path)
    eventually(lambda: seen(tmp_path).total() == 1)
    kafka.add_partitions("growing-one", 2)
    kafka.produce("growing-one", ["b"], partition=1)
    kafka.produce(kafka.create_topic("growing-two"), ["c"])
    eventually(lambda: seen(tmp_path).total() == 3)
    cancel(client)


def test_records_that_were_deleted_unread_are_an_error_or_skipped(kafka: KafkaBroker, tmp_path: Path) -> None:
    topic = kafka.create_topic("local-deleted")
    kafka.produce(topic, ["a"])
    client = counting(reading(kafka, topic), tmp_path)
    eventually(lambda: seen(tmp_path).total() == 1)
    cancel(client)
    kafka.produce(topic, ["b", "c", "d"])
    kafka.delete_records(topic, 0, before=3)
    with pytest.raises(LostInputError, match="2 records were deleted before they were read"):
        counting(reading(kafka, topic), tmp_path).get_job_execution_result().result(SECONDS)
    client = counting(reading(kafka, topic).set_property("auto.offset.reset", "earliest"), tmp_path)
    eventually(lambda: seen(tmp_path) == Counter(["a:1", "d:1"]))
    cancel(client)
    kafka.delete_topic(topic)
    kafka.create_topic(topic)
    with pytest.raises(LostInputError, match="was deleted and created again"):
        counting(reading(kafka, topic), tmp_path).get_job_execution_result().result(SECONDS)


def test_the_slowest_partition_holds_the_watermark_until_it_is_idle(kafka: KafkaBroker, tmp_path: Path) -> None:
    topic = kafka.create_topic("local-time", partitions=2)
    start = time.time_ns() // 1_000_000 // 60_000 * 60_000 - 600_000
    kafka.produce(topic, ["x"], partition=0, timestamp=start)
    kafka.produce(topic, ["y"], partition=1, timestamp=start)
    kafka.produce(topic, ["x"], partition=0, timestamp=start + 120_000)
    env = environment(**{"execution.checkpointing.dir": str(tmp_path / "checkpoints"), "execution.job-id": "time"})
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_idleness(Duration.of_seconds(3))
    words = env.from_source(reading(kafka, topic).build(), strategy, "topic").map(lambda word: (word, 1))
    counts = words.key_by(lambda pair: pair[0]).window(TumblingEventTimeWindows.of(Time.minutes(1)))
    summed = counts.reduce(lambda one, other: (one[0], one[1] + other[1]))
    local_kafka_job.to_files(summed.map(str, Types.STRING()), tmp_path)
    began = time.monotonic()
    client = env.execute_async("time")
    eventually(lambda: seen(tmp_path) == Counter(["('x', 1)", "('y', 1)"]))
    assert time.monotonic() - began >= 2.5, "partition 1 has no later record: it holds the watermark until it is idle"
    cancel(client)


def test_a_record_that_cannot_be_read_is_named(kafka: KafkaBroker, tmp_path: Path) -> None:
    topic = kafka.create_topic("local-broken")
    kafka.produce(topic, ["good", b"\xff\xfe"])
    with pytest.raises(SerializationError, match="the record at offset 1 of topic 'local-broken', partition 0"):
        read(reading(kafka, topic))


def test_what_cannot_be_reached_is_an_error_before_the_job_starts(kafka: KafkaBroker) -> None:
    kafka.create_topic("local-planets")
    with pytest.raises(ConfigurationError, match="did you mean 'local-planets'"):
        read(reading(kafka, "local-planet"))
    with refusing_port() as port:
        source = KafkaSource.builder().set_bootstrap_servers(f"127.0.0.1:{port}").set_topics("any")
        source.set_value_only_deserializer(SimpleStringSchema()).set_property("default.api.timeout.ms", "1000")
        with pytest.raises(ConnectorError, match=f"Kafka at 127.0.0.1:{port} cannot be queried for topics any"):
            read(source)


@pytest.mark.parametrize("way", ["SASL_SSL SCRAM-SHA-512", "SSL texts"])
def test_a_secured_broker_is_read_with_the_properties_of_the_java_client(
    kafka: KafkaBroker, tmp_path: Path, way: str
) -> None:
    topic = kafka.create_topic(f"local-secured-{way.partition(' ')[0]}")
    kafka.produce(topic, ["a"])
    door = way_into(kafka, way, tmp_path)
    source = KafkaSource.builder().set_bootstrap_servers(door.address).set_topics(topic)
    source.set_properties(door.properties).set_value_only_deserializer(SimpleStringSchema())
    assert read(source) == ["a"]


def test_a_killed_process_goes_on_exactly_once(kafka: KafkaBroker, tmp_path: Path) -> None:
    topic = kafka.create_topic("local-killed", partitions=3)
    words = [f"word{number % 7}" for number in range(600)]
    expected = Counter(f"{word}:{count}" for word in set(words) for count in range(1, words.count(word) + 1))
    command = [sys.executable, local_kafka_job.__file__, kafka.address, topic, str(tmp_path)]
    for turn in range(3):
        kafka.produce(topic, words[200 * turn : 200 * turn + 200])
        before = seen(tmp_path).total()
        job = subprocess.Popen(command)
        try:
            wanted = before + (40 if turn < 2 else 600 - before)
            eventually(lambda wanted=wanted: seen(tmp_path).total() >= wanted)  # type: ignore[misc]
        finally:
            job.kill()
            job.wait()
    assert seen(tmp_path) == expected
