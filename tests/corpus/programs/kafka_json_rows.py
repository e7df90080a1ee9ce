from pyflink.common import Duration, Types, WatermarkStrategy, Row
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.common.time import Time
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.connectors.kafka import (KafkaOffsetsInitializer, KafkaOffsetResetStrategy,
                                                 KafkaRecordSerializationSchema, KafkaSink, KafkaSource)
from pyflink.datastream.formats.json import JsonRowDeserializationSchema, JsonRowSerializationSchema
from pyflink.datastream.window import TumblingEventTimeWindows


class ReadingTimestamp(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value["ts"]


reading = Types.ROW_NAMED(["device", "value", "ts"], [Types.STRING(), Types.DOUBLE(), Types.LONG()])
env = StreamExecutionEnvironment.get_execution_environment()
source = KafkaSource.builder() \
    .set_bootstrap_servers("localhost:9092") \
    .set_topics("readings", "readings-old") \
    .set_group_id("averages") \
    .set_starting_offsets(KafkaOffsetsInitializer.committed_offsets(KafkaOffsetResetStrategy.EARLIEST)) \
    .set_value_only_deserializer(JsonRowDeserializationSchema.builder().type_info(reading).build()) \
    .build()
sink = KafkaSink.builder() \
    .set_bootstrap_servers("localhost:9092") \
    .set_record_serializer(
        KafkaRecordSerializationSchema.builder().set_topic("maxima")
        .set_value_serialization_schema(JsonRowSerializationSchema.builder().with_type_info(reading).build())
        .build()) \
    .build()
strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(20)) \
    .with_timestamp_assigner(ReadingTimestamp()).with_idleness(Duration.of_minutes(1))
env.from_source(source, strategy, "readings", type_info=reading) \
    .key_by(lambda r: r["device"]) \
    .window(TumblingEventTimeWindows.of(Time.minutes(1))) \
    .reduce(lambda a, b: a if a["value"] >= b["value"] else b) \
    .map(lambda r: Row(r["device"], r["value"], r["ts"]), output_type=reading) \
    .sink_to(sink)
env.execute("maxima of readings")
