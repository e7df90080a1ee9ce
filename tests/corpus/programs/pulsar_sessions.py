from pyflink.common import SimpleStringSchema, WatermarkStrategy
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.connectors.pulsar import PulsarSource, StartCursor, StopCursor

env = StreamExecutionEnvironment.get_execution_environment()
source = PulsarSource.builder() \
    .set_service_url("pulsar://localhost:6650") \
    .set_admin_url("http://localhost:8080") \
    .set_topics("visits") \
    .set_start_cursor(StartCursor.earliest()) \
    .set_unbounded_stop_cursor(StopCursor.never()) \
    .set_subscription_name("sessions") \
    .set_deserialization_schema(SimpleStringSchema()) \
    .build()
env.from_source(source, WatermarkStrategy.for_monotonous_timestamps(), "visits").print()
env.execute("visits")
