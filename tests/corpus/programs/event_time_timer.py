from pyflink.common import Types, WatermarkStrategy, Duration
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.functions import KeyedProcessFunction, RuntimeContext
from pyflink.datastream.state import ValueStateDescriptor


class Sum(KeyedProcessFunction):

    def __init__(self):
        self.state = None

    def open(self, runtime_context: RuntimeContext):
        self.state = runtime_context.get_state(ValueStateDescriptor("sum", Types.LONG()))

    def process_element(self, value, ctx: 'KeyedProcessFunction.Context'):
        current = self.state.value() or 0
        self.state.update(current + value[2])
        ctx.timer_service().register_event_time_timer(ctx.timestamp() + 2000)
        yield "element %s at %d" % (value[1], ctx.timestamp())

    def on_timer(self, timestamp: int, ctx: 'KeyedProcessFunction.OnTimerContext'):
        yield "timer of %s at %d: %d" % (ctx.get_current_key(), timestamp, self.state.value())


class FirstField(TimestampAssigner):

    def extract_timestamp(self, value, record_timestamp: int) -> int:
        return int(value[0])


def run():
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    data = [(1000, 'Alice', 110), (4000, 'Bob', 30), (3000, 'Alice', 20), (2000, 'Bob', 53),
            (5000, 'Alice', 13), (3000, 'Bob', 3), (7000, 'Bob', 26), (10000, 'Alice', 97)]
    ds = env.from_collection(data, type_info=Types.TUPLE([Types.LONG(), Types.STRING(), Types.INT()]))
    ds.assign_timestamps_and_watermarks(
        WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(2))
                         .with_timestamp_assigner(FirstField())) \
        .key_by(lambda value: value[1]) \
        .process(Sum(), output_type=Types.STRING()) \
        .print()
    env.execute()


if __name__ == '__main__':
    run()
