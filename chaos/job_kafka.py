"""Kafka to keyed state to Kafka, exactly once: ``python -m chaos.job_kafka <folder>`` is one driver."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from chaos.job import run_job
from tidemill.common import Types, WatermarkStrategy, run_main
from tidemill.common.serialization import SimpleStringSchema
from tidemill.datastream import StreamExecutionEnvironment
from tidemill.datastream.connectors.base import DeliveryGuarantee
from tidemill.datastream.connectors.kafka import (
    KafkaProducerRecord,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
)
from tidemill.datastream.functions import KeyedProcessFunction, RuntimeContext
from tidemill.datastream.state import ValueStateDescriptor

INPUT: Final = "numbers"
OUTPUT: Final = "counts"
#: Files in the folder of the run: the address of the broker, and a marker that exists once the job has no more work.
#: The marker is needed because a job that reads Kafka is unbounded.
ADDRESS: Final = "broker"
DONE: Final = "done"


class Count(KeyedProcessFunction):
    """Emits each number with its position among the numbers of its key."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: str, ctx: KeyedProcessFunction.Context) -> Iterable[str]:
        count = (self._count.value() or 0) + 1
        self._count.update(count)
        key, number = value.split()
        yield f"{key} {count} {number}"


class ByKey(KafkaRecordSerializationSchema[str]):
    """Writes the results of a key to one partition, in order."""

    def serialize(self, element: str, timestamp: int | None) -> KafkaProducerRecord:
        return KafkaProducerRecord(OUTPUT, element.encode(), element.partition(" ")[0].encode(), timestamp=timestamp)

    def fixed_topic(self) -> str:
        return OUTPUT


def build(env: StreamExecutionEnvironment, folder: Path) -> None:
    """Build a job that counts numbers per key."""
    address = (folder / ADDRESS).read_text()
    reading = KafkaSource.builder().set_bootstrap_servers(address).set_topics(INPUT)
    writing = KafkaSink.builder().set_bootstrap_servers(address).set_record_serializer(ByKey())
    exactly_once = writing.set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE).set_transactional_id_prefix("chaos")
    source = reading.set_value_only_deserializer(SimpleStringSchema()).build()
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
    counts = numbers.key_by(lambda value: value.partition(" ")[0]).process(Count()).uid("counts")
    counts.sink_to(exactly_once.build()).uid("sink")


if __name__ == "__main__":
    done = Path(sys.argv[1], DONE)
    sys.exit(run_main(lambda: run_job(build, done.exists)))
