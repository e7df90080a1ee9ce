from pyflink.common import Types, Time, Duration
from pyflink.common.watermark_strategy import TimestampAssigner, WatermarkStrategy
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.window import TumblingEventTimeWindows


class EventTimestamp(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[0]


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
pairs = [(1, 10), (6, 20), (2, 5), (14, 1)]
env.from_collection(pairs, type_info=Types.TUPLE([Types.LONG(), Types.INT()])) \
    .assign_timestamps_and_watermarks(WatermarkStrategy
                                      .for_bounded_out_of_orderness(Duration.of_millis(3))
                                      .with_timestamp_assigner(EventTimestamp())) \
    .key_by(lambda v: "all", key_type=Types.STRING()) \
    .window(TumblingEventTimeWindows.of(Time.milliseconds(5))) \
    .allowed_lateness(10) \
    .reduce(lambda a, b: (max(a[0], b[0]), a[1] + b[1])) \
    .print()
env.execute("lateness")
