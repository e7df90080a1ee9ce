"""The RabbitMQ source and sink on a real server: under the contracts of sources and sinks, and with connections cut."""

from __future__ import annotations

import contextlib
import json
import uuid
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from pika.exceptions import AMQPError

from tests.patient_source import PatientSource
from tests.rabbitmq_server import RabbitServer, Wire, rabbitmq_server
from tests.thorough import THOROUGH
from tests.unit.connectors.sink_epochs import context
from tests.waiting import eventually
from tidemill.common.serialization import SimpleStringSchema
from tidemill.connectors.rabbitmq import RMQConnectionConfig, RMQSink, RMQSource
from tidemill.connectors.sinks import SinkWriter
from tidemill.connectors.sources import Split, SplitEnumerator
from tidemill.datastream import StreamExecutionEnvironment
from tidemill.datastream.streams.data_stream import DataStream
from tidemill.errors import ConnectorError
from tidemill.faults import Fault
from tidemill.testing.job_harness import JobHarness
from tidemill.testing.sink_contract import WRITER_CASES, SinkCase, check_sink
from tidemill.testing.source_contract import SOURCE_CASES, SourceCase, check_source

#: While one consumer holds messages, no other one gets them; and a queue has no second reader from the same position.
ONLY_ONE_CONSUMER = "the same position gives the same records"
CASES = [case for case in SOURCE_CASES if case.name != ONLY_ONE_CONSUMER]


@pytest.fixture(scope="module")
def server() -> Iterator[RabbitServer]:
    with rabbitmq_server() as running:
        yield running


@pytest.fixture
def queue(server: RabbitServer) -> Iterator[str]:
    name = f"q-{uuid.uuid4().hex[:8]}"
    yield name
    server.delete(name)


@pytest.fixture(autouse=True)
def connections(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """The connections that sinks and sources make: a process that dies loses them."""
    made: list[Any] = []
    connect = RMQConnectionConfig.connect

    def noted(config: RMQConnectionConfig) -> Any:
        made.append(connect(config))
        return made[-1]

    monkeypatch.setattr(RMQConnectionConfig, "connect", noted)
    yield made
    for connection in made:
        if connection.is_open:
            with contextlib.suppress(AMQPError, OSError):
                connection.close()


@pytest.fixture
def wire(server: RabbitServer) -> Iterator[Wire]:
    running = Wire(server.port)
    yield running
    running.close()


def through(wire: Wire) -> RMQConnectionConfig:
    uri = f"amqp://guest:guest@127.0.0.1:{wire.port}/%2F"
    return RMQConnectionConfig.Builder().set_uri(uri).set_network_recovery_interval(50).build()


# ------------------------------------------------------------------------------------------------------------- source


def _refill(server: RabbitServer, queue: str, count: int) -> None:
    connection = server.connect()
    channel = connection.channel()
    channel.queue_declare(queue, durable=True)
    channel.queue_purge(queue)
    connection.close()
    server.publish(queue, [f"m{n}".encode() for n in range(count)])


@pytest.mark.parametrize("case", CASES if THOROUGH else CASES[5::3], ids=str)
def test_messages_with_correlation_ids(case: SourceCase, server: RabbitServer, queue: str) -> None:
    alive: list[SplitEnumerator] = []

    def source() -> PatientSource:
        inner = RMQSource(server.config, queue, True, SimpleStringSchema())
        return PatientSource(inner, 9, lambda: _refill(server, queue, 9), alive)

    check_source(case, source, [f"m{n}" for n in range(9)])


def take(enumerator: SplitEnumerator, source: RMQSource, most: int = 100) -> list[str]:
    """The messages of one epoch."""
    eventually(enumerator.available)
    splits = [split for split in enumerator.next_splits(1, most) if isinstance(split, Split)]
    return [value for split in splits for batch in source.read(split) for value in batch.values]


def _has_two(enumerator: SplitEnumerator) -> bool:
    return enumerator.pending_records() == 2


@contextlib.contextmanager
def consuming(source: RMQSource, position: Any = None) -> Iterator[SplitEnumerator]:
    enumerator = source.create_enumerator(json.loads(json.dumps(position)))
    try:
        yield enumerator
    finally:
        enumerator.close()


def test_messages_are_acknowledged_when_their_epoch_is_committed(server: RabbitServer, queue: str) -> None:
    server.publish(queue, [b"a", b"b", b"c"])
    source = RMQSource(server.config, queue, True, SimpleStringSchema())
    with consuming(source) as enumerator:
        assert take(enumerator, source, 2) == ["a", "b"]
        assert enumerator.position()["unacknowledged"] == ["0", "1"]
        enumerator.committed()
        assert enumerator.position() == {"read": 2, "unacknowledged": [], "earlier": []}
    eventually(lambda: server.messages(queue) == [b"c"])


def test_messages_of_a_failed_epoch_are_read_again(server: RabbitServer, queue: str) -> None:
    server.publish(queue, [b"a", b"b"])
    source = RMQSource(server.config, queue, False, SimpleStringSchema())
    for _ in range(2):
        with consuming(source) as enumerator:
            eventually(partial(_has_two, enumerator))
            assert take(enumerator, source) == ["a", "b"]


def test_a_commit_that_was_not_acknowledged_is_not_read_again(server: RabbitServer, queue: str) -> None:
    """The driver died between the commit and the acknowledgement: the position of the commit has the ids."""
    server.publish(queue, [b"a", b"b", b"c"])
    source = RMQSource(server.config, queue, True, SimpleStringSchema())
    with consuming(source) as enumerator:
        assert take(enumerator, source, 2) == ["a", "b"]
        position = enumerator.position()
    with consuming(source, position) as enumerator:
        eventually(lambda: enumerator.pending_records() == 3)
        assert take(enumerator, source) == ["c"]
        enumerator.committed()
        (group,) = enumerator.position()["earlier"]
        assert group[1] == ["0", "1"]  # kept for an hour: who knows when the broker delivers them
    assert server.count(queue) == 0


def test_a_message_without_a_correlation_id_is_an_error(server: RabbitServer, queue: str) -> None:
    server.publish(queue, [b"a"], [""])
    source = RMQSource(server.config, queue, True, SimpleStringSchema())
    with consuming(source) as enumerator, pytest.raises(ConnectorError, match=r"no correlation id.*b'a'"):
        take(enumerator, source)


@pytest.mark.parametrize("by_id", [True, False])
def test_a_lost_connection_is_restored(server: RabbitServer, queue: str, wire: Wire, *, by_id: bool) -> None:
    server.publish(queue, [b"a", b"b", b"c"])
    source = RMQSource(through(wire), queue, by_id, SimpleStringSchema())
    with consuming(source) as enumerator:
        assert take(enumerator, source, 2) == ["a", "b"]
        assert wire.cut() == 1
        eventually(lambda: enumerator.pending_records() == 3)
        enumerator.committed()  # too late: the broker has delivered them again
        assert take(enumerator, source) == (["c"] if by_id else ["a", "b", "c"])
        enumerator.committed()
    assert server.count(queue) == 0


def test_without_recovery_a_lost_connection_is_an_error(server: RabbitServer, queue: str, wire: Wire) -> None:
    uri = f"amqp://guest:guest@127.0.0.1:{wire.port}/%2F"
    config = RMQConnectionConfig.Builder().set_uri(uri).set_automatic_recovery(False).build()
    with consuming(RMQSource(config, queue, True, SimpleStringSchema())) as enumerator:
        wire.cut()
        with pytest.raises(ConnectorError, match="the connection was lost"):
            eventually(enumerator.available)


def test_a_deleted_queue_is_an_error(server: RabbitServer, queue: str) -> None:
    with consuming(RMQSource(server.config, queue, True, SimpleStringSchema())) as enumerator:
        server.delete(queue)
        with pytest.raises(ConnectorError, match=f"queue '{queue}'"):
            eventually(enumerator.available)


def test_who_may_not_log_in(server: RabbitServer) -> None:
    uri = f"amqp://guest:canary-sesame@127.0.0.1:{server.port}/%2F"
    config = RMQConnectionConfig.Builder().set_uri(uri).build()
    with pytest.raises(ConnectorError, match=r"cannot connect to RabbitMQ at amqp://guest:\*") as raised:
        RMQSource(config, "q", True, SimpleStringSchema()).create_enumerator(None)
    assert "canary" not in str(raised.value)


# --------------------------------------------------------------------------------------------------------------- sink


@pytest.mark.parametrize("case", WRITER_CASES if THOROUGH else WRITER_CASES[::4], ids=str)
def test_published_messages(case: SinkCase, server: RabbitServer, queue: str) -> None:
    _refill(server, queue, 0)
    check_sink(
        case,
        lambda: RMQSink(server.config, queue, SimpleStringSchema()),
        lambda: [body.decode() for body in server.messages(queue)],
    )


def opened(sink: RMQSink) -> SinkWriter:
    writer = sink.create_writer(0, 1)
    writer.open(None)  # type: ignore[arg-type]  # it is not used
    writer.begin_epoch(context(1))
    return writer


def test_nothing_is_published_before_the_end_of_the_epoch(server: RabbitServer, queue: str) -> None:
    writer = opened(RMQSink(server.config, queue, SimpleStringSchema()))
    writer.write(["a"], None)
    assert server.messages(queue) == []
    writer.prepare_commit()
    assert server.messages(queue) == [b"a"]
    writer.close()


def test_a_connection_that_was_lost_between_epochs(server: RabbitServer, queue: str, wire: Wire) -> None:
    writer = opened(RMQSink(through(wire), queue, SimpleStringSchema()))
    writer.write(["a"], None)
    writer.prepare_commit()
    wire.cut()
    writer.begin_epoch(context(2))
    writer.write(["b"], None)
    writer.prepare_commit()
    assert server.messages(queue) == [b"a", b"b"]
    writer.close()


def test_a_message_that_no_queue_takes_is_an_error(server: RabbitServer, queue: str) -> None:
    writer = opened(RMQSink(server.config, queue, SimpleStringSchema()))
    server.delete(queue)
    writer.write(["a", "b"], None)
    with pytest.raises(ConnectorError, match=r"did not take 2 messages: NO_ROUTE"):
        writer.prepare_commit()
    writer.close()


def test_an_unreachable_server(wire: Wire) -> None:
    wire.close()
    with pytest.raises(ConnectorError, match="cannot connect to RabbitMQ at"):
        opened(RMQSink(through(wire), "q", SimpleStringSchema()))


# --------------------------------------------------------------------------------------------------------------- jobs


def test_from_queue_to_queue(server: RabbitServer, queue: str) -> None:
    """The driver is killed at every point: the state counts each message once."""
    server.publish(queue, [b"x"] * 6)

    alive: list[SplitEnumerator] = []

    def program(env: StreamExecutionEnvironment) -> DataStream:
        source = PatientSource(RMQSource(server.config, queue, True, SimpleStringSchema()), 0, alive=alive)
        counts = env.add_source(source).uid("source").map(lambda text: (text, 1)).key_by(lambda pair: pair[0])
        return counts.reduce(lambda one, other: (one[0], one[1] + other[1])).uid("count")

    with JobHarness(program, parallelism=2, max_records=2) as job:
        for number, point in enumerate(("offsets.logged", "acks.collected", "manifest.after", "epoch.done")):
            eventually(lambda: job.has_input)
            job.crash(Fault(point))
            server.publish(queue, [b"x"], [f"more-{number}"])

        def all_counted() -> bool:
            if job.has_input:
                job.epoch()
            return ("x", 10) in job.output()

        eventually(all_counted)
        assert sorted(count for _, count in set(job.output())) == list(range(1, 11))
