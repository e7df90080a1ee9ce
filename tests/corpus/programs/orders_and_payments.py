from pyflink.common import Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import StreamExecutionEnvironment, OutputTag
from pyflink.datastream.functions import KeyedCoProcessFunction
from pyflink.datastream.state import ValueStateDescriptor

UNPAID = OutputTag("unpaid", Types.STRING())


class TimeOf(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


class Match(KeyedCoProcessFunction):
    def open(self, runtime_context):
        self.order = runtime_context.get_state(ValueStateDescriptor("order", Types.LONG()))
        self.payment = runtime_context.get_state(ValueStateDescriptor("payment", Types.LONG()))

    def process_element1(self, value, ctx: KeyedCoProcessFunction.Context):
        if self.payment.value() is not None:
            yield "%s paid" % value[0]
            self.payment.clear()
        else:
            self.order.update(value[1])
            ctx.timer_service().register_event_time_timer(value[1] + 5000)

    def process_element2(self, value, ctx: KeyedCoProcessFunction.Context):
        if self.order.value() is not None:
            yield "%s paid" % value[0]
            ctx.timer_service().delete_event_time_timer(self.order.value() + 5000)
            self.order.clear()
        else:
            self.payment.update(value[1])
            ctx.timer_service().register_event_time_timer(value[1] + 5000)

    def on_timer(self, timestamp, ctx: KeyedCoProcessFunction.OnTimerContext):
        if self.order.value() is not None:
            yield UNPAID, "%s not paid" % ctx.get_current_key()
        if self.payment.value() is not None:
            yield UNPAID, "%s without order" % ctx.get_current_key()


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
types = Types.TUPLE([Types.STRING(), Types.LONG()])
strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(TimeOf())
orders = env.from_collection([("o1", 1000), ("o2", 2000), ("o3", 3000)], types).assign_timestamps_and_watermarks(strategy)
payments = env.from_collection([("o1", 2500), ("o9", 2600)], types).assign_timestamps_and_watermarks(strategy)
matched = orders.key_by(lambda o: o[0], Types.STRING()) \
    .connect(payments.key_by(lambda p: p[0], Types.STRING())) \
    .process(Match(), Types.STRING())
matched.print()
matched.get_side_output(UNPAID).print()
env.execute("orders and payments")
