import argparse

from pyflink.common import Types, WatermarkStrategy
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.connectors.jdbc import JdbcConnectionOptions, JdbcExecutionOptions, JdbcSink
from pyflink.datastream.connectors.kafka import KafkaOffsetsInitializer, KafkaSource
from pyflink.datastream.formats.json import JsonRowDeserializationSchema


def main(args):
    env = StreamExecutionEnvironment.get_execution_environment()
    env.enable_checkpointing(args.interval)
    row_type = Types.ROW_NAMED(["id", "title", "price"], [Types.INT(), Types.STRING(), Types.DOUBLE()])
    source = KafkaSource.builder().set_bootstrap_servers(args.brokers).set_topics(args.topic) \
        .set_group_id("books").set_starting_offsets(KafkaOffsetsInitializer.latest()) \
        .set_value_only_deserializer(
            JsonRowDeserializationSchema.builder().type_info(row_type).build()).build()
    books = env.from_source(source, WatermarkStrategy.no_watermarks(), "books", type_info=row_type)
    books.filter(lambda row: row.price > 0).add_sink(
        JdbcSink.sink(
            "INSERT INTO books (id, title, price) VALUES (?, ?, ?)",
            row_type,
            JdbcConnectionOptions.JdbcConnectionOptionsBuilder()
            .with_url(args.url)
            .with_driver_name('org.postgresql.Driver')
            .with_user_name('flink')
            .with_password('flink')
            .build(),
            JdbcExecutionOptions.builder()
            .with_batch_interval_ms(1000)
            .with_batch_size(200)
            .with_max_retries(5)
            .build()))
    env.execute("books to database")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--topic", required=True)
    parser.add_argument("--brokers", default="localhost:9092")
    parser.add_argument("--url", default="jdbc:postgresql://localhost:5432/library")
    parser.add_argument("--interval", type=int, default=30000)
    main(parser.parse_args())
