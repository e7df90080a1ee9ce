"""Several real Kafka brokers on loopback that replicate what they have, for tests that kill some of them."""

from __future__ import annotations

import time
from pathlib import Path

from confluent_kafka import KafkaException

from tests.kafka_broker import KafkaBroker
from tests.kafka_topics import SECONDS, KafkaTopics


class KafkaCluster(KafkaTopics):
    """Three brokers, each of which is a controller too. A record is written when two of them have it."""

    def __init__(self, folder: Path) -> None:
        self.brokers = {node: KafkaBroker(folder / f"node-{node}") for node in (1, 2, 3)}
        super().__init__(",".join(broker.address for broker in self.brokers.values()), replicas=len(self.brokers))
        voters = ",".join(f"{node}@{broker.controller_address}" for node, broker in self.brokers.items())
        for node, broker in self.brokers.items():
            broker.settings |= {
                "node.id": str(node),
                "controller.quorum.voters": voters,
                "min.insync.replicas": "2",
                "offsets.topic.replication.factor": "3",
                "offsets.topic.num.partitions": "3",  # so that not one broker coordinates everything
                "transaction.state.log.replication.factor": "3",
                "transaction.state.log.num.partitions": "3",
                "transaction.state.log.min.isr": "2",
            }

    def start(self) -> None:
        """Start those that do not run; returns when all of them belong to the cluster."""
        for broker in self.brokers.values():
            if broker.pid is None:
                broker.start(wait=False)
        deadline = time.monotonic() + 2 * SECONDS
        while not self._is_complete():
            assert time.monotonic() < deadline, "the cluster is not complete"
            time.sleep(0.05)

    def kill(self) -> None:
        """End all of them as a power cut would."""
        for broker in self.brokers.values():
            broker.kill()

    def leader_of(self, topic: str, partition: int) -> int:
        """The node that all clients of a partition talk to."""
        return int(self._admin().list_topics(topic, timeout=SECONDS).topics[topic].partitions[partition].leader)

    def await_replicas(self, topic: str) -> None:
        """Wait until every broker has all that is in a topic."""
        deadline = time.monotonic() + 2 * SECONDS
        while not self._is_replicated(topic):
            assert time.monotonic() < deadline, f"topic {topic} is not replicated"
            time.sleep(0.05)

    def _is_complete(self) -> bool:
        try:
            return len(self._admin().list_topics(timeout=1.0).brokers) == len(self.brokers)
        except KafkaException:
            return False

    def _is_replicated(self, topic: str) -> bool:
        try:
            partitions = self._admin().list_topics(topic, timeout=1.0).topics[topic].partitions.values()
        except KafkaException:
            return False
        return all(len(partition.isrs) == len(self.brokers) for partition in partitions)
