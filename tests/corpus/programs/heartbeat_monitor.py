from pyflink.common import Types, WatermarkStrategy, Duration
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from pyflink.datastream.state import ValueStateDescriptor

TIMEOUT = 30


class HeartbeatTime(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


class Monitor(KeyedProcessFunction):
    def open(self, runtime_context):
        self.last = runtime_context.get_state(ValueStateDescriptor("last", Types.LONG()))

    def process_element(self, value, ctx):
        last = self.last.value()
        if last is None or value[1] > last:
            self.last.update(value[1])
        ctx.timer_service().register_event_time_timer(value[1] + TIMEOUT)

    def on_timer(self, timestamp, ctx):
        if timestamp == self.last.value() + TIMEOUT:
            yield "%s silent since %d" % (ctx.get_current_key(), self.last.value())


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
beats = [("m1", 0), ("m2", 5), ("m1", 20), ("m2", 90), ("m1", 40), ("m2", 100)]
env.from_collection(beats, type_info=Types.TUPLE([Types.STRING(), Types.LONG()])) \
    .assign_timestamps_and_watermarks(WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(100))
                                      .with_timestamp_assigner(HeartbeatTime())) \
    .key_by(lambda b: b[0]) \
    .process(Monitor(), output_type=Types.STRING()) \
    .print()
env.execute("heartbeats")
