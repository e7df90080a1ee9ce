"""Kafka to Kafka through a stateless function, compared with plain Structured Streaming that does the same work.

All contenders read the same topic from its beginning with the same number of records per batch or epoch, call the same
Python function for each record, and write to their own topic. The benchmark measures the time from the end of one epoch
to the end of the next, including everything that Spark does in between.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from bench.measure import Measurement, of_epochs
from tests.kafka_broker import KafkaBroker
from tidemill.common import Configuration, WatermarkStrategy
from tidemill.common.serialization import SimpleStringSchema
from tidemill.datastream import StreamExecutionEnvironment
from tidemill.datastream.connectors.base import DeliveryGuarantee
from tidemill.datastream.connectors.kafka import (
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
)
from tidemill.spark.kafka.jars import provide_connector

CASE: Final = "kafka to kafka, stateless"
_INPUT: Final = "input"
#: Identical for all producers.
_PRODUCER: Final = {"linger.ms": "20", "compression.type": "lz4"}
_LOOK: Final = 0.005
_TURNS: Final = 2


def work(text: str) -> str:
    """Process one record."""
    user, amount = text.split()
    return f"{user} {int(amount) * 3 + 1}"


def work_on_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Process record batches, in the form that Structured Streaming requires."""
    for batch in batches:
        texts = batch.column(0).cast(pa.string()).to_pylist()
        yield pa.record_batch([pa.array(list(map(work, texts)), pa.string())], names=["value"])


def measure_kafka(
    session: SparkSession, scratch: Path, per_epoch: int, epochs: int, cores: int
) -> Iterator[Measurement]:
    """Start a broker, fill a topic, and measure the contenders in turn."""
    provide_connector(session)
    broker = KafkaBroker(scratch / "kafka", heap="1g", settings={"num.io.threads": "4"})
    broker.start()
    try:
        broker.create_topic(_INPUT, partitions=cores)
        _fill(broker, per_epoch * epochs)
        contenders: dict[str, Callable[[str], list[float]]] = {
            "structured streaming": lambda topic: _structured(session, broker, topic, scratch / topic, per_epoch),
            "tidemill, at least once": lambda topic: _tidemill(
                broker, topic, scratch / topic, per_epoch, epochs, DeliveryGuarantee.AT_LEAST_ONCE
            ),
            "tidemill, exactly once": lambda topic: _tidemill(
                broker, topic, scratch / topic, per_epoch, epochs, DeliveryGuarantee.EXACTLY_ONCE
            ),
        }
        # Contenders alternate, so that a noisy period of the machine, or a cold JVM, does not affect only one.
        turns: dict[str, list[Measurement]] = {name: [] for name in contenders}
        for turn in range(_TURNS):
            for number, (name, run) in enumerate(contenders.items()):
                ends = run(broker.create_topic(f"output-{turn}-{number}", partitions=cores))
                seconds = [after - before for before, after in pairwise(ends)]
                turns[name].append(of_epochs(CASE, name, [per_epoch] * len(seconds), seconds))
        for measured in turns.values():
            yield max(measured, key=lambda one: one.records_per_second)
    finally:
        broker.stop()


def _fill(broker: KafkaBroker, records: int) -> None:
    producer = Producer({"bootstrap.servers": broker.address, **_PRODUCER, "queue.buffering.max.messages": 1_000_000})
    for number in range(records):
        while True:
            try:
                producer.produce(_INPUT, f"user-{number % 10_000} {number}", f"{number % 10_000}")
                break
            except BufferError:
                producer.poll(0.01)
    producer.flush(60)


def _structured(session: SparkSession, broker: KafkaBroker, topic: str, folder: Path, per_epoch: int) -> list[float]:
    """The end times of the batches of a plain query that reads the whole topic."""
    reader = session.readStream.format("kafka").option("subscribe", _INPUT).option("startingOffsets", "earliest")
    reader = reader.option("kafka.bootstrap.servers", broker.address).option("maxOffsetsPerTrigger", per_epoch)
    frame = reader.load().select("value").mapInArrow(work_on_batches, "value string")
    writer = frame.writeStream.format("kafka").option("kafka.bootstrap.servers", broker.address).option("topic", topic)
    writer = writer.options(**{f"kafka.{key}": value for key, value in _PRODUCER.items()})
    query = writer.option("checkpointLocation", str(folder)).trigger(availableNow=True).start()
    query.awaitTermination()
    progress = [each for each in query.recentProgress if each["numInputRows"]]
    return [
        datetime.fromisoformat(each["timestamp"]).timestamp() + each["durationMs"]["triggerExecution"] / 1000
        for each in progress
    ]


def _tidemill(
    broker: KafkaBroker, topic: str, folder: Path, per_epoch: int, epochs: int, guarantee: DeliveryGuarantee
) -> list[float]:
    """The end times of the epochs of a job that reads the whole topic."""
    configuration = Configuration()
    configuration.set_string("execution.checkpointing.dir", str(folder))
    configuration.set_string("execution.epoch.max-duration", "0 ms")  # the comparison needs epochs of equal size
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    source = (
        KafkaSource.builder()
        .set_bootstrap_servers(broker.address)
        .set_topics(_INPUT)
        .set_starting_offsets(KafkaOffsetsInitializer.earliest())
        .set_value_only_deserializer(SimpleStringSchema())
        .set_max_records_per_epoch(per_epoch)
        .build()
    )
    serializer = KafkaRecordSerializationSchema.builder().set_topic(topic)
    builder = KafkaSink.builder().set_bootstrap_servers(broker.address).set_delivery_guarantee(guarantee)
    for key, value in _PRODUCER.items():
        builder.set_property(key, value)
    sink = (
        builder.set_transactional_id_prefix(topic)
        .set_record_serializer(serializer.set_value_serialization_schema(SimpleStringSchema()).build())
        .build()
    )
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "input").uid("input")
    numbers.map(work).sink_to(sink).uid("sink")
    client: Any = env.execute_async(topic)
    result, ends = client.get_job_execution_result(), list[float]()
    while len(ends) < epochs and not result.done():
        ends += [time.monotonic()] * (len(client.epochs) - len(ends))
        time.sleep(_LOOK)
    client.cancel().result()
    return ends
