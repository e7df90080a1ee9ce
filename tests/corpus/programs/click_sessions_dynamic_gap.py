from pyflink.common import Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import StreamExecutionEnvironment, ProcessWindowFunction
from pyflink.datastream.window import EventTimeSessionWindows, SessionWindowTimeGapExtractor


class Assigner(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


class GapOfUser(SessionWindowTimeGapExtractor):
    def extract(self, element) -> int:
        return element[2]


class Visits(ProcessWindowFunction):
    def process(self, key, context, elements):
        pages = sorted(e[1] for e in elements)
        yield "{} [{}, {}) {}".format(key, context.window().start, context.window().end, pages)


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
clicks = [("ann", 0, 10), ("ann", 8, 10), ("bob", 5, 100), ("ann", 30, 5), ("bob", 80, 100), ("ann", 36, 5)]
env.from_collection(clicks, type_info=Types.TUPLE([Types.STRING(), Types.LONG(), Types.INT()])) \
    .assign_timestamps_and_watermarks(WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Assigner())) \
    .key_by(lambda e: e[0], Types.STRING()) \
    .window(EventTimeSessionWindows.with_dynamic_gap(GapOfUser())) \
    .process(Visits(), Types.STRING()) \
    .print()
env.execute()
