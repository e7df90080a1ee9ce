"""Three brokers that replicate, of which one is killed at a time: each result is there once, and none is lost.

The long run, with faults drawn from a seed, is ``python -m chaos --job kafka-cluster``.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from chaos.kafka_variant import KafkaClusterVariant
from chaos.run import Plan, Run, lines_of
from tests.integration.test_kafka_sink import job_with, to_topic
from tests.kafka_cluster import KafkaCluster
from tests.thorough import WHEN_THOROUGH
from tidemill.datastream.connectors.base import DeliveryGuarantee
from tidemill.datastream.connectors.kafka import KafkaSink
from tidemill.errors import TidemillError
from tidemill.faults import Fault, injected

FAULTS = ("kill_leader", "kill_worker", "kill_leader", "kill_driver", "kill_leader")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    made = KafkaCluster(tmp_path_factory.mktemp("cluster"))
    try:
        made.start()
        yield made
    finally:
        made.kill()


def sink_to(cluster: KafkaCluster, topic: str, guarantee: DeliveryGuarantee) -> KafkaSink:
    made = KafkaSink.builder().set_bootstrap_servers(cluster.address).set_record_serializer(to_topic(topic))
    return made.set_delivery_guarantee(guarantee).set_transactional_id_prefix(topic).build()


@WHEN_THOROUGH
@pytest.mark.timeout(300)
@pytest.mark.parametrize("point", ["delivery.before", "delivery.written", "sink.commit.before"])
def test_any_broker_may_die_while_results_are_delivered(point: str, cluster: KafkaCluster) -> None:
    topic = cluster.create_topic(f"results-{point}", partitions=3)
    wanted: list[str] = []
    with job_with(lambda: sink_to(cluster, topic, DeliveryGuarantee.EXACTLY_ONCE)) as job:
        # Among them are the leader of a partition, and who coordinates the transaction and its marker.
        for node, broker in cluster.brokers.items():
            wanted += [f"a{node}", f"b{node}"]
            with injected(Fault(point, action="call", call=broker.kill)):
                try:
                    job.epoch(words=wanted[-2:])
                except TidemillError:
                    job.restart(crashed=True)
            cluster.start()
            cluster.await_replicas(topic)
    cluster.await_transactions(topic)
    assert sorted(cluster.values(topic)) == sorted(wanted)


@WHEN_THOROUGH
@pytest.mark.timeout(300)
def test_no_record_is_lost_where_each_is_written_at_least_once(cluster: KafkaCluster) -> None:
    topic = cluster.create_topic("at-least-once", partitions=3)
    with job_with(lambda: sink_to(cluster, topic, DeliveryGuarantee.AT_LEAST_ONCE)) as job:
        for node, broker in cluster.brokers.items():
            with injected(Fault("sink.precommit.before", action="call", call=broker.kill)):
                job.epoch(words=[f"a{node}", f"b{node}"])
            cluster.start()
            cluster.await_replicas(topic)
    assert set(cluster.values(topic)) == {"a1", "a2", "a3", "b1", "b2", "b3"}


@WHEN_THOROUGH
@pytest.mark.timeout(900)
def test_each_result_is_seen_once_whichever_leader_is_killed(tmp_path: Path) -> None:
    story: list[str] = []
    plan = Plan(1, 1, tmp_path, FAULTS, KafkaClusterVariant)
    verdict = Run(plan, story.append).run()
    assert verdict.good, "\n".join([*story, *lines_of(verdict, plan)])
    assert verdict.faults.total() == len(FAULTS)
