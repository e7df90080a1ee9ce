"""A real Kafka broker on loopback for tests: one process that is broker and controller, on free ports.

Its jars come with the Ivy that is part of pyspark, once, into the cache folder of the project.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions, NewTopic

from tests.java import CACHE, QUICK_JAVA
from tests.shared_processes import outliving

VERSION = "4.1.1"
# The broker logs through slf4j 1.7, which says nothing unless one of its back ends is there.
MODULES = {("org.apache.kafka", "kafka_2.13"): VERSION, ("org.slf4j", "slf4j-simple"): "1.7.36"}
#: A user of the listener that asks who one is.
USER, PASSWORD = "tidemill", "a secret of the tests"
_HOST = "127.0.0.1"
_CLUSTER = "dGlkZW1pbGwtdGVzdHMtMQ"  # any 16 bytes in base64
_SECONDS = 30.0


@dataclass(frozen=True)
class Record:
    """A record as a consumer gets it."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: tuple[tuple[str, bytes | None], ...] = ()


class KafkaBroker:
    """A broker with its data in ``folder``; after a stop or a kill it starts again with the same ports and data."""

    def __init__(self, folder: Path, heap: str = "256m", settings: Mapping[str, str] | None = None) -> None:
        self._folder = folder
        self._heap = heap
        self._settings = dict(settings or {})
        self._ports = free_ports(3)
        self._process: subprocess.Popen[bytes] | None = None
        # Clients that were made once, since each has to find its way to the broker first.
        self._administrator: AdminClient | None = None
        self._consumers: dict[bool, Consumer] = {}
        self.address = f"{_HOST}:{self._ports[0]}"
        #: Wants SASL PLAIN with ``USER`` and ``PASSWORD``.
        self.secured_address = f"{_HOST}:{self._ports[1]}"

    # ------------------------------------------------------------------------------------------------------ process

    @property
    def pid(self) -> int | None:
        """The process, while it runs."""
        return self._process.pid if self._process and self._process.poll() is None else None

    def start(self, wait: bool = True) -> None:
        """Start it; returns when it answers, or at once."""
        assert self.pid is None, "it runs already"
        self._folder.mkdir(parents=True, exist_ok=True)
        settings = self._folder / "server.properties"
        if not settings.exists():
            settings.write_text("".join(f"{key}={value}\n" for key, value in self._properties().items()))
            self._java("kafka.tools.StorageTool", "format", "-t", _CLUSTER, "-c", str(settings)).wait(_SECONDS)
        self._process = self._java("kafka.Kafka", str(settings))
        if wait:
            self.await_ready()

    def await_ready(self, seconds: float = _SECONDS) -> None:
        """Wait until it answers."""
        deadline = time.monotonic() + seconds
        admin = self._admin()
        while True:
            try:
                admin.list_topics(timeout=0.5)
            except KafkaException:
                if self.pid is None or time.monotonic() > deadline:
                    raise RuntimeError(f"the broker did not start; the end of its log:\n{self._log_end()}") from None
                time.sleep(0.02)
            else:
                return

    def stop(self) -> None:
        """End it as an administrator would."""
        if self._process:
            self._process.terminate()
            try:
                self._process.wait(_SECONDS)
            except subprocess.TimeoutExpired:
                self.kill()

    def kill(self) -> None:
        """End it as a power cut would."""
        if self._process:
            self._process.kill()
            self._process.wait()

    def restart(self) -> None:
        """Kill it and start it again, on the same ports and data."""
        self.kill()
        self.start()

    def _java(self, *command: str) -> subprocess.Popen[bytes]:
        java = Path(os.environ["JAVA_HOME"], "bin/java") if "JAVA_HOME" in os.environ else "java"
        options = [*QUICK_JAVA.split(), f"-Xmx{self._heap}", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]
        with (self._folder / "broker.log").open("ab") as log:
            return subprocess.Popen(
                [str(java), *options, "-cp", f"{broker_jars()}/*", *command], stdout=log, stderr=subprocess.STDOUT
            )

    def _log_end(self) -> str:
        return (self._folder / "broker.log").read_text(errors="replace")[-3000:]

    def _properties(self) -> dict[str, str]:
        clients, secured, controller = self._ports
        login = "org.apache.kafka.common.security.plain.PlainLoginModule"
        return {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@{_HOST}:{controller}",
            "listeners": f"OPEN://{_HOST}:{clients},SECURED://{_HOST}:{secured},CONTROLLER://{_HOST}:{controller}",
            "listener.security.protocol.map": "OPEN:PLAINTEXT,SECURED:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
            "listener.name.secured.sasl.enabled.mechanisms": "PLAIN",
            "listener.name.secured.plain.sasl.jaas.config": f'{login} required user_{USER}="{PASSWORD}";',
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "OPEN",
            "log.dirs": str(self._folder / "data"),
            "auto.create.topics.enable": "false",
            "group.initial.rebalance.delay.ms": "0",
            # One broker: nothing is replicated, and its own topics need no spreading.
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "transaction.state.log.num.partitions": "1",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            # A test that waits for a transaction to time out waits for little more than the timeout.
            "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
            # After a kill it is let in again only when the controller has given up on its former life.
            "broker.session.timeout.ms": "2000",
            "broker.heartbeat.interval.ms": "300",
            "num.network.threads": "1",
            "num.io.threads": "2",
            "log.cleaner.enable": "false",
            **self._settings,
        }

    # ------------------------------------------------------------------------------------------------------- topics

    def create_topic(self, name: str, partitions: int = 1, config: Mapping[str, str] | None = None) -> str:
        """Create a topic; returns its name."""
        _done(self._admin().create_topics([NewTopic(name, partitions, 1, config=dict(config or {}))]))
        self._await_partitions(name, partitions)
        return name

    def delete_topic(self, name: str) -> None:
        _done(self._admin().delete_topics([name]))

    def add_partitions(self, name: str, total: int) -> None:
        """Let a topic grow to so many partitions."""
        _done(self._admin().create_partitions([NewPartitions(name, total)]))
        self._await_partitions(name, total)

    def delete_records(self, topic: str, partition: int, before: int) -> None:
        """Delete what retention would delete: everything before an offset."""
        _done(self._admin().delete_records([TopicPartition(topic, partition, before)]))

    def offsets(self, topic: str, *, read_committed: bool = False) -> dict[int, tuple[int, int]]:
        """By partition: the first offset there is, and the one that the next record gets, or a reader waits at."""
        consumer = self._consumer(read_committed)
        return {
            partition: consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=_SECONDS)
            for partition in self._partitions(topic)
        }

    def _await_partitions(self, topic: str, partitions: int) -> None:
        deadline = time.monotonic() + _SECONDS
        while len(self._partitions(topic)) < partitions:
            assert time.monotonic() < deadline, f"topic {topic} has no {partitions} partitions"
            time.sleep(0.01)

    def _partitions(self, topic: str) -> list[int]:
        return sorted(self._admin().list_topics(topic, timeout=_SECONDS).topics[topic].partitions)

    # ------------------------------------------------------------------------------------------------------ records

    def produce(
        self,
        topic: str,
        values: Iterable[str | bytes | tuple[str | bytes | None, str | bytes | None] | None],
        *,
        partition: int = -1,
        timestamp: int | None = None,
        headers: list[tuple[str, bytes]] | None = None,
    ) -> None:
        """Write values, or pairs of key and value; returns when the broker has them."""
        errors: list[str] = []
        producer = Producer(self._client() | {"linger.ms": 0})
        extra: dict[str, Any] = {"partition": partition, "headers": headers}
        if timestamp is not None:
            extra["timestamp"] = timestamp
        for item in values:
            key, value = item if isinstance(item, tuple) else (None, item)
            while True:
                try:
                    producer.produce(
                        topic,
                        value,
                        key,
                        on_delivery=lambda error, _: errors.append(error.str()) if error else None,
                        **extra,
                    )
                except BufferError:
                    producer.poll(0.05)
                else:
                    break
        left = producer.flush(_SECONDS)
        assert not left, f"{left} records are not written to {topic}"
        assert not errors, errors[:3]

    def consume(self, topic: str, *, read_committed: bool = True, seconds: float = _SECONDS) -> list[Record]:
        """Everything that is visible now, by partition, in order."""
        records: list[Record] = []
        partitions = self._partitions(topic)
        consumer = self._consumer(read_committed)
        consumer.assign([TopicPartition(topic, partition, 0) for partition in partitions])
        unread, deadline = set(partitions), time.monotonic() + seconds
        while unread:
            assert time.monotonic() < deadline, f"partitions {sorted(unread)} of {topic} have no end"
            for message in consumer.consume(1000, 0.01):
                error = message.error()
                if error is None:
                    records.append(_record(message))
                elif error.code() == KafkaError._PARTITION_EOF:
                    unread.discard(message.partition())
                elif not error.retriable() and error.code() != KafkaError._ALL_BROKERS_DOWN:
                    raise KafkaException(error)
        consumer.unassign()
        return sorted(records, key=lambda record: (record.partition, record.offset))

    def await_transactions(self, topic: str, seconds: float = 5.0) -> None:
        """Wait until no transaction holds readers back: a commit is complete a moment after it is certain."""
        deadline = time.monotonic() + seconds
        while self.offsets(topic, read_committed=True) != self.offsets(topic) and time.monotonic() < deadline:
            time.sleep(0.01)

    def values(self, topic: str, *, read_committed: bool = True) -> list[str]:
        """The values of everything that is visible now, as text."""
        return [(record.value or b"").decode() for record in self.consume(topic, read_committed=read_committed)]

    def _consumer(self, read_committed: bool) -> Consumer:
        if read_committed not in self._consumers:
            reading = {
                "group.id": "tests",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed" if read_committed else "read_uncommitted",
                "fetch.wait.max.ms": 20,
            }
            self._consumers[read_committed] = Consumer(self._client() | reading)
        return self._consumers[read_committed]

    def _admin(self) -> AdminClient:
        if self._administrator is None:
            self._administrator = AdminClient(self._client())
        return self._administrator

    def _client(self) -> dict[str, Any]:
        return {"bootstrap.servers": self.address, "log_level": 0, "reconnect.backoff.max.ms": 200}


def _record(message: Any) -> Record:
    return Record(
        message.partition(),
        message.offset(),
        message.key(),
        message.value(),
        message.timestamp()[1],
        tuple(message.headers() or ()),
    )


def _done(futures: Mapping[Any, Any]) -> None:
    for future in futures.values():
        future.result(_SECONDS)


# --------------------------------------------------------------------------------------------------------------- shared


@contextmanager
def shared_broker(folder: Path) -> Iterator[KafkaBroker]:
    """A running broker for all tests of a process."""
    broker = KafkaBroker(folder)
    with outliving(lambda: set() if broker.pid is None else {broker.pid}):
        broker.start()
        try:
            yield broker
        finally:
            broker.stop()


# ----------------------------------------------------------------------------------------------------------------- jars


def broker_jars() -> Path:
    """The folder with the broker's jars; the first call ever fetches them."""
    folder = CACHE / f"kafka-{VERSION}"
    if folder.is_dir():
        return folder
    CACHE.mkdir(exist_ok=True)
    with (CACHE / "kafka.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # tests run side by side
        if not folder.is_dir():
            _fetch_jars(folder)
    return folder


def _fetch_jars(folder: Path) -> None:
    spark = find_spec("pyspark")
    assert spark is not None
    assert spark.origin is not None
    incomplete = folder.with_name(folder.name + ".incomplete")
    shutil.rmtree(incomplete, ignore_errors=True)
    incomplete.mkdir()
    modules = "".join(
        f'<dependency org="{org}" name="{name}" rev="{version}" conf="default"/>'
        for (org, name), version in MODULES.items()
    )
    wanted = CACHE / f"{folder.name}.xml"
    wanted.write_text(
        '<ivy-module version="2.0"><info organisation="tidemill" module="tests"/>'
        f"<dependencies>{modules}</dependencies></ivy-module>"
    )
    pattern = f"{incomplete}/[artifact]-[revision].[ext]"
    ivy = f"{Path(spark.origin).parent}/jars/*"
    command = ["java", "-cp", ivy, "org.apache.ivy.Main", "-warn", "-ivy", str(wanted), "-retrieve", pattern]
    result = subprocess.run([*command, "-types", "jar", "bundle"], capture_output=True, text=True, check=False)
    if result.returncode or not list(incomplete.glob("kafka_*.jar")):
        raise RuntimeError(
            f"the jars of Kafka {VERSION} could not be fetched with Ivy (is Maven Central in reach? a mirror can be "
            f"named in Ivy's settings):\n{result.stdout[-2000:]}{result.stderr[-2000:]}"
        )
    incomplete.rename(folder)


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind((_HOST, 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


if __name__ == "__main__":
    sys.stdout.write(f"{broker_jars()}\n")
