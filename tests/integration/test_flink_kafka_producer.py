"""FlinkKafkaProducer against a real broker: the guarantees of its semantics, and the timestamps it writes."""

from __future__ import annotations

import itertools
import time

import pytest

from tests.kafka_broker import KafkaBroker
from tidemill.common import Types, WatermarkStrategy
from tidemill.common.serialization import SimpleStringSchema
from tidemill.datastream import StreamExecutionEnvironment
from tidemill.datastream.connectors import FlinkKafkaProducer, Semantic
from tidemill.datastream.data_stream import DataStream
from tidemill.testing import JobHarness
from tidemill.testing.sink_contract import SINK_CASES, WRITER_CASES, SinkCase, check_sink

_numbers = itertools.count(1)
#: tests/integration/test_kafka_sink.py has the other ways, for the sink behind it.
_TOLD = {"killed at manifest.after", "killed in a commit after 1 subtasks", "rescaled between commit and commit"}
EXACTLY_CASES = [case for case in SINK_CASES if case.name in _TOLD]
AT_LEAST_CASES = [case for case in WRITER_CASES if case.name == "killed at sink.precommit.after"]


@pytest.fixture
def topic(kafka: KafkaBroker) -> str:
    return kafka.create_topic(f"producer-{next(_numbers)}", partitions=2)


def producer(kafka: KafkaBroker, topic: str, semantic: Semantic) -> FlinkKafkaProducer:
    properties = {"bootstrap.servers": kafka.address, "group.id": "unused", "max.block.ms": "120000"}
    return FlinkKafkaProducer(topic, SimpleStringSchema(), properties, semantic=semantic)


@pytest.mark.parametrize("case", EXACTLY_CASES, ids=str)
def test_exactly_once(case: SinkCase, kafka: KafkaBroker, topic: str) -> None:
    def visible() -> list[str]:
        kafka.await_transactions(topic)
        return kafka.values(topic)

    check_sink(case, lambda: producer(kafka, topic, Semantic.EXACTLY_ONCE), visible)


@pytest.mark.parametrize("case", AT_LEAST_CASES, ids=str)
def test_at_least_once(case: SinkCase, kafka: KafkaBroker, topic: str) -> None:
    check_sink(case, lambda: producer(kafka, topic, Semantic.AT_LEAST_ONCE), lambda: kafka.values(topic))


@pytest.mark.parametrize("writes", [False, True])
def test_a_record_has_the_time_of_writing_or_its_event_time(writes: bool, kafka: KafkaBroker, topic: str) -> None:
    started = int(time.time() * 1000)

    def build(env: StreamExecutionEnvironment, words: DataStream) -> None:
        timed = words.assign_timestamps_and_watermarks(
            WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda word, _: int(word))
        )
        sink = producer(kafka, topic, Semantic.AT_LEAST_ONCE).set_write_timestamp_to_kafka(writes)
        timed.map(str, Types.STRING()).add_sink(sink).uid("sink")

    with JobHarness(build, inputs=["words"]) as job:
        job.epoch(words=["17"])
    (record,) = kafka.consume(topic)
    assert record.timestamp == 17 if writes else record.timestamp >= started
