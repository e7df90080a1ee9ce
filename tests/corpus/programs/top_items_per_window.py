from typing import Iterable

from pyflink.common import Types, WatermarkStrategy, Duration
from pyflink.common.time import Time
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import StreamExecutionEnvironment, ProcessWindowFunction, AggregateFunction
from pyflink.datastream.window import TumblingEventTimeWindows


class At(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp: int) -> int:
        return value[1]


class Count(AggregateFunction):
    def create_accumulator(self): return 0
    def add(self, value, accumulator): return accumulator + 1
    def get_result(self, accumulator): return accumulator
    def merge(self, a, b): return a + b


class WithWindow(ProcessWindowFunction):
    def process(self, key, context, elements: Iterable[int]):
        yield key, context.window().end, next(iter(elements))


class Top(ProcessWindowFunction):
    def __init__(self, n):
        self.n = n

    def process(self, key, context, elements):
        best = sorted(elements, key=lambda e: (-e[2], e[0]))[:self.n]
        yield "until %d: %s" % (context.window().end, ", ".join("%s=%d" % (e[0], e[2]) for e in best))


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
views = [("tv", 100), ("phone", 200), ("tv", 900), ("book", 950), ("phone", 960), ("tv", 990), ("book", 1100), ("book", 1999)]
env.from_collection(views, Types.TUPLE([Types.STRING(), Types.LONG()])) \
    .assign_timestamps_and_watermarks(
        WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(10)).with_timestamp_assigner(At())) \
    .key_by(lambda v: v[0], key_type=Types.STRING()) \
    .window(TumblingEventTimeWindows.of(Time.seconds(1))) \
    .aggregate(Count(), window_function=WithWindow(), accumulator_type=Types.LONG(),
               output_type=Types.TUPLE([Types.STRING(), Types.LONG(), Types.LONG()])) \
    .key_by(lambda c: c[1], Types.LONG()) \
    .window(TumblingEventTimeWindows.of(Time.seconds(1))) \
    .process(Top(2), Types.STRING()) \
    .print()
env.execute("top items")
