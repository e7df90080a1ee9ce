"""KafkaSink against a real broker: what readers see, whatever is killed."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from tests.integration import kafka_job
from tests.kafka_broker import KafkaBroker
from tests.ports import refusing_port
from tests.spark import processes
from tests.thorough import THOROUGH
from tests.waiting import eventually
from tidemill.common.serialization import SimpleStringSchema
from tidemill.connectors.kafka.client import KafkaClients
from tidemill.connectors.kafka.producer_records import ProducerColumns
from tidemill.connectors.kafka.transactions import KafkaTransactions
from tidemill.connectors.write_ahead_log import Delivery, DestinationContext, Mark
from tidemill.datastream.connectors.base import DeliveryGuarantee
from tidemill.datastream.connectors.kafka import (
    ExpiredMarker,
    KafkaProducerRecord,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSinkBuilder,
)
from tidemill.datastream.data_stream import DataStream
from tidemill.datastream.stream_execution_environment import StreamExecutionEnvironment
from tidemill.errors import ConfigurationError, ConnectorError, TidemillError
from tidemill.faults import Fault, injected
from tidemill.testing.job_harness import JobHarness
from tidemill.testing.sink_contract import SINK_CASES, WRITER_CASES, SinkCase, check_sink

EXACTLY, AT_LEAST, NONE = DeliveryGuarantee.EXACTLY_ONCE, DeliveryGuarantee.AT_LEAST_ONCE, DeliveryGuarantee.NONE
TEXT = SimpleStringSchema()
#: Keys of both subtasks.
LETTERS = list("abcdefgh")
_numbers = itertools.count(1)


@pytest.fixture
def topic(kafka: KafkaBroker) -> str:
    return kafka.create_topic(f"sink-{next(_numbers)}", partitions=2)


def to_topic(topic: str) -> KafkaRecordSerializationSchema[Any]:
    builder = KafkaRecordSerializationSchema.builder().set_topic(topic)
    return builder.set_key_serialization_schema(TEXT).set_value_serialization_schema(TEXT).build()


def builder(kafka: KafkaBroker, topic: str, guarantee: DeliveryGuarantee = EXACTLY) -> KafkaSinkBuilder:
    return (
        KafkaSink.builder()
        .set_bootstrap_servers(kafka.address)
        .set_delivery_guarantee(guarantee)
        .set_transactional_id_prefix(f"tests-{topic}")
        .set_record_serializer(to_topic(topic))
        .set_property("max.block.ms", "120000")
    )


def visible(kafka: KafkaBroker, topic: str) -> list[str]:
    """What readers of committed records see, once no transaction is open."""
    kafka.await_transactions(topic)
    return kafka.values(topic)


def job_with(make: Callable[[], KafkaSink], **options: Any) -> JobHarness:
    def build(env: StreamExecutionEnvironment, words: DataStream) -> None:
        words.key_by(lambda word: word[0]).map(lambda word: word).sink_to(make()).uid("sink")

    return JobHarness(build, inputs=["words"], **options)


# ------------------------------------------------------------------------------------------------------- the guarantees


#: Before the manifest nothing has reached Kafka: those stories are the log's, and told without a broker.
OF_THE_LOG = {f"killed at {point}" for point in ("task.batch", "delta.after", "ack.before", "manifest.before")}
OF_THE_LOG |= {
    "killed at sink.precommit.before",
    "killed at acks.collected",
    "cleared up late",
    "epochs without records",
}
#: Those in which more is asked of Kafka than to commit a transaction and to find its marker.
TELLING = {
    "epochs come one after the other",
    "a subtask without records",
    "killed at manifest.after",
    "killed in a commit after 1 subtasks",
    "rescaled between commit and commit",
    "begun again with an empty directory",
    "committed late, 1 subtasks before",
    "attempts that were lost",
}
EXACTLY_CASES = [case for case in SINK_CASES if case.name in TELLING or (THOROUGH and case.name not in OF_THE_LOG)]
#: One story of each kind is enough where there is nothing to commit.
AT_LEAST_CASES = [
    case
    for case in WRITER_CASES
    if case.name in {"epochs without records", "killed at sink.precommit.after", "killed at manifest.after", "rescaled"}
]


@pytest.mark.parametrize("case", EXACTLY_CASES, ids=str)
def test_exactly_once_whatever_is_killed(case: SinkCase, kafka: KafkaBroker, topic: str) -> None:
    check_sink(case, lambda: builder(kafka, topic).build(), lambda: visible(kafka, topic))


@pytest.mark.parametrize("case", AT_LEAST_CASES, ids=str)
def test_at_least_once_whatever_is_killed(case: SinkCase, kafka: KafkaBroker, topic: str) -> None:
    check_sink(case, lambda: builder(kafka, topic, AT_LEAST).build(), lambda: visible(kafka, topic))


LARGE_CASES = [case for case in SINK_CASES if case.name == "committed late, 1 subtasks before"]


@pytest.mark.parametrize("case", LARGE_CASES, ids=str)
def test_exactly_once_with_commits_on_workers(case: SinkCase, kafka: KafkaBroker, topic: str) -> None:
    check_sink(
        case,
        lambda: builder(kafka, topic).build(),
        lambda: visible(kafka, topic),
        record=lambda number: f"{number} " + "x" * 100_000,
    )


@pytest.mark.parametrize("point", ["delivery.before", "delivery.written", "delivery.after"])
def test_exactly_once_around_the_transaction_of_each_subtask(point: str, kafka: KafkaBroker, topic: str) -> None:
    with job_with(lambda: builder(kafka, topic).build()) as job:
        job.epoch(words=LETTERS)
        job.crash(Fault(point), words=LETTERS)
        assert sorted(visible(kafka, topic)) == sorted(LETTERS * 2), "the next start has delivered them"
        job.crash(Fault(point, skip=1), words=LETTERS)
        job.epoch(words=LETTERS)
    assert sorted(visible(kafka, topic)) == sorted(LETTERS * 4)


@pytest.mark.parametrize("guarantee", [EXACTLY, AT_LEAST], ids=lambda guarantee: guarantee.name)
def test_a_key_keeps_its_order_and_everything_else_of_a_record_arrives(
    guarantee: DeliveryGuarantee, kafka: KafkaBroker, topic: str
) -> None:
    class Numbered(KafkaRecordSerializationSchema[str]):
        def serialize(self, element: str, timestamp: int | None) -> KafkaProducerRecord:
            key, _, number = element.partition(" ")
            value = None if number == "499" else number.encode()
            return KafkaProducerRecord(topic, value, key.encode(), None, 1_000 + int(number), [("of", key.encode())])

    words = [f"{'ab'[number % 2]} {number}" for number in range(500)]
    with job_with(lambda: builder(kafka, topic, guarantee).set_record_serializer(Numbered()).build()) as job:
        job.epoch(words=words[:250])
        job.epoch(words=words[250:])
    kafka.await_transactions(topic)
    records = kafka.consume(topic)
    for key in (b"a", b"b"):
        of_key = [record for record in records if record.key == key]
        assert len({record.partition for record in of_key}) == 1
        assert [record.timestamp for record in of_key] == sorted(record.timestamp for record in of_key)
        assert len(of_key) == 250
        assert {record.headers for record in of_key} == {(("of", key),)}
    assert [record.timestamp for record in records if record.value is None] == [1_499]


def test_records_go_to_the_topics_and_partitions_that_are_chosen(kafka: KafkaBroker, topic: str) -> None:
    other = kafka.create_topic(f"{topic}-b", partitions=3)
    schema = (
        KafkaRecordSerializationSchema.builder()
        .set_topic_selector(lambda word: topic if word.startswith("a") else other)
        .set_value_serialization_schema(TEXT)
        .set_partitioner(lambda record, key, value, topic, partitions: partitions[-1])
        .build()
    )
    with job_with(lambda: builder(kafka, topic).set_record_serializer(schema).build()) as job:
        job.epoch(words=["a1", "b1"])
        job.crash(Fault("sink.commit.after"), words=["b2"])
        job.crash(Fault("sink.commit.after"), words=["a2", "b3"])
    kafka.await_transactions(topic)
    kafka.await_transactions(other)
    assert [(record.partition, record.value) for record in kafka.consume(topic)] == [(1, b"a1"), (1, b"a2")]
    assert [(record.partition, record.value) for record in kafka.consume(other)] == [(2, b"b1"), (2, b"b2"), (2, b"b3")]


# --------------------------------------------------------------------------------------------------- real processes die


def run_job(kafka: KafkaBroker, topic: str, folder: Path, *faults: dict[str, Any]) -> processes.Ended:
    program = str(Path(kafka_job.__file__).absolute())
    arguments = (str(folder / "checkpoints"), kafka.address, topic, "60")
    return processes.run(program, *arguments, faults=faults, log=folder / "log")


def test_drivers_that_are_killed_around_the_commit(kafka: KafkaBroker, topic: str, tmp_path: Path) -> None:
    wanted = kafka_job.expected(60)
    assert run_job(kafka, topic, tmp_path, processes.fault("delivery.written", skip=3)).killed
    assert run_job(kafka, topic, tmp_path, processes.fault("delivery.after", skip=3)).killed
    half = visible(kafka, topic)
    assert 0 < len(half) < len(wanted)
    assert len(set(half)) == len(half)
    ended = run_job(kafka, topic, tmp_path)
    assert ended.code == 0, ended.text
    assert sorted(visible(kafka, topic)) == wanted


def test_readers_wait_for_the_transaction_of_a_dead_driver_no_longer_than_for_its_next_start(
    kafka: KafkaBroker, topic: str, tmp_path: Path
) -> None:
    assert run_job(kafka, topic, tmp_path, processes.fault("delivery.written", skip=2)).killed
    kafka.produce(topic, ["of somebody else"], partition=0)
    kafka.produce(topic, ["of somebody else"], partition=1)
    in_the_open = set(kafka.values(topic, read_committed=False))
    assert kafka.values(topic).count("of somebody else") < 2, "an open transaction holds readers back"
    assert run_job(kafka, topic, tmp_path, processes.fault("acks.collected")).killed, "one that commits nothing new"
    seen = visible(kafka, topic)
    assert seen.count("of somebody else") == 2
    assert in_the_open <= set(seen), "what was aborted has been delivered after all"


# ----------------------------------------------------------------------------------------------------- the broker dies


@contextmanager
def broker_away(kafka: KafkaBroker, seconds: float) -> Iterator[None]:
    """The broker is killed, and comes back while the block runs."""
    kafka.kill()
    back = threading.Timer(seconds, kafka.start)
    back.start()
    try:
        yield
    finally:
        back.join()
        kafka.await_ready()


def test_a_broker_that_is_restarted_is_waited_for(kafka: KafkaBroker, topic: str) -> None:
    other = kafka.create_topic(f"{topic}-b", partitions=2)
    with (
        job_with(lambda: builder(kafka, topic, EXACTLY).build()) as exact,
        job_with(lambda: builder(kafka, other, AT_LEAST).build()) as at_least,
    ):
        for job in (exact, at_least):
            job.epoch(words=["a1", "b1"])
        with broker_away(kafka, 0.5):
            for job in (exact, at_least):
                job.epoch(words=["a2", "b2"])
        for job in (exact, at_least):
            job.epoch(words=["a3", "b3"])
    for each in (topic, other):
        assert sorted(visible(kafka, each)) == ["a1", "a2", "a3", "b1", "b2", "b3"]


def test_a_broker_that_dies_between_the_records_and_their_commit(kafka: KafkaBroker, topic: str) -> None:
    with job_with(lambda: builder(kafka, topic).build()) as job:
        job.epoch(words=["a1", "b1"])
        with injected(Fault("delivery.written", action="call", call=kafka.restart)):
            try:
                job.epoch(words=["a2", "b2"])
            except TidemillError:
                job.restart(crashed=True)
        job.epoch(words=["a3", "b3"])
    assert sorted(visible(kafka, topic)) == ["a1", "a2", "a3", "b1", "b2", "b3"]


# --------------------------------------------------------------------------------------------------------- transactions


def columns(topic: str, *values: str) -> Callable[[], bytes]:
    data = ProducerColumns(topic, [value.encode() for value in values]).to_bytes()
    return lambda: len(data).to_bytes(4, "big") + data


def delivery(
    mark: Mark, *parts: Callable[[], bytes], again: bool = False, age: float = 0.0, job: str = "j"
) -> Delivery:
    written = int((time.time() - age) * 1000)
    return Delivery(job, "sink", 0, mark, again, written, 100, parts)


def transactions(
    kafka: KafkaBroker,
    topic: str,
    expired: ExpiredMarker = ExpiredMarker.FAIL,
    prefix: str = "",
    **properties: str,
) -> KafkaTransactions:
    settings = {name.replace("_", "."): value for name, value in properties.items()}
    opened = KafkaTransactions(KafkaClients(kafka.address, settings), prefix or f"tests-{topic}", topic, expired)
    opened.open(DestinationContext("j", "sink"))
    return opened


def test_two_processes_that_take_turns_and_one_that_comes_late(kafka: KafkaBroker, topic: str) -> None:
    driver, worker = transactions(kafka, topic), transactions(kafka, topic)
    marks = [Mark("h", "1-a", epoch) for epoch in range(4)]
    driver.deliver(delivery(marks[0], columns(topic, "0")))
    worker.deliver(delivery(marks[1], columns(topic, "1")))
    driver.deliver(delivery(marks[2], columns(topic, "2")))
    worker.deliver(delivery(marks[1], columns(topic, "1")))  # late, and fenced off since
    driver.deliver(delivery(marks[3], columns(topic, "3")))
    driver.deliver(delivery(marks[3], columns(topic, "3"), again=True))
    transactions(kafka, topic).deliver(delivery(marks[2], columns(topic, "2")))
    assert sorted(visible(kafka, topic)) == ["0", "1", "2", "3"]


def test_a_marker_counts_for_its_history_and_lineage_only(kafka: KafkaBroker, topic: str) -> None:
    first = transactions(kafka, topic)
    first.deliver(delivery(Mark("h", "1-a", 7), columns(topic, "epoch 7")))
    back = transactions(kafka, topic)
    back.deliver(delivery(Mark("h", "4-b", 3), columns(topic, "epoch 3, taken back on purpose")))
    elsewhere = transactions(kafka, topic)
    elsewhere.deliver(delivery(Mark("other", "1-c", 1), columns(topic, "epoch 1, in another directory")))
    of_another_job = transactions(kafka, topic)
    of_another_job.deliver(delivery(Mark("h", "1-a", 1), columns(topic, "epoch 1 of another job"), job="k"))
    assert len(visible(kafka, topic)) == 4
    first.deliver(delivery(Mark("h", "1-a", 7), columns(topic, "epoch 7"), again=True))
    assert len(visible(kafka, topic)) == 4


def test_the_prefix_may_change_between_two_runs(kafka: KafkaBroker, topic: str) -> None:
    names = iter(["before", "after"])
    with job_with(lambda: builder(kafka, topic).set_transactional_id_prefix(f"{topic}-{next(names)}").build()) as job:
        job.epoch(words=["a1"])
        job.restart()
        job.epoch(words=["a2"])
    assert visible(kafka, topic) == ["a1", "a2"]


def test_a_fenced_producer_checks_again_and_fails_if_it_is_fenced_again(kafka: KafkaBroker, topic: str) -> None:
    mine, other = transactions(kafka, topic), transactions(kafka, topic)

    def while_taken_over() -> bytes:
        other.deliver(delivery(Mark("h", "2-b", 1), columns(topic, "of the other")))
        return columns(topic, "mine")()

    mine.deliver(delivery(Mark("h", "1-a", 1), columns(topic, "mine"), while_taken_over))
    assert visible(kafka, topic) == ["of the other"], "the marker has told that another driver has gone on"

    def while_fought_over() -> bytes:
        Producer(
            {"bootstrap.servers": kafka.address, "transactional.id": f"tests-{topic}-sink-0", "log_level": 0}
        ).init_transactions(60)
        return columns(topic, "mine")()

    with pytest.raises(ConnectorError, match=r"tests-sink-\d+-sink-0' was not delivered.* another process has begun"):
        mine.deliver(delivery(Mark("h", "3-c", 2), columns(topic, "mine"), while_fought_over))
    assert visible(kafka, topic) == ["of the other"]


@pytest.mark.parametrize(
    ("policy", "seen"),
    [(ExpiredMarker.DELIVER, ["old", "new"]), (ExpiredMarker.SKIP, ["new"])],
    ids=["deliver", "skip"],
)
def test_a_job_that_slept_longer_than_markers_live_asks_what_to_do(
    policy: ExpiredMarker, seen: list[str], kafka: KafkaBroker, topic: str
) -> None:
    old = delivery(Mark("h", "1-a", 9), columns(topic, "old"), again=True, age=8 * 24 * 3600)
    with pytest.raises(ConnectorError, match=r"epoch 9 of job 'j'.*offsets\.retention\.minutes.*ExpiredMarker\.SKIP"):
        transactions(kafka, topic).deliver(old)
    told = transactions(kafka, topic, policy)
    told.deliver(old)
    told.deliver(delivery(Mark("h", "2-b", 10), columns(topic, "new")))
    assert sorted(visible(kafka, topic)) == sorted(seen)


def test_a_job_that_slept_for_long_but_finds_its_marker_continues(kafka: KafkaBroker, topic: str) -> None:
    mark = Mark("h", "1-a", 9)
    transactions(kafka, topic).deliver(delivery(mark, columns(topic, "old")))
    transactions(kafka, topic).deliver(delivery(mark, columns(topic, "old"), again=True, age=30 * 24 * 3600))
    assert visible(kafka, topic) == ["old"]


def test_results_that_take_longer_than_a_transaction_may_are_refused_with_advice(
    kafka: KafkaBroker, topic: str
) -> None:
    def slow() -> bytes:
        eventually(lambda: "early" in kafka.values(topic, read_committed=False))
        kafka.await_transactions(topic)  # the broker has given it up
        return columns(topic, "late")()

    with pytest.raises(ConnectorError, match=r"took longer than transaction\.timeout\.ms=1000.* increase the timeout"):
        transactions(kafka, topic, transaction_timeout_ms="1000").deliver(
            delivery(Mark("h", "1-a", 1), columns(topic, "early"), slow)
        )
    assert visible(kafka, topic) == []


def test_a_transaction_timeout_that_the_broker_does_not_allow_is_refused_at_the_start(
    kafka: KafkaBroker, topic: str
) -> None:
    sink = builder(kafka, topic).set_property("transaction.timeout.ms", "1000000").build()
    with pytest.raises(ConfigurationError, match=r"is 1000000, but the brokers at .* allow at most 900000"):
        job_with(lambda: sink)


# --------------------------------------------------------------------------------------------------------------- errors


@pytest.mark.parametrize("guarantee", [EXACTLY, AT_LEAST], ids=lambda guarantee: guarantee.name)
def test_an_unreachable_broker_is_named_within_the_timeout(guarantee: DeliveryGuarantee, kafka: KafkaBroker) -> None:
    with refusing_port() as port:
        address = f"127.0.0.1:{port}"
        unreachable = builder(kafka, "any", guarantee).set_bootstrap_servers(address)
        sink = unreachable.set_property("max.block.ms", "1000").build()
        started = time.monotonic()
        with pytest.raises(TidemillError, match=rf"no broker responded within 1 s \(Kafka at {address}\)"):
            job_with(lambda: sink).epoch(words=["a"])
        assert time.monotonic() - started < 60, "less than if it were not told how long"


def test_a_broker_that_stays_away_in_an_epoch_fails_it_with_the_address(kafka: KafkaBroker, topic: str) -> None:
    sink = builder(kafka, topic, AT_LEAST).set_property("delivery.timeout.ms", "1000").build()
    with job_with(lambda: sink) as job:
        job.epoch(words=[])  # the producers are open, and nothing had to be written in a second
        kafka.kill()
        try:
            with pytest.raises(
                TidemillError, match=rf"1 record was not written \(Kafka at {kafka.address}\): topic '{topic}'"
            ):
                job.epoch(words=["a"])
        finally:
            kafka.start()


@pytest.mark.parametrize("guarantee", [EXACTLY, AT_LEAST], ids=lambda guarantee: guarantee.name)
def test_an_unknown_topic_is_named_with_its_neighbours(
    guarantee: DeliveryGuarantee, kafka: KafkaBroker, topic: str
) -> None:
    sink = builder(kafka, topic + "x", guarantee).build()
    with pytest.raises(TidemillError, match=rf"topic '{topic}x' cannot be written to .*similar topics: .*'{topic}'"):
        job_with(lambda: sink).epoch(words=["a"])


def test_a_record_that_is_too_large_is_refused_with_its_topic(kafka: KafkaBroker, topic: str) -> None:
    for sink in (builder(kafka, topic, EXACTLY).build(), builder(kafka, topic, AT_LEAST).build()):
        with pytest.raises(TidemillError, match="MSG_SIZE_TOO_LARGE"), job_with(partial(copy, sink)) as job:
            job.epoch(words=["a" * 2_000_000])
    assert visible(kafka, topic) == []


def test_without_a_guarantee_what_is_refused_is_logged_and_lost(
    kafka: KafkaBroker, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    config = {"max.message.bytes": "1000"}
    small = kafka.create_topic(f"{topic}-small", config=config)
    with job_with(lambda: builder(kafka, small, NONE).set_property("compression.type", "none").build()) as job:
        job.epoch(words=["a" * 5000])
        job.epoch(words=["b"])
    assert visible(kafka, small) == ["b"]
    assert f"1 record was not written (Kafka at {kafka.address}): topic '{small}', partition 0" in caplog.text


def test_other_transactions_of_the_topic_are_ignored(kafka: KafkaBroker, topic: str) -> None:
    other = Producer({"bootstrap.servers": kafka.address, "transactional.id": f"of-others-{topic}", "log_level": 0})
    other.init_transactions(60)
    other.begin_transaction()
    other.produce(topic, b"of others", partition=0)
    other.flush(60)
    with job_with(lambda: builder(kafka, topic).build()) as job:
        job.epoch(words=["a1"])
        job.crash(Fault("sink.commit.after"), words=["a2"])
    other.abort_transaction(60)
    assert visible(kafka, topic) == ["a1", "a2"]
