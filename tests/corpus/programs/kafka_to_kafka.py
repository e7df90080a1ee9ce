import json
import logging
import os
import sys

from pyflink.common import SimpleStringSchema, Types, WatermarkStrategy
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.connectors.base import DeliveryGuarantee
from pyflink.datastream.connectors.kafka import (KafkaOffsetsInitializer, KafkaRecordSerializationSchema, KafkaSink,
                                                 KafkaSource)

BROKERS = os.getenv("KAFKA_BROKERS", "localhost:9092")


def main():
    logging.basicConfig(stream=sys.stdout, level=logging.INFO, format="%(message)s")
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(2)
    env.enable_checkpointing(10000)
    env.add_jars("file:///opt/flink/jars/flink-sql-connector-kafka-3.1.0-1.18.jar")

    source = KafkaSource.builder() \
        .set_bootstrap_servers(BROKERS) \
        .set_topics("orders") \
        .set_group_id("order-router") \
        .set_starting_offsets(KafkaOffsetsInitializer.earliest()) \
        .set_value_only_deserializer(SimpleStringSchema()) \
        .set_property("partition.discovery.interval.ms", "10000") \
        .build()

    sink = KafkaSink.builder() \
        .set_bootstrap_servers(BROKERS) \
        .set_record_serializer(KafkaRecordSerializationSchema.builder()
                               .set_topic("large-orders")
                               .set_value_serialization_schema(SimpleStringSchema())
                               .build()) \
        .set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE) \
        .set_transactional_id_prefix("router") \
        .set_property("transaction.timeout.ms", "600000") \
        .build()

    env.from_source(source, WatermarkStrategy.no_watermarks(), "orders") \
        .map(json.loads) \
        .filter(lambda order: order["amount"] > 100) \
        .map(json.dumps, output_type=Types.STRING()) \
        .sink_to(sink).name("large orders")
    env.execute("Order router")


if __name__ == "__main__":
    main()
