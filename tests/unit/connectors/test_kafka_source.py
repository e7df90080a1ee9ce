"""The builder of Kafka sources, and how rows of topics become records."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import cloudpickle
import pyarrow as pa
import pytest

from tidemill.common import Configuration, Row, Types, WatermarkStrategy
from tidemill.common.serialization import ByteArraySchema, DeserializationSchema, SimpleStringSchema
from tidemill.connectors.kafka.properties import hide_secrets, is_secret
from tidemill.connectors.kafka.records import KafkaDecoder
from tidemill.connectors.sources import ClockOf
from tidemill.datastream import StreamExecutionEnvironment
from tidemill.datastream.connectors.kafka import (
    KafkaOffsetResetStrategy,
    KafkaOffsetsInitializer,
    KafkaRecord,
    KafkaRecordDeserializationSchema,
    KafkaSource,
    KafkaSourceBuilder,
    KafkaTopicPartition,
)
from tidemill.datastream.formats.json import JsonRowDeserializationSchema
from tidemill.errors import SerializationError

EARLIEST, LATEST = KafkaOffsetsInitializer.earliest(), KafkaOffsetsInitializer.latest()
COMMITTED = KafkaOffsetsInitializer.committed_offsets()
CLICKS = KafkaTopicPartition("clicks", 0)


def builder() -> KafkaSourceBuilder:
    made = KafkaSource.builder().set_bootstrap_servers("broker:9092").set_topics("clicks")
    return made.set_value_only_deserializer(SimpleStringSchema())


# -------------------------------------------------------------------------------------------------------------- builder


def test_a_source_reads_all_of_its_topics_as_they_come_by_default() -> None:
    source = builder().build()
    assert (source.bounded, source.ends, source.replayable) == (False, False, True)
    assert source.starting == EARLIEST
    assert source.clock_of is ClockOf.PARTITION
    assert source.type_info == Types.STRING()
    assert source.reset is KafkaOffsetResetStrategy.NONE
    assert source.client_properties() == {"bootstrap.servers": "broker:9092", "default.api.timeout.ms": "30000"}


def test_a_source_can_end_and_be_bounded_or_not() -> None:
    bounded, stopping = builder().set_bounded(LATEST).build(), builder().set_unbounded(LATEST).build()
    assert (bounded.bounded, bounded.ends) == (True, True)
    assert (stopping.bounded, stopping.ends) == (False, True)


def test_properties_are_kafkas_or_the_sources_own() -> None:
    made = builder().set_group_id("shop").set_client_id_prefix("shop-").set_max_records_per_epoch(7)
    made.set_properties({"fetch.min.bytes": "1", "default.api.timeout.ms": "5", "auto.offset.reset": "latest"})
    source = made.set_property("commit.offsets.on.checkpoint", "false").set_property("key.deserializer", "x").build()
    assert source.client_properties() == {
        "bootstrap.servers": "broker:9092",
        "default.api.timeout.ms": "5",
        "fetch.min.bytes": "1",
        "group.id": "shop",
        "request.timeout.ms": "5",  # not longer than the whole, or the client refuses both
    }
    assert source.group_id == "shop"
    assert not source.commits_offsets
    assert builder().set_group_id("shop").build().commits_offsets
    assert not builder().build().commits_offsets, "there is no group"
    assert source.reset is KafkaOffsetResetStrategy.LATEST
    assert source.max_records_per_epoch == 7


@pytest.mark.parametrize(
    ("build", "told"),
    [
        (lambda: KafkaSource.builder().build(), "needs servers"),
        (lambda: KafkaSource.builder().set_bootstrap_servers("b:1").build(), r"set_topics\(\)"),
        (lambda: KafkaSource.builder().set_bootstrap_servers("b:1").set_topics("t").build(), r"set_deserializer\(\)"),
        (lambda: builder().set_topic_pattern("a.*"), "it already reads topics clicks"),
        (lambda: KafkaSource.builder().set_topics(), "at least one topic"),
        (lambda: KafkaSource.builder().set_partitions([]), "at least one partition"),
        (lambda: builder().set_bounded(EARLIEST), "reads nothing"),
        (
            lambda: builder().set_starting_offsets(COMMITTED).build(),
            r"set_group_id\(\)",
        ),
        (lambda: builder().set_property("auto.offset.reset", "newest").build(), "none, earliest or latest"),
        (lambda: builder().set_property("default.api.timeout.ms", "5 s").build(), "number of milliseconds, not '5 s'"),
        (lambda: builder().set_max_records_per_epoch(0), "max_records must be at least 1, not 0"),
        (lambda: KafkaOffsetsInitializer.timestamp(-1), "must not be negative: -1"),
        (lambda: KafkaOffsetsInitializer.offsets({CLICKS: -1}), "clicks-0 must not be negative"),
    ],
)
def test_what_is_missing_or_does_not_fit_is_reported(build: Callable[[], Any], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        build()


@pytest.mark.parametrize(
    "build",
    [
        lambda: builder().set_starting_offsets("earliest"),  # type: ignore[arg-type]
        lambda: builder().set_value_only_deserializer(str),  # type: ignore[arg-type]
        lambda: builder().set_deserializer(SimpleStringSchema()),  # type: ignore[arg-type]
        lambda: builder().set_property("fetch.min.bytes", 1),  # type: ignore[arg-type]
        lambda: builder().set_topics(7),  # type: ignore[arg-type]
    ],
)
def test_things_of_another_kind_are_refused(build: Callable[[], Any]) -> None:
    with pytest.raises(TypeError):
        build()


def test_a_source_needs_no_watermark_strategy() -> None:
    env = StreamExecutionEnvironment.get_execution_environment(Configuration())
    stream = env.from_source(builder().build(), None, "clicks")
    assert stream.get_type() == Types.STRING()


# -------------------------------------------------------------------------------------------------------------- secrets


def test_secrets_are_neither_shown_nor_sent_to_workers() -> None:
    login = 'ScramLoginModule required username="tide" password="open sesame";'
    properties = {"sasl.jaas.config": login, "ssl.key.password": "k3y", "sasl.mechanism": "PLAIN"}
    source = builder().set_properties(properties).build()
    assert "sesame" not in repr(source)
    assert "'sasl.mechanism': 'PLAIN'" in repr(source)
    sent = cloudpickle.dumps(source)
    assert b"sesame" not in sent
    assert b"broker:9092" not in sent
    received = pickle.loads(sent)
    assert (received.partition_by, received.type_info) == (source.partition_by, source.type_info)

    env = StreamExecutionEnvironment.get_execution_environment(Configuration())
    env.from_source(source, WatermarkStrategy.no_watermarks(), "clicks").print()
    assert "sesame" not in env.get_execution_plan()


def test_a_text_of_a_client_is_cleared_of_secrets() -> None:
    properties = {"sasl.jaas.config": 'x required username="tide" password="open sesame";', "group.id": "shop"}
    told = f"Invalid value {properties['sasl.jaas.config']} of tide in shop, or open sesame"
    assert hide_secrets(told, properties) == "Invalid value ****** of tide in shop, or ******"
    names = ["sasl.password", "ssl.keystore.key", "ssl.truststore.password", "sasl.oauthbearer.token.endpoint.url"]
    assert all(map(is_secret, names))
    assert not any(map(is_secret, ["group.id", "security.protocol", "key.deserializer", "sasl.mechanism"]))


# -------------------------------------------------------------------------------------------------------------- records


def rows(*values: bytes | None, key: bytes | None = None, headers: Any = None) -> pa.RecordBatch:
    """Rows as Spark reads them, from offset 10 on."""
    count = len(values)
    header = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    return pa.record_batch(
        {
            "key": pa.array([key] * count, pa.binary()),
            "value": pa.array(values, pa.binary()),
            "topic": pa.array(["clicks"] * count),
            "partition": pa.array([3] * count, pa.int32()),
            "offset": pa.array(range(10, 10 + count), pa.int64()),
            "timestamp": pa.array(range(1000, 1000 + count), pa.int64()),
            "headers": pa.array([headers] * count, header),
        }
    )


def decoder(schema: DeserializationSchema[Any]) -> KafkaDecoder:
    return KafkaDecoder(KafkaRecordDeserializationSchema.value_only(schema))


class Upper(DeserializationSchema[str]):
    """Text in capitals; of nothing it makes nothing."""

    def deserialize(self, message: bytes) -> str | None:
        return message.decode().upper() or None


def test_values_come_with_the_time_that_kafka_has_for_them() -> None:
    for schema, expected in (
        (SimpleStringSchema(), ["a", "b"]),
        (SimpleStringSchema("latin-1"), ["a", "b"]),
        (ByteArraySchema(), [b"a", b"b"]),
        (Upper(), ["A", "B"]),
    ):
        found = decoder(schema).decode(rows(b"a", b"b"))
        assert (found.values, found.timestamps) == (expected, [1000, 1001])
        without = decoder(schema).decode(rows(b"a", None, b"b"))
        assert (without.values, without.timestamps) == (expected, [1000, 1002]), (
            "nothing is deleted here: it is skipped"
        )
    assert decoder(Upper()).decode(rows(b"a", b"", b"b")).timestamps == [1000, 1002]


def test_only_what_a_schema_can_see_is_read() -> None:
    assert "headers" not in decoder(SimpleStringSchema()).columns
    assert "key" not in decoder(SimpleStringSchema()).columns
    assert {"key", "headers"} <= set(KafkaDecoder(Whole()).columns)


class Whole(KafkaRecordDeserializationSchema[KafkaRecord]):
    """Records as they are, without those whose value is ``skip``."""

    def deserialize(self, record: KafkaRecord) -> KafkaRecord | None:
        return None if record.value == b"skip" else record


def test_a_schema_of_records_gets_everything() -> None:
    headers = [{"key": "h", "value": b"1"}, {"key": "n", "value": None}]
    found = KafkaDecoder(Whole()).decode(rows(b"a", b"skip", None, key=b"k", headers=headers))
    seen = (("h", b"1"), ("n", None))
    assert found.values == [
        KafkaRecord(b"k", b"a", "clicks", 3, 10, 1000, seen),
        KafkaRecord(b"k", None, "clicks", 3, 12, 1002, seen),
    ]
    assert found.values[0].header("h") == b"1"
    assert found.values[0].header("missing") is None
    assert KafkaDecoder(Whole()).decode(rows(b"a")).values[0].headers == ()


@pytest.mark.parametrize(
    ("schema", "value", "told"),
    [
        (SimpleStringSchema(), b"\xff", "not text in UTF-8"),
        (JsonRowDeserializationSchema(Types.ROW_NAMED(["a"], [Types.INT()])), b'{"a": "x"}', "'x' is not an integer"),
    ],
)
def test_a_record_that_cannot_be_read_is_shown_with_its_place(
    schema: DeserializationSchema[Any], value: bytes, told: str
) -> None:
    fine = b'{"a": 1}'
    with pytest.raises(SerializationError, match=rf"offset 12 of topic 'clicks', partition 3, .*{told}") as caught:
        decoder(schema).decode(rows(fine, fine, value, fine))
    assert f"its value: {value!r}" in str(caught.value)


class Ending(DeserializationSchema[str]):
    """Fails as an iterator ends, or a program."""

    def __init__(self, error: type[BaseException]) -> None:
        self.error = error

    def deserialize(self, message: bytes) -> str:
        if message == b"bad":
            raise self.error
        return message.decode()


@pytest.mark.parametrize("error", [StopIteration, SystemExit, GeneratorExit])
def test_whatever_a_schema_raises_names_the_place(error: type[BaseException]) -> None:
    with pytest.raises(SerializationError, match=f"offset 11 of topic 'clicks', .*{error.__name__}"):
        decoder(Ending(error)).decode(rows(b"a", b"bad", b"b"))
    with pytest.raises(SerializationError, match=f"offset 12 of topic 'clicks', .*{error.__name__}"):
        decoder(Ending(error)).decode(rows(b"a", None, b"bad"))


def test_rows_of_json_come_out_as_rows() -> None:
    schema = JsonRowDeserializationSchema(Types.ROW_NAMED(["a"], [Types.INT()]))
    assert decoder(schema).decode(rows(b'{"a": 1}')).values == [Row(a=1)]
