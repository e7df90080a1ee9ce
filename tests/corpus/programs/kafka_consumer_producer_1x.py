import logging
import sys

from pyflink.common import Types
from pyflink.common.serialization import SimpleStringSchema
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.connectors import FlinkKafkaConsumer, FlinkKafkaProducer


def read_and_write(env):
    properties = {'bootstrap.servers': 'localhost:9092', 'group.id': 'test_group_1'}
    consumer = FlinkKafkaConsumer(topics='input', deserialization_schema=SimpleStringSchema(), properties=properties)
    consumer.set_start_from_earliest()
    producer = FlinkKafkaProducer(topic='output', serialization_schema=SimpleStringSchema(),
                                  producer_config={'bootstrap.servers': 'localhost:9092'})
    env.add_source(consumer).map(lambda s: s.upper(), output_type=Types.STRING()).add_sink(producer)
    env.execute()


if __name__ == '__main__':
    logging.basicConfig(stream=sys.stdout, level=logging.INFO, format="%(message)s")
    env = StreamExecutionEnvironment.get_execution_environment()
    env.add_jars("file:///path/to/flink-sql-connector-kafka-1.15.0.jar")
    read_and_write(env)
