"""KafkaSink without a broker: what is built, what is refused, and how records become records of a topic."""

from __future__ import annotations

import pickle
from typing import Any

import cloudpickle
import pytest
from confluent_kafka import KafkaError, KafkaException

from tidemill.common.serialization import ByteArraySchema, SerializationSchema, SimpleStringSchema
from tidemill.connectors.kafka.client import KafkaClients
from tidemill.connectors.kafka.producer_records import ProducerColumns
from tidemill.connectors.kafka.transactions import _reason
from tidemill.datastream.connectors.base import DeliveryGuarantee
from tidemill.datastream.connectors.kafka import (
    KafkaProducerRecord,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSinkBuilder,
    KafkaTopicSelector,
)
from tidemill.errors import ConfigurationError, SerializationError

TEXT = SimpleStringSchema()


def to_words() -> KafkaRecordSerializationSchema[Any]:
    return KafkaRecordSerializationSchema.builder().set_topic("words").set_value_serialization_schema(TEXT).build()


def builder() -> KafkaSinkBuilder:
    return KafkaSink.builder().set_bootstrap_servers("127.0.0.1:1").set_record_serializer(to_words())


# ------------------------------------------------------------------------------------------------------------- building


def test_the_guarantee_is_none_unless_one_is_set_as_in_flink() -> None:
    assert builder().build().guarantee == "none"
    assert builder().set_delivery_guarantee(DeliveryGuarantee.AT_LEAST_ONCE).build().guarantee == "at-least-once"
    exact = builder().set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE).set_transactional_id_prefix("job").build()
    assert isinstance(exact, KafkaSink)
    assert exact.guarantee == "exactly-once"
    assert exact.create_committer() is not None
    assert builder().build().create_committer() is None


def test_what_is_missing_is_named() -> None:
    with pytest.raises(ConfigurationError, match="set_bootstrap_servers"):
        KafkaSink.builder().set_record_serializer(to_words()).build()
    with pytest.raises(ValueError, match="set_record_serializer"):
        KafkaSink.builder().set_bootstrap_servers("127.0.0.1:1").build()
    with pytest.raises(ValueError, match="set_transactional_id_prefix"):
        builder().set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE).build()
    with pytest.raises(ValueError, match="1 to 6400 bytes"):
        builder().set_transactional_id_prefix("é" * 3201)
    with pytest.raises(ValueError, match="set_value_serialization_schema"):
        KafkaRecordSerializationSchema.builder().set_topic("words").build()
    with pytest.raises(ValueError, match="set_topic"):
        KafkaRecordSerializationSchema.builder().set_value_serialization_schema(TEXT).build()


def test_a_property_that_the_client_does_not_know_is_refused_where_the_sink_is_built() -> None:
    with pytest.raises(ConfigurationError, match="compresion"):
        builder().set_property("compresion.type", "lz4").build()
    with pytest.raises(ConfigurationError, match="acks"):
        builder().set_property("acks", "perhaps").build()
    with pytest.raises(ConfigurationError, match=r"max\.block\.ms must be a number"):
        builder().set_property("max.block.ms", "soon").build()


def test_names_of_the_java_client_are_understood() -> None:
    clients = KafkaClients(
        "127.0.0.1:1",
        {
            "buffer.memory": "33554432",
            "max.request.size": "2000000",
            "key.serializer": "a.b.StringSerializer",
            "max.block.ms": "2500",
        },
    )
    settings = clients._translated()
    assert settings["queue.buffering.max.kbytes"] == "32768"
    assert settings["message.max.bytes"] == "2000000"
    assert "key.serializer" not in settings
    assert clients.patience == 2.5


def test_secrets_are_in_no_text() -> None:
    sink = builder().set_property("sasl.password", "open sesame").build()
    assert "sesame" not in repr(sink)
    assert "'sasl.password': '******'" in repr(sink)
    secured = builder().set_property("security.protocol", "SSL").set_property("ssl.key.password", "open sesame")
    secured.set_property("ssl.key.pem", "open sesame")
    with pytest.raises(ConfigurationError) as caught:
        secured.build()
    assert "sesame" not in str(caught.value)
    with pytest.raises(ConfigurationError) as caught:
        builder().set_property("sasl.jaas.config", "a.b.Module required token='open sesame';").build()
    assert "sesame" not in str(caught.value)


def test_a_sink_travels_to_the_workers() -> None:
    sink = builder().set_property("linger.ms", "5").build()
    assert repr(pickle.loads(cloudpickle.dumps(sink))) == repr(sink)


# -------------------------------------------------------------------------------------------------------------- records


class ByLength(KafkaTopicSelector):
    def apply(self, data: Any) -> str:
        return f"of-{len(data)}"


class Upper(SerializationSchema[str]):
    def serialize(self, element: str) -> bytes:
        return element.upper().encode()


class Traced(KafkaRecordSerializationSchema[str]):
    """Every second record has headers, none of those with a dash is written."""

    def serialize(self, element: str, timestamp: int | None) -> KafkaProducerRecord | None:
        if "-" in element:
            return None
        headers = [("size", str(len(element)).encode()), ("none", None)] if len(element) % 2 else []
        return KafkaProducerRecord("words", element.encode(), timestamp=timestamp, headers=headers)


def test_a_batch_becomes_columns_with_topic_key_and_event_time() -> None:
    schema = (
        KafkaRecordSerializationSchema.builder()
        .set_topic_selector(ByLength())
        .set_key_serialization_schema(TEXT)
        .set_value_serialization_schema(Upper())
        .build()
    )
    assert list(schema.columns(["a", "bb"], [1000, -(2**63)]).records()) == [
        KafkaProducerRecord("of-1", b"A", b"a", None, 1000),
        KafkaProducerRecord("of-2", b"BB", b"bb"),
    ]


def test_a_partitioner_sees_what_there_is_and_must_choose_one_of_them() -> None:
    class Context:
        subtask, parallelism = 0, 1

        def partitions_of(self, topic: str) -> list[int]:
            return [0, 1, 2]

    def schema(choose: Any) -> KafkaRecordSerializationSchema[Any]:
        built = (
            KafkaRecordSerializationSchema.builder()
            .set_topic("words")
            .set_value_serialization_schema(TEXT)
            .set_partitioner(choose)
            .build()
        )
        built.open(Context())
        return built

    chosen = schema(lambda record, key, value, topic, partitions: partitions[len(value) % 3])
    assert chosen.columns(["a", "bb", "ccc"], None).partitions == [1, 2, 0]
    with pytest.raises(ValueError, match=r"chose 7; topic 'words' has \[0, 1, 2\]"):
        schema(lambda *_: 7).columns(["a"], None)


def test_an_own_schema_has_a_say_in_everything() -> None:
    columns = Traced().columns(["one", "left-out", "four"], [5, 6, 7])
    assert list(columns.records()) == [
        KafkaProducerRecord("words", b"one", timestamp=5, headers=[("size", b"3"), ("none", None)]),
        KafkaProducerRecord("words", b"four", timestamp=7),
    ]
    assert len(Traced().columns(["left-out"], None)) == 0


@pytest.mark.parametrize(
    "columns",
    [
        ProducerColumns("words", [b"a", None, b""]),
        ProducerColumns(["one", "two"], [b"a", b"b"], [b"k", None], [3, None], [5, -1], [[("h", b"v")], []]),
        ProducerColumns("words", []),
        ProducerColumns.of([]),
    ],
    ids=["values", "everything", "empty", "none"],
)
def test_columns_go_through_the_log_unchanged(columns: ProducerColumns) -> None:
    assert list(ProducerColumns.from_bytes(columns.to_bytes()).records()) == list(columns.records())


class Ending(KafkaRecordSerializationSchema[str]):
    """Fails as an iterator ends, or a program."""

    def __init__(self, error: type[BaseException]) -> None:
        self.error = error

    def serialize(self, element: str, timestamp: int | None) -> KafkaProducerRecord | None:
        if element == "bad":
            raise self.error
        return KafkaProducerRecord("words", element.encode())


@pytest.mark.parametrize("error", [StopIteration, SystemExit, GeneratorExit])
def test_whatever_a_schema_raises_names_the_record(error: type[BaseException]) -> None:
    for timestamps in (None, [1, 2, 3]):
        with pytest.raises(SerializationError, match=f"{error.__name__}.*\n.*the record: 'bad'"):
            Ending(error).columns(["a", "bad", "b"], timestamps)


def test_a_record_that_cannot_be_serialised_is_shown() -> None:
    with pytest.raises(
        SerializationError, match=r"AttributeError: 'int' object has no attribute 'encode'\n.*record: 7"
    ):
        to_words().columns(["fine", 7, "fine"], None)
    not_bytes = (
        KafkaRecordSerializationSchema.builder().set_topic("t").set_value_serialization_schema(ByteArraySchema())
    )
    with pytest.raises(SerializationError, match="the record: None"):
        not_bytes.build().columns([b"fine", None], None)


def test_a_full_queue_is_waited_for_and_no_record_is_lost_or_reordered() -> None:
    taken: list[tuple[Any, ...]] = []
    full = iter([False, True, True, False, False, True, False])
    waits: list[int] = []

    def produce(*record: Any) -> None:
        if next(full):
            raise BufferError
        taken.append(record)

    ProducerColumns("t", [b"1", b"2", b"3"]).produce(produce, lambda: waits.append(len(taken)))
    ProducerColumns("t", [b"4"], None, [2], [9], [[("h", b"v")]]).produce(produce, lambda: waits.append(len(taken)))
    assert [entry[1] for entry in taken] == [b"1", b"2", b"3", b"4"]
    assert waits == [1, 1, 3]
    assert taken[0] == ("t", b"1", None)
    assert taken[-1] == ("t", b"4", None, 2, None, None, 9, [("h", b"v")])


# --- producers that died


class Dead:
    """A producer that can do nothing more; it reports why when it is polled, once."""

    def __init__(self, *reasons: KafkaError) -> None:
        self.reasons = list(reasons)

    def poll(self, seconds: float) -> int:
        if self.reasons:
            raise KafkaException(self.reasons.pop())
        return 0


def test_what_a_producer_died_of_is_raised_by_its_next_poll() -> None:
    fatal, fenced = KafkaError(KafkaError._FATAL), KafkaError(KafkaError._FENCED)
    dead: Any = Dead(fenced)
    assert _reason(dead, fatal) is fenced
    assert _reason(dead, fatal) is fatal
    alive: Any = Dead(fenced)
    timed_out = KafkaError(KafkaError._TIMED_OUT)
    assert _reason(alive, timed_out) is timed_out
