from pyflink.common import Time, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import OutputTag, ProcessFunction, StreamExecutionEnvironment, ProcessWindowFunction
from pyflink.datastream.window import TumblingEventTimeWindows


class Stamp(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


class Collect(ProcessWindowFunction):
    def process(self, key, context, elements):
        yield "%s@%d: %s" % (key, context.window().end, sorted(e[1] for e in elements))


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
late = OutputTag("late", Types.TUPLE([Types.STRING(), Types.INT()]))

# 'old' events arrive when the time of the other operator cannot have advanced: nothing is late in a bounded input
stream = env.from_collection([("a", 1), ("a", 4), ("b", 7), ("a", 12), ("b", 3)],
                             Types.TUPLE([Types.STRING(), Types.INT()]))
windowed = stream \
    .assign_timestamps_and_watermarks(
        WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Stamp())) \
    .key_by(lambda e: e[0], Types.STRING()) \
    .window(TumblingEventTimeWindows.of(Time.milliseconds(5))) \
    .side_output_late_data(late) \
    .process(Collect(), Types.STRING())
windowed.print()
windowed.get_side_output(late).map(lambda e: "late %s" % (e,), Types.STRING()).print()
env.execute()
