"""Reads JSON orders from a Kafka topic, and sums them by customer and by minute of their Kafka timestamp.

It reads the existing records and ends; with --follow it keeps reading new records.

python -m examples.connectors.kafka_windows localhost:9092 orders
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence

from tidemill.common import Duration, Row, Time, Types, WatermarkStrategy
from tidemill.datastream import ProcessWindowFunction, StreamExecutionEnvironment, TumblingEventTimeWindows
from tidemill.datastream.connectors.kafka import KafkaOffsetsInitializer, KafkaSource
from tidemill.datastream.formats.json import JsonRowDeserializationSchema

ORDER = Types.ROW_NAMED(["customer", "amount"], [Types.STRING(), Types.DOUBLE()])
TOTAL = Types.TUPLE([Types.STRING(), Types.LONG(), Types.DOUBLE()])


class Total(ProcessWindowFunction):
    """Emits (customer, start of the minute, sum)."""

    def process(
        self, key: str, context: ProcessWindowFunction.Context, elements: Iterable[Row]
    ) -> Iterable[tuple[str, int, float]]:
        yield key, context.window().start, sum(order.amount for order in elements)


def main(arguments: Sequence[str] | None = None) -> list[tuple[str, int, float]]:
    """Run the program and return the results that it printed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("servers")
    parser.add_argument("topic")
    parser.add_argument("--follow", action="store_true")
    options = parser.parse_args(arguments)

    builder = (
        KafkaSource.builder()
        .set_bootstrap_servers(options.servers)
        .set_topics(options.topic)
        .set_starting_offsets(KafkaOffsetsInitializer.earliest())
        .set_value_only_deserializer(JsonRowDeserializationSchema.builder().type_info(ORDER).build())
    )
    if not options.follow:
        builder.set_bounded(KafkaOffsetsInitializer.latest())
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(5))

    env = StreamExecutionEnvironment.get_execution_environment()
    totals = (
        env.from_source(builder.build(), strategy.with_idleness(Duration.of_seconds(10)), "orders")
        .key_by(lambda order: order.customer, Types.STRING())
        .window(TumblingEventTimeWindows.of(Time.minutes(1)))
        .process(Total(), TOTAL)
    )
    printed = []
    with totals.execute_and_collect("orders by minute") as results:
        for customer, minute, total in results:
            print(f"{customer}, minute {minute // 60_000 % 60}: {total:.2f}")
            printed.append((customer, minute, total))
    return printed


if __name__ == "__main__":
    main()
