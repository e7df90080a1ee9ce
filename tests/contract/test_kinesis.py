"""The Kinesis consumer and sinks under the contracts of sources and of sinks without a committer."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.kinesis_server import KinesisServer, kinesis_server
from tests.patient_source import PatientSource
from tests.thorough import THOROUGH
from tidemill.common.serialization import SimpleStringSchema
from tidemill.datastream.connectors.kinesis import FlinkKinesisConsumer, KinesisStreamsSink, PartitionKeyGenerator
from tidemill.testing.sink_contract import WRITER_CASES, SinkCase, check_sink
from tidemill.testing.source_contract import SOURCE_CASES, SourceCase, check_source

RECORDS = [f"r{number}" for number in range(11)]


@pytest.fixture(scope="module")
def server() -> Iterator[KinesisServer]:
    with kinesis_server() as running:
        yield running


@pytest.fixture(scope="module")
def stream(server: KinesisServer) -> str:
    name = server.create(3)
    server.put(name, RECORDS)
    return name


def consumer(server: KinesisServer, stream: str) -> FlinkKinesisConsumer:
    reading = {"flink.stream.initpos": "TRIM_HORIZON", "flink.shard.getrecords.intervalmillis": "10"}
    return FlinkKinesisConsumer(stream, SimpleStringSchema(), server.properties | reading)


@pytest.mark.parametrize("case", SOURCE_CASES if THOROUGH else SOURCE_CASES[::2], ids=str)
def test_a_stream(case: SourceCase, server: KinesisServer, stream: str) -> None:
    check_source(case, lambda: PatientSource(consumer(server, stream), len(RECORDS)), RECORDS)


@pytest.mark.parametrize("case", WRITER_CASES if THOROUGH else WRITER_CASES[::3], ids=str)
def test_a_sink(case: SinkCase, server: KinesisServer) -> None:
    stream = server.create(2)
    builder = KinesisStreamsSink.builder().set_stream_name(stream).set_serialization_schema(SimpleStringSchema())
    builder.set_partition_key_generator(PartitionKeyGenerator.random())
    builder.set_kinesis_client_properties(server.properties)
    check_sink(case, builder.build, lambda: server.values(stream))
