"""KafkaSink and brokers that do not let everybody in."""

from __future__ import annotations

import itertools
import time
from pathlib import Path

import pytest

from tests.certificates import Authority
from tests.integration.test_kafka_sink import builder, job_with, visible
from tests.kafka_broker import KafkaBroker
from tests.kafka_ways_in import WAYS, WRONG, WayIn, trusting, way_into
from tidemill.datastream.connectors.base import DeliveryGuarantee
from tidemill.datastream.connectors.kafka import KafkaSink
from tidemill.errors import TidemillError
from tidemill.faults import Fault

EXACTLY, AT_LEAST = DeliveryGuarantee.EXACTLY_ONCE, DeliveryGuarantee.AT_LEAST_ONCE
_numbers = itertools.count(1)


@pytest.fixture
def topic(kafka: KafkaBroker) -> str:
    return kafka.create_topic(f"secured-{next(_numbers)}", partitions=2)


def sink(kafka: KafkaBroker, topic: str, way: WayIn, guarantee: DeliveryGuarantee = EXACTLY) -> KafkaSink:
    made = builder(kafka, topic, guarantee).set_bootstrap_servers(way.address).set_properties(way.properties)
    return made.set_property("max.block.ms", "120000").build()


@pytest.mark.parametrize("name", WAYS)
def test_each_result_is_delivered_once_by_every_way_in(
    name: str, kafka: KafkaBroker, topic: str, tmp_path: Path
) -> None:
    way = way_into(kafka, name, tmp_path)
    with job_with(lambda: sink(kafka, topic, way)) as job:
        job.epoch(words=["a1", "b1"])
        job.crash(Fault("sink.commit.after"), words=["a2", "b2"])
    assert sorted(visible(kafka, topic)) == ["a1", "a2", "b1", "b2"]


@pytest.mark.parametrize(
    ("name", "guarantee"),
    [
        ("SASL_PLAINTEXT PLAIN", EXACTLY),
        ("SASL_PLAINTEXT SCRAM-SHA-512", AT_LEAST),
        ("SASL_SSL SCRAM-SHA-512", EXACTLY),
    ],
    ids=str,
)
def test_a_wrong_password_is_reported_with_address_and_mechanism_and_never_printed(
    name: str,
    guarantee: DeliveryGuarantee,
    kafka: KafkaBroker,
    topic: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    way = way_into(kafka, name, tmp_path, WRONG)
    told = rf"the broker denied access \(Kafka at {way.address}, {name.replace(' ', ' with ')}\)"
    started = time.monotonic()
    with pytest.raises(TidemillError, match=told) as caught:
        job_with(lambda: sink(kafka, topic, way, guarantee)).epoch(words=["b"])
    assert time.monotonic() - started < 60, "long before the client gives up on a broker that does not answer"
    assert WRONG not in str(caught.value) + caplog.text


def test_for_untrusted_certificates_the_error_names_the_side(kafka: KafkaBroker, topic: str, tmp_path: Path) -> None:
    way = way_into(kafka, "SSL texts", tmp_path)
    stranger = WayIn(way.address, {**way.properties, **trusting(Authority("somebody else"))})
    with pytest.raises(TidemillError, match=rf"the broker's certificate is not trusted.*Kafka at {way.address}, SSL\)"):
        job_with(lambda: sink(kafka, topic, stranger))
    nobody = WayIn(way.address, {"security.protocol": "SSL", **trusting(kafka.authority)})
    with pytest.raises(TidemillError, match=rf"rejected the client's certificate.*Kafka at {way.address}, SSL"):
        job_with(lambda: sink(kafka, topic, nobody))


def test_one_broker_of_several_that_does_not_let_us_in_is_not_the_end(
    kafka: KafkaBroker, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidemill.connectors.kafka.client._OTHERS_SECONDS", 60.0)  # for a slow machine
    way = way_into(kafka, "SASL_SSL SCRAM-SHA-512", tmp_path)
    several = WayIn(f"{kafka.tls_address},{way.address}", way.properties)  # the first wants a certificate
    with job_with(lambda: sink(kafka, topic, several)) as job:
        job.epoch(words=["a"])
    assert visible(kafka, topic) == ["a"]


def test_a_timeout_without_security_settings_suggests_what_may_be_missing(kafka: KafkaBroker, topic: str) -> None:
    quiet = builder(kafka, topic).set_bootstrap_servers(kafka.login_address).set_property("max.block.ms", "6000")
    with pytest.raises(TidemillError, match=r"no broker responded within 6 s; if the broker requires TLS or a login"):
        job_with(quiet.build)
