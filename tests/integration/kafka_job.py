"""A driver that counts numbers and writes the counts to Kafka, exactly once, without Spark.

``python kafka_job.py <checkpoints> <address> <topic> <records>``
"""

from __future__ import annotations

import sys
from typing import Any

from tidemill.common import Configuration, Types, WatermarkStrategy, run_main
from tidemill.common.serialization import SimpleStringSchema
from tidemill.datastream import StreamExecutionEnvironment
from tidemill.datastream.connectors.base import DeliveryGuarantee
from tidemill.datastream.connectors.kafka import KafkaRecordSerializationSchema, KafkaSink
from tidemill.datastream.connectors.number_seq import NumberSequenceSource
from tidemill.datastream.functions import KeyedProcessFunction, RuntimeContext
from tidemill.datastream.state import ValueStateDescriptor

KEYS = 5


class Count(KeyedProcessFunction):
    """The number of a record among those of its key."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: int, ctx: KeyedProcessFunction.Context) -> Any:
        count = (self._count.value() or 0) + 1
        self._count.update(count)
        yield f"{value % KEYS} {count} {value}"


def expected(records: int) -> list[str]:
    """What must be in the topic."""
    return sorted(f"{number % KEYS} {number // KEYS + 1} {number}" for number in range(records))


def main() -> None:
    checkpoints, address, topic, records = sys.argv[1:]
    configuration = Configuration()
    for key, value in {
        "execution.target": "local",
        "execution.checkpointing.dir": checkpoints,
        "execution.job-id": "to-kafka",
        "execution.epoch.max-records": "10",
        "parallelism.default": "2",
    }.items():
        configuration.set_string(key, value)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    source = NumberSequenceSource(0, int(records) - 1)
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
    serializer = KafkaRecordSerializationSchema.builder().set_topic(topic)
    sink = (
        KafkaSink.builder()
        .set_bootstrap_servers(address)
        .set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE)
        .set_transactional_id_prefix(topic)
        .set_record_serializer(serializer.set_value_serialization_schema(SimpleStringSchema()).build())
        .build()
    )
    numbers.key_by(lambda number: number % KEYS).process(Count()).uid("count").sink_to(sink).uid("sink")
    env.execute("to kafka")


if __name__ == "__main__":
    sys.exit(run_main(main))
