"""The broker that other tests trust: what they count on."""

from __future__ import annotations

from confluent_kafka import Producer

from tests.kafka_broker import PASSWORD, USER, KafkaBroker


def test_data_survive_a_kill_and_retention_and_growth_can_be_played(kafka: KafkaBroker) -> None:
    topic = kafka.create_topic("survivors", partitions=2)
    kafka.produce(topic, [("key", "one"), "two"], partition=1, timestamp=7, headers=[("a", b"b")])
    kafka.restart()
    one, two = kafka.consume(topic)
    assert (one.partition, one.offset, one.key, one.value, one.timestamp) == (1, 0, b"key", b"one", 7)
    assert one.headers == (("a", b"b"),)
    assert two.value == b"two"

    kafka.delete_records(topic, 1, before=1)
    kafka.add_partitions(topic, 3)
    assert kafka.offsets(topic) == {0: (0, 0), 1: (1, 2), 2: (0, 0)}
    assert kafka.values(topic) == ["two"]


def test_a_reader_of_committed_records_sees_no_open_transaction(kafka: KafkaBroker) -> None:
    topic = kafka.create_topic("transactions")
    producer = Producer({"bootstrap.servers": kafka.address, "transactional.id": "a writer", "log_level": 0})
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce(topic, b"seen early by some")
    producer.flush(60)
    assert kafka.values(topic, read_committed=True) == []
    assert kafka.values(topic, read_committed=False) == ["seen early by some"]
    assert kafka.offsets(topic, read_committed=True) == {0: (0, 0)}
    assert kafka.offsets(topic) == {0: (0, 1)}
    producer.commit_transaction(60)
    kafka.await_transactions(topic)
    assert kafka.values(topic, read_committed=True) == ["seen early by some"]


def test_the_secured_listener_wants_the_password(kafka: KafkaBroker) -> None:
    login = {
        "bootstrap.servers": kafka.login_address,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": USER,
        "sasl.password": PASSWORD,
        "log_level": 0,
    }
    topic = kafka.create_topic("secured")
    producer = Producer(login)
    producer.produce(topic, b"hello")
    assert producer.flush(60) == 0

    refused = Producer({**login, "sasl.password": "wrong", "message.timeout.ms": 1000})
    refused.produce(topic, b"hello")
    refused.flush(60)
    assert kafka.values(topic) == ["hello"]
