"""The environment of the Kafka job: brokers, which are killed too, its input, and a reader of its results."""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from chaos.control import Control
from chaos.job_kafka import ADDRESS, DONE, INPUT, OUTPUT
from chaos.truth import PARTITIONS, record
from chaos.variant import Variant
from chaos.verdict import compare
from tests.kafka_broker import KafkaBroker
from tests.kafka_cluster import KafkaCluster

#: Seconds to wait for surplus results after all expected results have arrived.
_LINGER: Final = 2.0


class KafkaVariant(Variant):
    """Drivers, workers and the broker are killed. A read_committed consumer sees each result once, in order."""

    module = "chaos.job_kafka"
    faults: Mapping[str, int] = {
        "kill_worker": 3,
        "kill_executor": 2,
        "kill_broker": 4,
        "rescale": 2,
        "slow_storage": 1,
        "kill_driver": 3,
        "stop_driver": 1,
    }

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        with contextlib.ExitStack() as ending:
            brokers = self._brokers()
            ending.callback(brokers.kill)
            brokers.start()
            for topic in (INPUT, OUTPUT):
                brokers.create_topic(topic, partitions=PARTITIONS)
            (self.folder / ADDRESS).write_text(brokers.address)
            self._traffic = Traffic(brokers.address, self.folder)
            ending.callback(self._traffic.stop)
            self._traffic.start()
            yield

    def _brokers(self) -> KafkaBroker | KafkaCluster:
        self._broker = KafkaBroker(self.folder / "kafka")
        return self._broker

    def position(self, sources: Mapping[str, Any]) -> int:
        """The number of records that the job has certainly read: those whose results have arrived."""
        return len(self._traffic.results)

    def _kill_broker(self, dice: random.Random) -> str:
        seconds = 3 * dice.random()
        self._broker.kill()
        time.sleep(seconds)
        self._broker.start()
        return f"killed the broker for {seconds:.1f} s"

    def differences(self, records: int) -> Iterator[str]:
        yield from self._traffic.problems
        expected, counts = Counter[str](), Counter[str]()
        for number in range(records):
            key = record(number)[0]
            counts[key] += 1
            expected[f"{key} {counts[key]} {number}"] += 1
        yield from compare("results", expected, Counter(self._traffic.results))
        last: dict[str, int] = {}
        for result in self._traffic.results:
            key, count, _ = result.split()
            if int(count) < last.get(key, 0):
                yield f"result {result!r} arrived after number {last[key]} of its key"
            last[key] = int(count)


class KafkaClusterVariant(KafkaVariant):
    """There are three brokers. The leader of a partition is killed, and the others keep running."""

    faults: Mapping[str, int] = {
        **{fault: often for fault, often in KafkaVariant.faults.items() if fault != "kill_broker"},
        "kill_leader": 5,
    }

    def _brokers(self) -> KafkaCluster:
        self._cluster = KafkaCluster(self.folder / "kafka")
        return self._cluster

    def _kill_leader(self, dice: random.Random) -> str:
        topic, partition, seconds = dice.choice((INPUT, OUTPUT)), dice.randrange(PARTITIONS), 8 * dice.random()
        leader = self._cluster.leader_of(topic, partition)
        self._cluster.brokers[leader].kill()
        time.sleep(seconds)
        self._cluster.start()
        for each in (INPUT, OUTPUT):  # otherwise the next kill would leave too few replicas
            self._cluster.await_replicas(each)
        return f"killed broker {leader}, the leader of {topic}-{partition}, for {seconds:.1f} s"


class Traffic(threading.Thread):
    """Writes the allowed records to the job's input, and reads its results like any other program."""

    def __init__(self, address: str, folder: Path) -> None:
        super().__init__(name="traffic of the topics", daemon=True)
        self.results: list[str] = []
        self.problems: list[str] = []
        self._folder = folder
        self._control = Control(folder / "control")
        self._over = threading.Event()
        client = {"bootstrap.servers": address, "log_level": 0, "reconnect.backoff.max.ms": 500}
        self._producer = Producer(client | {"enable.idempotence": True})
        reading = {"group.id": "chaos", "isolation.level": "read_committed", "enable.auto.commit": False}
        self._consumer = Consumer(client | reading | {"auto.offset.reset": "error"})
        self._consumer.assign([TopicPartition(OUTPUT, partition, 0) for partition in range(PARTITIONS)])

    def run(self) -> None:
        written = 0
        complete: float | None = None
        while not self._over.is_set():
            allowed, final = self._control.allowed()
            for number in range(written, allowed):
                key = record(number)[0]
                self._producer.produce(INPUT, f"{key} {number}", key, on_delivery=self._note)
            written = max(written, allowed)
            self._producer.poll(0)
            self._read()
            if final and len(self.results) >= allowed:
                complete = complete or time.monotonic()
                if time.monotonic() - complete > _LINGER:
                    (self._folder / DONE).touch()

    def stop(self) -> None:
        """Finish the current read, and end."""
        self._over.set()
        self.join()

    def _read(self) -> None:
        for message in self._consumer.consume(500, 0.05):
            if message.error() is None:
                self.results.append((message.value() or b"").decode())

    def _note(self, error: KafkaError | None, message: Any) -> None:
        if error is not None:
            self.problems.append(f"the run itself could not write its input: {error.str()}")
