from pyflink.common import Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.functions import KeyedBroadcastProcessFunction
from pyflink.datastream.state import ListStateDescriptor, MapStateDescriptor

RULES = MapStateDescriptor("rules", Types.STRING(), Types.INT())


class Clock(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[0]


class Evaluate(KeyedBroadcastProcessFunction):
    """Payments wait in state until the time of both inputs is complete, so that all rules are known."""

    def open(self, runtime_context):
        self.waiting = runtime_context.get_list_state(
            ListStateDescriptor("waiting", Types.TUPLE([Types.LONG(), Types.STRING(), Types.INT()])))

    def process_element(self, value, ctx: 'KeyedBroadcastProcessFunction.ReadOnlyContext'):
        self.waiting.add(value)
        ctx.timer_service().register_event_time_timer(1000)
        return []

    def process_broadcast_element(self, value, ctx: 'KeyedBroadcastProcessFunction.Context'):
        ctx.get_broadcast_state(RULES).put(value[1], value[2])
        return []

    def on_timer(self, timestamp, ctx: 'KeyedBroadcastProcessFunction.OnTimerContext'):
        rules = ctx.get_broadcast_state(RULES)
        for _, card, amount in self.waiting.get():
            for name, limit in sorted(rules.items()):
                if amount > limit:
                    yield "%s paid %d: %s" % (card, amount, name)


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Clock())
typed = Types.TUPLE([Types.LONG(), Types.STRING(), Types.INT()])
payments = env.from_collection([(1, "c1", 50), (2, "c2", 500), (3, "c1", 5000)], typed) \
    .assign_timestamps_and_watermarks(strategy)
rules = env.from_collection([(1, "high", 100), (2, "extreme", 1000)], typed) \
    .assign_timestamps_and_watermarks(strategy)
payments.key_by(lambda p: p[1], Types.STRING()) \
    .connect(rules.broadcast(RULES)) \
    .process(Evaluate(), Types.STRING()) \
    .print()
env.execute("rules")
