from pyflink.common import Types, Time, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import StreamExecutionEnvironment, ProcessWindowFunction
from pyflink.datastream.window import TumblingEventTimeWindows


class TripTime(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


class Label(ProcessWindowFunction):
    def process(self, key, context, elements):
        for longest in elements:
            yield "%s: longest trip until %d took %.1f" % (key, context.window().end, longest[2])


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
trips = [("green", 1000, 3.5), ("yellow", 2000, 1.0), ("green", 3000, 8.25), ("green", 61000, 2.0), ("yellow", 70000, 4.0)]
(env.from_collection(trips, type_info=Types.TUPLE([Types.STRING(), Types.LONG(), Types.DOUBLE()]))
    .assign_timestamps_and_watermarks(
        WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(TripTime()))
    .key_by(lambda t: t[0], key_type=Types.STRING())
    .window(TumblingEventTimeWindows.of(Time.minutes(1)))
    .reduce(lambda a, b: a if a[2] >= b[2] else b, window_function=Label(), output_type=Types.STRING())
    .print())
env.execute("trips")
