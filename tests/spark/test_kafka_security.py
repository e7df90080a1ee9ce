"""Brokers that do not let everybody in: sources, which Java's client reads, and a job from topic to topic."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Iterable
from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.certificates import Authority
from tests.kafka_broker import PASSWORD, KafkaBroker
from tests.kafka_ways_in import WAYS, WRONG, WayIn, trusting, way_into
from tests.spark.jobs import durable, environment
from tests.spark.kafka_jobs import Count, read, reading_at
from tests.waiting import eventually
from tidemill.common import JobClient, Types, WatermarkStrategy
from tidemill.common.serialization import SimpleStringSchema
from tidemill.datastream.connectors.base import DeliveryGuarantee
from tidemill.datastream.connectors.kafka import KafkaRecordSerializationSchema, KafkaSink, KafkaSource
from tidemill.errors import ConnectorError
from tidemill.spark.kafka.kafka_reader import KafkaReader

SECONDS = 60
#: So large that workers deliver an epoch's results, not the driver.
WIDE = 2_000


def source(way: WayIn, topic: str) -> KafkaSource:
    made = reading_at(way.address, topic).set_properties(way.properties)
    return made.set_property("default.api.timeout.ms", "120000").build()


@pytest.mark.parametrize("name", WAYS)
def test_a_source_gets_in_by_every_way_without_a_word_in_the_log(
    name: str, spark: SparkSession, kafka: KafkaBroker, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "py4j")  # which logs all that is sent to the JVM
    topic = f"behind-{name.replace(' ', '-')}"
    kafka.produce(kafka.create_topic(topic), ["a", "b"])
    way = way_into(kafka, name, tmp_path)
    KafkaReader(source(way, topic)).check(spark)
    KafkaReader(source(way, topic)).frame(spark, 10, resuming=True)
    assert "Command to send" in caplog.text
    assert not [secret for secret in (PASSWORD, "PRIVATE KEY") if secret in caplog.text]
    if name == "SSL files":
        assert read(reading_at(way.address, topic).set_properties(way.properties)) == ["a", "b"]


def test_no_plan_that_spark_prints_shows_a_key_or_a_login(spark: SparkSession) -> None:
    secrets = {"ssl.keystore.key": "sesame", "sasl.jaas.config": "a.b.Login required option=sesame;"}
    frame = KafkaReader(source(WayIn("127.0.0.1:1", secrets), "any")).frame(spark, 10, resuming=True)
    plan = frame._jdf.queryExecution().logical().toString()
    assert "kafka.ssl.keystore.key=*" in plan
    assert "sesame" not in plan


@pytest.mark.parametrize("name", [name for name in WAYS if "SASL" in name])
def test_a_wrong_password_is_reported_with_address_and_mechanism_and_never_printed(
    name: str, spark: SparkSession, kafka: KafkaBroker, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    way = way_into(kafka, name, tmp_path, WRONG)
    told = f"Kafka at {way.address}, {name.replace(' ', ' with ')}, cannot be queried for topics any: .*Authentication"
    started = time.monotonic()
    with pytest.raises(ConnectorError, match=told) as caught:
        KafkaReader(source(way, "any")).check(spark)
    assert time.monotonic() - started < 60, "long before the client gives up on a broker that does not answer"
    assert WRONG not in f"{caught.value!r} {source(way, 'any')!r} {caplog.text}"


def test_for_untrusted_certificates_the_error_names_the_side(
    spark: SparkSession, kafka: KafkaBroker, tmp_path: Path
) -> None:
    way = way_into(kafka, "SSL texts", tmp_path)
    stranger = WayIn(way.address, {**way.properties, **trusting(Authority("somebody else"))})
    with pytest.raises(ConnectorError, match=rf"Kafka at {way.address}, SSL,.*the broker's certificate is not trusted"):
        KafkaReader(source(stranger, "any")).check(spark)
    nobody = WayIn(way.address, {"security.protocol": "SSL", **trusting(kafka.authority)})
    with pytest.raises(ConnectorError, match=r"bad_certificate.*the broker rejected the client's certificate"):
        KafkaReader(source(nobody, "any")).check(spark)
    quiet = reading_at(kafka.login_address, "any").set_property("default.api.timeout.ms", "1500").build()
    with pytest.raises(ConnectorError, match=r"TimeoutException.*requires TLS or a login, set security\.protocol"):
        KafkaReader(quiet).check(spark)


# ------------------------------------------------------------------------------------------------ from topic to topic


def counting(way: WayIn, words: str, counts: str, folder: Path) -> JobClient:
    """Start a job that reads and writes by the same way."""
    env = environment(durable(folder, "secured"))
    made = reading_at(way.address, words).set_properties(way.properties).set_max_records_per_epoch(100).build()
    serializer = KafkaRecordSerializationSchema.builder().set_topic(counts)
    sink = (
        KafkaSink.builder()
        .set_bootstrap_servers(way.address)
        .set_properties(way.properties)
        .set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE)
        .set_transactional_id_prefix(counts)
        .set_record_serializer(serializer.set_value_serialization_schema(SimpleStringSchema()).build())
    )
    stream = env.from_source(made, WatermarkStrategy.no_watermarks(), "words").uid("words")
    counted = stream.key_by(lambda word: word).process(Count(), Types.STRING()).uid("count")
    counted.map(lambda count: count.ljust(WIDE), Types.STRING()).sink_to(sink.build()).uid("counts")
    return env.execute_async("secured")


def test_each_record_counts_once_through_brokers_that_want_tls_and_a_password(
    spark: SparkSession, kafka: KafkaBroker, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    words, counts = kafka.create_topic("secured-words", 2), kafka.create_topic("secured-counts", 2)
    way = way_into(kafka, "SASL_SSL SCRAM-SHA-512", tmp_path)
    checkpoints = tmp_path / "checkpoints"
    for wanted in (150, 300):
        job = counting(way, words, counts, checkpoints)
        kafka.produce(words, list("abcde") * 30)
        eventually(partial(has, kafka, counts, wanted), what=f"{wanted} results")
        job.cancel().result(SECONDS)
    every = Counter(value.rstrip() for value in kafka.values(counts))
    assert every == Counter(f"{letter}:{count}" for letter in "abcde" for count in range(1, 61))

    assert PASSWORD not in caplog.text
    written = list(files(checkpoints))
    assert written
    assert not [file for file in written if PASSWORD.encode() in file.read_bytes()]


def has(kafka: KafkaBroker, topic: str, records: int) -> bool:
    return len(kafka.values(topic)) >= records


def files(folder: Path) -> Iterable[Path]:
    return (path for path in folder.rglob("*") if path.is_file())
