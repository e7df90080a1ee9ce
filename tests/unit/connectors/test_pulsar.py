"""Cursors, subscriptions, acknowledgements and settings of the Pulsar connectors, on a model of Pulsar."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.pulsar_model import Broker, MessageId, Result
from tests.unit.connectors.sink_epochs import context
from tests.waiting import eventually
from tidemill.common.serialization import SimpleStringSchema
from tidemill.common.time import Duration
from tidemill.connectors.base import DeliveryGuarantee
from tidemill.connectors.pulsar import client, partitions
from tidemill.connectors.sinks import Sink, SinkWriter
from tidemill.connectors.sources import Split, SplitEnumerator
from tidemill.datastream.connectors.pulsar import (
    MessageDelayer,
    PulsarSink,
    PulsarSinkBuilder,
    PulsarSource,
    PulsarSourceBuilder,
    RangeGenerator,
    StartCursor,
    StopCursor,
    SubscriptionType,
    TopicRoutingMode,
)
from tidemill.errors import ConfigurationError, ConnectorError


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Iterator[Broker]:
    running = Broker()
    for module in (client, partitions):
        monkeypatch.setattr(module, "pulsar_library", running.module)
    monkeypatch.setattr("tidemill.connectors.pulsar.sink.pulsar_library", running.module)
    yield running
    assert not running.busy, "all consumers are closed"


def source(start: StartCursor | None = None, stop: StopCursor | None = None) -> PulsarSourceBuilder:
    builder = PulsarSource.builder().set_service_url("pulsar://model").set_topics("t").set_subscription_name("s")
    builder.set_deserialization_schema(SimpleStringSchema())
    if start is not None:
        builder.set_start_cursor(start)
    return builder if stop is None else builder.set_bounded_stop_cursor(stop)


@contextlib.contextmanager
def reading(of: PulsarSourceBuilder, position: Any = None) -> Iterator[SplitEnumerator]:
    enumerator = of.build().create_enumerator(json.loads(json.dumps(position)))
    try:
        yield enumerator
    finally:
        enumerator.close()


def take(of: PulsarSourceBuilder, enumerator: SplitEnumerator, most: int = 100) -> list[str]:
    """The messages of one epoch."""
    eventually(enumerator.available)
    found: list[str] = []
    for some in enumerator.next_splits(2, most):
        for split in [some] if isinstance(some, Split) else some:
            found += [value for batch in of.build().read(split) for value in batch.values]
    return found


def all_of(of: PulsarSourceBuilder, enumerator: SplitEnumerator, count: int) -> list[str]:
    found: list[str] = []
    while len(found) < count:
        found += take(of, enumerator)
    return found


def to_the_end(of: PulsarSourceBuilder, position: Any = None) -> list[str]:
    """All messages of a bounded source."""
    found: list[str] = []
    with reading(of, position) as enumerator:
        while not enumerator.finished:
            found += take(of, enumerator)
    return found


def id_of(entry: int) -> bytes:
    return MessageId(entry).serialize()


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        (StartCursor.default_start_cursor(), "abcdef"),
        (StartCursor.latest(), "f"),
        (StartCursor.from_message_id(id_of(2)), "cdef"),
        (StartCursor.from_message_id(id_of(2), inclusive=False), "def"),
        (StartCursor.from_publish_time(4), "def"),
        (StartCursor.from_message_time(4), "def"),
    ],
)
def test_where_a_new_subscription_begins(broker: Broker, start: StartCursor, expected: str) -> None:
    broker.create("t")
    for number, body in enumerate("abcde", 1):
        broker.publish("t", body, publish=number)
    of = source(start)
    with reading(of) as enumerator:
        broker.publish("t", "f")
        assert "".join(all_of(of, enumerator, len(expected))) == expected


@pytest.mark.parametrize(
    ("stop", "expected"),
    [
        (StopCursor.latest(), "abcde"),
        (StopCursor.at_message_id(id_of(3)), "abc"),
        (StopCursor.after_message_id(id_of(3)), "abcd"),
        (StopCursor.at_publish_time(3), "ab"),
        (StopCursor.after_publish_time(3), "abc"),
        (StopCursor.at_event_time(30), "ab"),
        (StopCursor.after_event_time(30), "abc"),
    ],
)
def test_where_reading_stops(broker: Broker, stop: StopCursor, expected: str) -> None:
    broker.create("t")
    for number, body in enumerate("abcde", 1):
        broker.publish("t", body, event=number * 10, publish=number)
    assert "".join(to_the_end(source(stop=stop))) == expected


def test_the_end_is_that_of_the_first_start(broker: Broker) -> None:
    broker.create("t")
    broker.publish("t", "a", "b", "c")
    of = source(stop=StopCursor.latest())
    with reading(of) as enumerator:
        assert take(of, enumerator, 2) == ["a", "b"]
        position = enumerator.position()
    broker.publish("t", "too late")
    assert to_the_end(of, position) == ["c"]


def test_an_empty_topic_ends_at_once(broker: Broker) -> None:
    broker.create("t", 2)
    assert to_the_end(source(stop=StopCursor.latest())) == []


def test_a_restart_before_the_first_message(broker: Broker) -> None:
    """What came since the job was first started is not skipped, though it starts at the latest message."""
    broker.create("t")
    broker.publish("t", "too early")
    of = source(StartCursor.latest())
    with reading(of) as enumerator:
        position = enumerator.position()
    broker.publish("t", "while the job was down")
    with reading(of, position) as enumerator:
        assert take(of, enumerator) == ["while the job was down"]


def test_messages_are_acknowledged_when_their_epoch_is_committed(broker: Broker) -> None:
    broker.create("t")
    broker.publish("t", "a", "b", "c")
    of = source()
    with reading(of) as enumerator:
        assert take(of, enumerator, 2) == ["a", "b"]
        assert broker.cursors["t", "s"] == 0
        enumerator.committed()
        assert broker.cursors["t", "s"] == 2
        enumerator.committed()


def test_an_existing_subscription_is_continued_unless_it_is_reset(broker: Broker) -> None:
    broker.create("t")
    broker.publish("t", "a", "b", "c")
    broker.cursors["t", "s"] = 2
    of = source()
    with reading(of) as enumerator:
        assert take(of, enumerator) == ["c"]
    again = source().set_config("pulsar.source.resetSubscriptionCursor", True)
    with reading(again) as enumerator:
        assert "".join(all_of(again, enumerator, 3)) == "abc"


def test_new_partitions_are_found(broker: Broker) -> None:
    broker.create("t", 1)
    of = source().set_properties({"pulsar.source.partitionDiscoveryIntervalMs": "1"})
    with reading(of) as enumerator:
        enumerator.next_splits(1, 1)
        broker.create("t", 2)
        broker.publish("t-partition-1", "new")

        def found() -> list[bytes]:
            return [v for s in enumerator.next_splits(1, 10) for one in _list(s) for v in one.payload.bodies]

        assert eventually(found) == [b"new"]


def _list(some: Any) -> list[Split]:
    return [some] if isinstance(some, Split) else list(some)


def test_topics_by_pattern(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ["persistent://public/default/orders-1", "persistent://public/default/other"]
    answers = {"/admin/v2/persistent/public/default/partitioned": names[:1]}
    answers["/admin/v2/persistent/public/default"] = [f"{names[0]}-partition-0", names[1]]
    monkeypatch.setattr(client.PulsarClients, "_get", lambda self, path: answers[path])
    for name in names:
        broker.create(name)
        broker.publish(name, name)
    builder = PulsarSource.builder().set_service_url("pulsar://model").set_admin_url("http://model")
    builder.set_topic_pattern("persistent://public/default/orders-.*").set_subscription_name("s")
    builder.set_deserialization_schema(SimpleStringSchema()).set_bounded_stop_cursor(StopCursor.latest())
    assert to_the_end(builder) == ["persistent://public/default/orders-1"]


def test_event_times(broker: Broker) -> None:
    broker.create("t")
    broker.publish("t", "with", event=5, publish=7)
    broker.publish("t", "without", publish=8)
    with reading(source()) as enumerator:
        eventually(lambda: enumerator.pending_records() == 2)
        ((split,),) = enumerator.next_splits(1, 10)  # type: ignore[misc]
        assert split.payload.timestamps == [5, 8]


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        (RangeGenerator.full(), "abcdefg"),
        (RangeGenerator.fixed_key(keys="k"), "a"),
        (RangeGenerator.fixed_key(keys=["k", "l"]), "ab"),
        (RangeGenerator.fixed_key(key_bytes=b"\x00k"), "c"),
        (RangeGenerator.fixed_key(ordering_key_bytes=b"o"), "de"),
        (RangeGenerator.fixed_key(support_null_key=True), "f"),
        (RangeGenerator.fixed_key(True, "l", b"\x00k", b"o"), "bcdef"),
    ],
)
def test_messages_by_key(broker: Broker, keys: RangeGenerator, expected: str) -> None:
    broker.create("t")
    broker.publish("t", "a", key="k")
    broker.publish("t", "b", key="l")
    broker.publish("t", "c", key="AGs=")  # bytes, as Pulsar's Java client encodes them
    broker.publish("t", "d", key="k", ordering_key=b"o")
    broker.publish("t", "e", ordering_key=b"o")
    broker.publish("t", "f")
    broker.publish("t", "g", key="k", ordering_key=b"\xff")
    of = source(stop=StopCursor.latest()).set_range_generator(keys)
    assert "".join(to_the_end(of)) == expected


def test_a_restart_after_messages_that_are_not_selected(broker: Broker) -> None:
    broker.create("t")
    broker.publish("t", "a", key="k")
    broker.publish("t", "b", "c", key="l")
    of = source(stop=StopCursor.latest()).set_range_generator(RangeGenerator.fixed_key(keys="k"))
    with reading(of) as enumerator:
        assert take(of, enumerator) == ["a"]
        position = enumerator.position()
    broker.publish("t", "too late", key="k")
    assert to_the_end(of, position) == []


def test_errors_of_the_client(broker: Broker) -> None:
    with pytest.raises(ConnectorError, match=r"Pulsar at pulsar://model: finding t failed: .*TopicNotFound"):
        source().build().create_enumerator(None)
    broker.create("t")
    broker.busy.add(("t", "s"))
    with pytest.raises(ConnectorError, match=r"subscribing to t as 's' failed: .*ConsumerBusy"):
        source().build().create_enumerator(None)
    broker.busy.clear()


def test_settings_of_a_source() -> None:
    with pytest.raises(ConfigurationError, match="set_service_url"):
        PulsarSource.builder().build()
    with pytest.raises(ConfigurationError, match="not both"):
        source().set_topic_pattern("a.*").build()
    with pytest.raises(ConfigurationError, match=r"StopCursor.latest"):
        source(stop=StopCursor.never()).build()
    with pytest.raises(ConfigurationError, match=r"plugin com.example.Auth is not supported"):
        source().set_authentication("com.example.Auth", "x").build()
    with pytest.raises(ConfigurationError, match="not UTF-8"):
        RangeGenerator.fixed_key(ordering_key_bytes=b"\xff")
    of = source().set_range_generator(RangeGenerator.full()).set_subscription_type(SubscriptionType.Shared)
    token = of.set_authentication("org.apache.pulsar.client.impl.auth.AuthenticationToken", "token:canary")
    built = (
        token.set_consumer_name("reader-%s")
        .set_config_with_dict({"a": 1})
        .set_unbounded_stop_cursor(StopCursor.default_stop_cursor())
        .build()
    )
    assert not built.bounded
    assert "canary" not in repr(built)
    assert "canary" not in repr(built._clients)


# --------------------------------------------------------------------------------------------------------------- sink


def sink(*topics: str) -> PulsarSinkBuilder:
    builder = PulsarSink.builder().set_service_url("pulsar://model").set_topics(list(topics))
    return builder.set_serialization_schema(SimpleStringSchema())


def opened(of: Sink, subtask: int = 0) -> SinkWriter:
    writer = of.create_writer(subtask, 2)
    writer.open(None)  # type: ignore[arg-type]  # it is not used
    writer.begin_epoch(context(1))
    return writer


def bodies(broker: Broker, topic: str) -> list[str]:
    return [message.data().decode() for message in broker.messages[topic]]


def test_topics_in_turn(broker: Broker) -> None:
    broker.create("t")
    broker.create("u")
    writer = opened(sink("t", "u").set_producer_name("shop-%s").build())
    writer.write(["a", "b", "c"], [1, 2, 3])
    writer.prepare_commit()
    writer.close()
    assert sorted(bodies(broker, "t") + bodies(broker, "u")) == ["a", "b", "c"]
    assert abs(len(bodies(broker, "t")) - len(bodies(broker, "u"))) == 1
    assert {message.event_timestamp() for name in "tu" for message in broker.messages[name]} == {1, 2, 3}
    assert broker.producers == ["shop-0", "shop-0"]


def test_topics_by_subtask_and_by_a_function(broker: Broker) -> None:
    broker.create("t")
    broker.create("u")
    writer = opened(sink("t", "u").set_topic_routing_mode(TopicRoutingMode.MESSAGE_KEY_HASH).build(), subtask=1)
    writer.write(["a", "b"], None)
    writer.prepare_commit()
    assert bodies(broker, "u") == ["a", "b"]
    writer = opened(sink("t", "u").set_topic_router(lambda record, topics: record[0]).build())
    writer.write(["t1", "u1"], None)
    writer.prepare_commit()
    assert (bodies(broker, "t"), bodies(broker, "u")) == (["t1"], ["a", "b", "u1"])


def test_delayed_messages(broker: Broker) -> None:
    broker.create("t")
    writer = opened(sink("t").delay_sending_message(MessageDelayer.fixed(Duration.of_seconds(3))).build())
    writer.write(["a"], None)
    writer.prepare_commit()
    delay = broker.messages["t"][0].delay
    assert delay is not None
    assert delay.total_seconds() == 3


def test_a_message_that_is_not_acknowledged_is_an_error(broker: Broker) -> None:
    broker.create("t")
    broker.results = [Result.Ok, Result.Timeout]
    writer = opened(sink("t").build())
    writer.write(["a", "b", "c"], None)
    with pytest.raises(ConnectorError, match=r"a message for t was not accepted: Result.Timeout"):
        writer.prepare_commit()


def test_settings_of_a_sink() -> None:
    with pytest.raises(ConfigurationError, match="set_topics"):
        sink().build()
    with pytest.raises(ConfigurationError, match="no transactions"):
        sink("t").set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE)
    with pytest.raises(ConfigurationError, match="name of a Java class"):
        sink("t").set_topic_router("com.example.Router")
    with pytest.raises(ConfigurationError, match="set_topic_router"):
        sink("t").set_topic_routing_mode(TopicRoutingMode.CUSTOM).build()
    assert sink("t").set_delivery_guarantee(DeliveryGuarantee.NONE).build().guarantee == "at-least-once"
