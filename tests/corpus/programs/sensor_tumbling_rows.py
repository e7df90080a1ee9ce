from typing import Iterable

from pyflink.common import Types, Row, WatermarkStrategy, Duration
from pyflink.common.time import Time
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.functions import ProcessWindowFunction
from pyflink.datastream.window import TumblingEventTimeWindows, TimeWindow


class ReadingTime(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value.ts


class Stats(ProcessWindowFunction[Row, Row, str, TimeWindow]):
    def process(self, key: str, context: ProcessWindowFunction.Context, elements: Iterable[Row]) -> Iterable[Row]:
        values = [e.temperature for e in elements]
        window = context.window()
        yield Row(key, window.start, window.end, len(values), max(values))


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
schema = Types.ROW_NAMED(["sensor", "temperature", "ts"], [Types.STRING(), Types.DOUBLE(), Types.LONG()])
rows = [Row("a", 20.5, 1000), Row("b", 18.0, 2000), Row("a", 21.5, 4999), Row("a", 22.25, 5000), Row("b", 17.5, 11000)]
readings = env.from_collection(rows, type_info=schema)
strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(500)) \
    .with_timestamp_assigner(ReadingTime())
readings.assign_timestamps_and_watermarks(strategy) \
    .key_by(lambda r: r.sensor, key_type=Types.STRING()) \
    .window(TumblingEventTimeWindows.of(Time.seconds(5))) \
    .process(Stats(), Types.ROW_NAMED(["sensor", "start", "end", "count", "max"],
                                      [Types.STRING(), Types.LONG(), Types.LONG(), Types.INT(), Types.DOUBLE()])) \
    .print()
env.execute()
