from pyflink.common import Duration, Types
from pyflink.common.watermark_strategy import TimestampAssigner, WatermarkStrategy
from pyflink.datastream import ProcessFunction, StreamExecutionEnvironment


class Event(object):
    def __init__(self, name, at):
        self.name = name
        self.at = at


class EventTimestampAssigner(TimestampAssigner):
    def extract_timestamp(self, value: Event, record_timestamp: int) -> int:
        return value.at


class ShowTime(ProcessFunction):
    def process_element(self, value, ctx: 'ProcessFunction.Context'):
        yield "%s at %d" % (value.name, ctx.timestamp())


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
env.get_config().set_auto_watermark_interval(50)
strategy = WatermarkStrategy \
    .for_bounded_out_of_orderness(Duration.of_seconds(1)) \
    .with_timestamp_assigner(EventTimestampAssigner()) \
    .with_idleness(Duration.of_seconds(10))
env.from_collection([Event("first", 1000), Event("third", 3000), Event("second", 2000)]) \
    .assign_timestamps_and_watermarks(strategy) \
    .process(ShowTime(), output_type=Types.STRING()) \
    .print()
env.execute("event times")
