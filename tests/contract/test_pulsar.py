"""The Pulsar source and sink under the contracts of sources and of sinks without a committer, on a model of Pulsar."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.patient_source import PatientSource
from tests.pulsar_model import Broker
from tidemill.common.serialization import SimpleStringSchema
from tidemill.connectors.pulsar import client, partitions
from tidemill.connectors.sources import SplitEnumerator
from tidemill.datastream.connectors.pulsar import PulsarSink, PulsarSource, StopCursor
from tidemill.testing.sink_contract import WRITER_CASES, SinkCase, check_sink
from tidemill.testing.source_contract import SOURCE_CASES, SourceCase, check_source

RECORDS = [f"m{number}" for number in range(11)]
#: A subscription has one consumer at a time, so a second enumerator cannot be open.
CASES = [case for case in SOURCE_CASES if case.name != "the same position gives the same records"]


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Iterator[Broker]:
    running = Broker()
    for module in (client, partitions):
        monkeypatch.setattr(module, "pulsar_library", running.module)
    monkeypatch.setattr("tidemill.connectors.pulsar.sink.pulsar_library", running.module)
    yield running
    assert not running.busy, "all consumers are closed"


@pytest.mark.parametrize("bounded", [True, False])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_partitioned_topic(case: SourceCase, broker: Broker, *, bounded: bool) -> None:
    for number, name in enumerate(broker.create("t", 3)):
        broker.publish(name, *RECORDS[number::3])
    builder = PulsarSource.builder().set_service_url("pulsar://model").set_topics("t").set_subscription_name("s")
    builder.set_deserialization_schema(SimpleStringSchema())
    if bounded:
        builder.set_bounded_stop_cursor(StopCursor.latest())

    def from_the_beginning() -> None:
        broker.cursors.clear()

    alive: list[SplitEnumerator] = []
    check_source(case, lambda: PatientSource(builder.build(), len(RECORDS), from_the_beginning, alive), RECORDS)


@pytest.mark.parametrize("case", WRITER_CASES, ids=str)
def test_a_sink(case: SinkCase, broker: Broker) -> None:
    broker.create("t")
    builder = PulsarSink.builder().set_service_url("pulsar://model").set_topics("t")
    builder.set_serialization_schema(SimpleStringSchema())
    check_sink(case, builder.build, lambda: [message.data().decode() for message in broker.messages["t"]])
