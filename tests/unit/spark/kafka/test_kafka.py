"""The positions of Kafka sources in Spark's log, with brokers that say what a test wants."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pytest

from tidemill.common.serialization import SimpleStringSchema
from tidemill.connectors.kafka.offsets import KafkaTopicPartition
from tidemill.connectors.kafka.positions import Facts
from tidemill.connectors.kafka.source import KafkaSource, KafkaSourceBuilder
from tidemill.errors import ConnectorError, JobExecutionError, LostInputError
from tidemill.spark.kafka import kafka_reader
from tidemill.spark.kafka.kafka_reader import KafkaReader, reader_options
from tidemill.spark.streams.query_positions import QueryPositions

ENTRY = 'v1\n{"batchWatermarkMs":0}\n{"logOffset":3}\n{"clicks":{"0":12}}'
ZERO = KafkaTopicPartition("clicks", 0)


class FakeBroker:
    """Has offsets 10 to 20 of one partition, or whatever ``earliest`` says."""

    earliest = 10
    reachable = True
    topic_id = "first"
    asked: list[list[str]] = []  # noqa: RUF012
    open = 0
    told: list[Mapping[KafkaTopicPartition, int]] = []  # noqa: RUF012 - reset by the fixture

    def __init__(self, session: Any, source: KafkaSource) -> None:
        type(self).open += 1

    def facts(self, partitions: Sequence[KafkaTopicPartition]) -> Facts:
        if not self.reachable:
            raise ConnectorError("nobody answers")
        return Facts(dict.fromkeys(partitions, self.earliest), dict.fromkeys(partitions, 20))

    def is_read(self, partition: KafkaTopicPartition) -> bool:
        return partition.topic == "clicks"

    def topic_ids(self, topics: Iterable[str]) -> dict[str, str]:
        self.asked.append(sorted(topics))
        return dict.fromkeys(topics, self.topic_id)

    def commit(self, positions: Mapping[KafkaTopicPartition, int], *, seconds: float = 0) -> None:
        self.told.append(positions)

    def close(self) -> None:
        type(self).open -= 1


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> type[FakeBroker]:
    class Fresh(FakeBroker):
        asked: list[list[str]] = []  # noqa: RUF012
        told: list[Mapping[KafkaTopicPartition, int]] = []  # noqa: RUF012

    monkeypatch.setattr(kafka_reader, "Broker", Fresh)
    return Fresh


def reading() -> KafkaSourceBuilder:
    builder = KafkaSource.builder().set_bootstrap_servers("broker:9092").set_topics("clicks")
    return builder.set_value_only_deserializer(SimpleStringSchema())


def positions(source: KafkaSource) -> QueryPositions:
    """Of a query whose second source this is."""
    session: Any = None
    trackers = {"topic": KafkaReader(source).tracker(session)}
    return QueryPositions(trackers, {"files": [[0, 0, "x"]], "topic": [[1, 1, "kafka"]]})


def test_a_position_that_can_be_read_stays_as_it_is_to_the_byte(broker: type[FakeBroker]) -> None:
    assert positions(reading().build()).revised(ENTRY, {}) == ENTRY
    assert positions(reading().build()).revised(ENTRY.replace('{"clicks":{"0":12}}', "-"), {}).endswith("\n-")


def test_a_position_that_is_gone_moves_as_the_source_says_or_is_refused(broker: type[FakeBroker]) -> None:
    broker.earliest = 15
    moved = positions(reading().set_property("auto.offset.reset", "earliest").build()).revised(ENTRY, {})
    assert moved == ENTRY.replace('"0":12', '"0":15')
    moved = positions(reading().set_property("auto.offset.reset", "latest").build()).revised(ENTRY, {})
    assert moved == ENTRY.replace('"0":12', '"0":20')
    with pytest.raises(LostInputError, match="offset 12 of clicks-0 is required, but the first available one is 15"):
        positions(reading().build()).revised(ENTRY, {})


def test_the_position_of_a_topic_that_is_not_read_any_more_is_dropped(
    broker: type[FakeBroker], caplog: pytest.LogCaptureFixture
) -> None:
    both = ENTRY.replace('{"clicks":{"0":12}}', '{"clicks":{"0":12},"orders":{"0":3}}')
    assert positions(reading().build()).revised(both, {}) == ENTRY
    assert "orders-0 is no longer read: its position 3 is discarded" in caplog.text


def test_a_topic_is_identified_by_its_id_which_is_requested_once(broker: type[FakeBroker]) -> None:
    first = positions(reading().build())
    stored = {"topics": first.topics(ENTRY)}
    assert stored == {"topics": {"topic": {"clicks": "first"}}}
    first.topics(ENTRY)
    assert broker.asked == [["clicks"]]
    assert positions(reading().build()).revised(ENTRY, stored) == ENTRY
    broker.topic_id = "second"
    with pytest.raises(LostInputError, match="topic 'clicks' was deleted and created again"):
        positions(reading().build()).revised(ENTRY, stored)


def fails(tracked: QueryPositions, entry: str = ENTRY) -> None:
    """A query that reads one epoch and then fails."""
    with tracked.named_loss():
        tracked.committed(entry, checkpoint=True)
        raise JobExecutionError("Spark could not run the epoch")


def test_a_query_that_fails_for_want_of_records_says_so_and_closes_its_connections(broker: type[FakeBroker]) -> None:
    broker.earliest = 15
    with pytest.raises(LostInputError, match="3 records were deleted"):
        fails(positions(reading().build()))
    broker.earliest = 10
    with pytest.raises(JobExecutionError, match="could not run"):
        fails(positions(reading().build()))
    broker.reachable = False
    with pytest.raises(JobExecutionError, match="could not run"):
        fails(positions(reading().build()))
    assert broker.open == 0


def test_a_source_whose_broker_is_gone_hides_no_loss_of_another(
    broker: type[FakeBroker], monkeypatch: pytest.MonkeyPatch
) -> None:
    session: Any = None
    gone, there = (KafkaReader(reading().build()).tracker(session) for _ in range(2))

    def unreachable() -> None:
        raise ConnectorError("nobody answers")

    monkeypatch.setattr(gone, "explain_failure", unreachable)
    both = QueryPositions({"gone": gone, "there": there}, {"gone": [[0, 0, "kafka"]], "there": [[1, 1, "kafka"]]})
    broker.earliest = 15
    with pytest.raises(LostInputError, match="3 records were deleted"):
        fails(both, ENTRY.replace('{"logOffset":3}', '{"clicks":{"0":12}}'))
    assert broker.open == 0


def test_what_cannot_be_closed_hides_no_error(
    broker: type[FakeBroker], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def dead(_: FakeBroker) -> None:
        raise ConnectionRefusedError("the JVM is gone")

    monkeypatch.setattr(broker, "close", dead)
    with pytest.raises(JobExecutionError, match="could not run"):
        fails(positions(reading().set_group_id("shop").build()))
    assert "the JVM is gone" in caplog.text


def test_the_group_gets_offsets_of_checkpoints_only_and_only_where_there_is_one(broker: type[FakeBroker]) -> None:
    grouped = positions(reading().set_group_id("shop").build())
    grouped.committed(ENTRY, checkpoint=False)
    positions(reading().build()).committed(ENTRY, checkpoint=True)
    assert broker.told == []
    with grouped.named_loss():
        for offset in (12, 13, 14):
            grouped.committed(ENTRY.replace('"0":12', f'"0":{offset}'), checkpoint=True)
        assert broker.told == [{ZERO: 12}], "not all the time"
    assert broker.told == [{ZERO: 12}, {ZERO: 14}], "but of the last one"


def test_spark_reads_what_the_source_says() -> None:
    options = reader_options(reading().set_group_id("shop").set_client_id_prefix("me").build())
    assert options == {
        "kafka.bootstrap.servers": "broker:9092",
        "kafka.default.api.timeout.ms": "30000",
        "kafka.group.id": "shop",
        "kafka.client.id": "me",
        "subscribe": "clicks",
        "failOnDataLoss": "true",
    }
    builder = KafkaSource.builder().set_bootstrap_servers("broker:9092").set_property("auto.offset.reset", "earliest")
    builder.set_value_only_deserializer(SimpleStringSchema()).set_partitions({ZERO, KafkaTopicPartition("b", 1)})
    options = reader_options(builder.build())
    assert options["assign"] == '{"b": [1], "clicks": [0]}'
    assert options["failOnDataLoss"] == "false"
    pattern = KafkaSource.builder().set_bootstrap_servers("broker:9092").set_topic_pattern("a|b")
    options = reader_options(pattern.set_value_only_deserializer(SimpleStringSchema()).build())
    assert options["subscribePattern"] == "^(?:a|b)$", "the whole name, not a part of it"
