from pyflink.common import Encoder, SimpleStringSchema, Types, WatermarkStrategy
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.connectors.file_system import BucketAssigner, FileSink, OutputFileConfig, RollingPolicy
from pyflink.datastream.connectors.kafka import KafkaOffsetsInitializer, KafkaSource, KafkaTopicPartition


def archive(env):
    offsets = {KafkaTopicPartition("logs", 0): 100, KafkaTopicPartition("logs", 1): 250}
    source = KafkaSource.builder() \
        .set_bootstrap_servers("broker1:9092,broker2:9092") \
        .set_topic_pattern("logs.*") \
        .set_starting_offsets(KafkaOffsetsInitializer.offsets(offsets)) \
        .set_client_id_prefix("archive") \
        .set_properties({"security.protocol": "SSL"}) \
        .set_value_only_deserializer(SimpleStringSchema("UTF-8")) \
        .build()
    sink = FileSink.for_row_format("/tmp/archive", Encoder.simple_string_encoder()) \
        .with_bucket_assigner(BucketAssigner.date_time_bucket_assigner("yyyy-MM-dd--HH", "UTC")) \
        .with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy()) \
        .with_output_file_config(OutputFileConfig.builder().with_part_suffix(".log").build()) \
        .build()
    env.from_source(source, WatermarkStrategy.for_monotonous_timestamps(), "logs") \
        .filter(lambda line: "DEBUG" not in line) \
        .map(lambda line: line.strip(), Types.STRING()) \
        .sink_to(sink)


if __name__ == "__main__":
    environment = StreamExecutionEnvironment.get_execution_environment()
    environment.enable_checkpointing(60 * 1000)
    archive(environment)
    environment.execute("archive logs")
