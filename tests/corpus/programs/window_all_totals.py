from pyflink.common import Types, Time, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.functions import ProcessAllWindowFunction
from pyflink.datastream.window import TumblingEventTimeWindows


class Seconds(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[0] * 1000


class Revenue(ProcessAllWindowFunction):
    def process(self, context, elements):
        elements = list(elements)
        yield (context.window().start, len(elements), round(sum(e[1] for e in elements), 2))


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
sales = env.from_collection([(1, 9.99), (4, 20.0), (9, 5.5), (10, 1.25), (31, 7.0)],
                            type_info=Types.TUPLE([Types.LONG(), Types.DOUBLE()]))
sales.assign_timestamps_and_watermarks(
    WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Seconds())) \
    .window_all(TumblingEventTimeWindows.of(Time.seconds(10))) \
    .process(Revenue(), Types.TUPLE([Types.LONG(), Types.INT(), Types.DOUBLE()])) \
    .print()
env.execute("revenue")
