from pyflink.common import Time, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.functions import AggregateFunction
from pyflink.datastream.window import SlidingEventTimeWindows


class Mean(AggregateFunction):
    def create_accumulator(self):
        return 0.0, 0

    def add(self, value, accumulator):
        return accumulator[0] + value[1], accumulator[1] + 1

    def get_result(self, accumulator):
        return accumulator[0] / accumulator[1]

    def merge(self, a, b):
        return a[0] + b[0], a[1] + b[1]


class Second(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[2] * 1000


if __name__ == "__main__":
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    ds = env.from_collection(
        [("s1", 10.0, 1), ("s1", 20.0, 4), ("s1", 30.0, 7), ("s2", 5.0, 8), ("s1", 40.0, 12)],
        Types.TUPLE([Types.STRING(), Types.DOUBLE(), Types.LONG()]))
    ds.assign_timestamps_and_watermarks(
        WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Second())) \
        .key_by(lambda x: x[0], Types.STRING()) \
        .window(SlidingEventTimeWindows.of(Time.seconds(10), Time.seconds(5))) \
        .aggregate(Mean(), output_type=Types.DOUBLE()) \
        .print()
    env.execute("sliding means")
