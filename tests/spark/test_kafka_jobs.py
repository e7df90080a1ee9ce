"""Jobs that read topics without end: restarts, savepoints, topics that grow, brokers that go away, deleted records."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition
from pyspark.sql import SparkSession

from tests.kafka_broker import KafkaBroker
from tests.spark.committed import committed_head
from tests.spark.jobs import durable, environment
from tests.spark.kafka_jobs import counting, reading, seen
from tests.waiting import eventually
from tidemill.common import Duration, Encoder, JobClient, Time, Types, WatermarkStrategy
from tidemill.datastream import TumblingEventTimeWindows
from tidemill.datastream.connectors.file_system import FileSink, RollingPolicy
from tidemill.datastream.connectors.kafka import KafkaOffsetsInitializer
from tidemill.errors import LostInputError
from tidemill.runtime.driver.job import RunningJob

SECONDS = 60


def cancel(client: JobClient) -> None:
    client.cancel().result(SECONDS)


def committed_offset(kafka: KafkaBroker, group: str, topic: str) -> int:
    """What a consumer group has been told of partition 0."""
    consumer = Consumer({"bootstrap.servers": kafka.address, "group.id": group})
    (found,) = consumer.committed([TopicPartition(topic, 0)], timeout=SECONDS)
    consumer.close()
    return int(found.offset)


def test_each_record_counts_once_over_restarts_and_a_savepoint(
    spark: SparkSession, kafka: KafkaBroker, tmp_path: Path
) -> None:
    topic = kafka.create_topic("restarts", partitions=2)
    source = reading(kafka, topic).set_group_id("restarts").set_max_records_per_epoch(3)
    kafka.produce(topic, ["a", "b"] * 4, partition=0)
    first = counting(source, tmp_path)
    eventually(lambda: seen(tmp_path).total() == 8)
    cancel(first)
    eventually(lambda: committed_offset(kafka, "restarts", topic) == 8, what="the committed offset of the group")

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


def test_the_records_of_an_epoch_follow_what_they_take_while_the_query_runs(
    spark: SparkSession, kafka: KafkaBroker, tmp_path: Path
) -> None:
    cost, duration = 0.02, 2.0
    topic = kafka.create_topic("slow")
    kafka.produce(topic, ["fast"] * 5_000)
    env = environment({"execution.epoch.max-duration": f"{int(duration * 1000)} ms"})

    def sleepy(word: str) -> str:
        if word == "slow":
            time.sleep(cost)
        return word

    source = reading(kafka, topic).build()
    words = env.from_source(source, WatermarkStrategy.no_watermarks(), "words").map(sleepy, Types.STRING())
    words.uid("words").filter(lambda word: False).print()
    client = env.execute_async("slow")
    assert isinstance(client, RunningJob)

    def counts() -> list[int]:
        return [epoch.records_in for epoch in client.epochs if epoch.records_in]

    try:
        eventually(lambda: sum(counts()) == 5_000)
        assert counts()[0] == 100, "nothing was known of them"
        assert max(counts()) > 1_000, "they are fast"
        kafka.produce(topic, ["slow"] * 300)
        eventually(lambda: sum(counts()) == 5_300)
        before = len(counts())
        kafka.produce(topic, ["slow"] * 150)
        eventually(lambda: sum(counts()) == 5_450)
        assert max(counts()[before:]) <= 1.1 * duration / 2 / cost
    finally:
        cancel(client)


def test_new_partitions_are_read_from_their_beginning_and_a_broker_may_go_and_come_back(
    spark: SparkSession, kafka: KafkaBroker, tmp_path: Path
) -> None:
    topic = kafka.create_topic("growing")
    kafka.produce(topic, ["before"])
    latest = KafkaOffsetsInitializer.latest()
    job = counting(reading(kafka, topic).set_starting_offsets(latest), tmp_path)
    # Nothing says when it has looked where the end is: only what comes later is sure to be read.
    eventually(lambda: bool(after_one_more(kafka, topic, "x", tmp_path)))
    kafka.add_partitions(topic, 2)
    kafka.produce(topic, ["in the new one"], partition=1)
    eventually(lambda: seen(tmp_path)["in the new one:1"] == 1)
    kafka.restart()
    kafka.produce(topic, ["after"])
    eventually(lambda: seen(tmp_path)["after:1"] == 1)
    cancel(job)
    assert seen(tmp_path)["before:1"] == 0
    assert max(seen(tmp_path).values()) == 1


def test_records_that_were_deleted_unread_are_missed_or_left_out_as_the_program_says(
    spark: SparkSession, kafka: KafkaBroker, tmp_path: Path
) -> None:
    topic = kafka.create_topic("deleted")
    kafka.produce(topic, ["1", "2"])
    job = counting(reading(kafka, topic), tmp_path)
    eventually(lambda: seen(tmp_path).total() == 2)
    cancel(job)

    kafka.produce(topic, ["3", "4", "5"])
    kafka.delete_records(topic, 0, before=4)
    refused = counting(reading(kafka, topic), tmp_path)
    with pytest.raises(
        LostInputError, match="offset 2 of deleted-0 is required, but the first available one is 4: 2 records"
    ):
        refused.get_job_execution_result().result(SECONDS)

    job = counting(reading(kafka, topic).set_property("auto.offset.reset", "earliest"), tmp_path)
    eventually(lambda: seen(tmp_path).total() == 3)
    assert seen(tmp_path)["5:1"] == 1
    cancel(job)

    kafka.produce(topic, ["6", "7", "8"])
    kafka.delete_records(topic, 0, before=6)
    job = counting(reading(kafka, topic).set_property("auto.offset.reset", "latest"), tmp_path)
    eventually(lambda: after_one_more(kafka, topic, "9", tmp_path)["9:1"] == 1)
    assert seen(tmp_path)["8:1"] == 0
    cancel(job)

    kafka.delete_topic(topic)
    eventually(lambda: recreated(kafka, topic))
    kafka.produce(topic, ["of another topic"] * 20)
    recreation = counting(reading(kafka, topic), tmp_path)
    with pytest.raises(LostInputError, match="topic 'deleted' was deleted and created again"):
        recreation.get_job_execution_result().result(SECONDS)


def after_one_more(kafka: KafkaBroker, topic: str, value: str, folder: Path) -> Counter[str]:
    """Write one more record; what was committed so far."""
    kafka.produce(topic, [value])
    return seen(folder)


def recreated(kafka: KafkaBroker, topic: str) -> bool:
    """A topic is deleted some time after the broker has said so."""
    try:
        kafka.create_topic(topic)
    except KafkaException:
        return False
    return True


def test_windows_wait_for_the_slowest_partition_until_it_is_idle(
    spark: SparkSession, kafka: KafkaBroker, tmp_path: Path
) -> None:
    topic = kafka.create_topic("windows", partitions=3)
    start = (time.time_ns() // 1_000_000_000 - 3600) * 1000 // 10_000 * 10_000
    in_order = WatermarkStrategy.for_monotonous_timestamps()

    def run(strategy: WatermarkStrategy) -> JobClient:
        env = environment(durable(tmp_path / "checkpoints"))
        words = env.from_source(reading(kafka, topic).build(), strategy, "topic").uid("topic")
        summed = words.map(lambda word: (word, 1), Types.TUPLE([Types.STRING(), Types.INT()])).uid("ones")
        windows = summed.key_by(lambda pair: pair[0]).window(TumblingEventTimeWindows.of(Time.seconds(10)))
        sink = (
            FileSink.for_row_format(str(tmp_path / "out"), Encoder.simple_string_encoder())
            .with_rolling_policy(RollingPolicy.on_epoch_rolling_policy())
            .build()
        )
        windows.sum(1).uid("sums").map(str, Types.STRING()).uid("texts").sink_to(sink).uid("sink")
        return env.execute_async("windows")

    def has_read(of_the_first: int) -> bool:
        manifests = tmp_path / "checkpoints" / "job" / "manifests"
        positions = committed_head(manifests.parent).spark if len(list(manifests.glob("*.tm"))) > 1 else None
        return positions is not None and f'"0":{of_the_first}' in positions["offsets"]

    kafka.produce(topic, [None], partition=2, timestamp=start)  # says that a key is deleted: it is skipped
    kafka.produce(topic, ["a"], partition=0, timestamp=start)
    kafka.produce(topic, ["a"], partition=1, timestamp=start + 60_000)
    job = run(in_order)
    eventually(lambda: has_read(1))
    kafka.produce(topic, ["a"], partition=0, timestamp=start + 1)
    eventually(lambda: has_read(2))
    cancel(job)
    assert not seen(tmp_path), "partition 0 may still bring records of the first window"
    kafka.produce(topic, ["b"], partition=2, timestamp=start + 60_000)
    job = run(in_order.with_idleness(Duration.of_seconds(1)))
    eventually(lambda: seen(tmp_path)["('a', 2)"] == 1, what="partition 0 is idle, and its window is complete")
    cancel(job)
