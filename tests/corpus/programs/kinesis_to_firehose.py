from pyflink.common import SimpleStringSchema
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.connectors.kinesis import (FlinkKinesisConsumer, KinesisFirehoseSink, KinesisStreamsSink,
                                                   PartitionKeyGenerator)

env = StreamExecutionEnvironment.get_execution_environment()
config = {"aws.region": "eu-central-1", "flink.stream.initpos": "TRIM_HORIZON"}
events = env.add_source(FlinkKinesisConsumer("clicks", SimpleStringSchema(), config))
events.sink_to(KinesisStreamsSink.builder()
               .set_kinesis_client_properties({"aws.region": "eu-central-1"})
               .set_serialization_schema(SimpleStringSchema())
               .set_partition_key_generator(PartitionKeyGenerator.random())
               .set_stream_name("clean-clicks").build())
events.sink_to(KinesisFirehoseSink.builder()
               .set_firehose_client_properties({"aws.region": "eu-central-1"})
               .set_serialization_schema(SimpleStringSchema())
               .set_delivery_stream_name("archive").build())
env.execute("clicks")
