from pyflink.common import Types, Time, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import StreamExecutionEnvironment, ProcessWindowFunction
from pyflink.datastream.state import ReducingStateDescriptor, ValueStateDescriptor
from pyflink.datastream.window import TimeWindow, Trigger, TriggerResult, TumblingEventTimeWindows


class EarlyTrigger(Trigger[tuple, TimeWindow]):
    """Fires when a large value comes, and at the end of the window."""

    @staticmethod
    def of(limit):
        trigger = EarlyTrigger()
        trigger.limit = limit
        return trigger

    def on_element(self, element, timestamp, window, ctx: 'Trigger.TriggerContext') -> TriggerResult:
        seen = ctx.get_partitioned_state(ValueStateDescriptor("early", Types.BOOLEAN()))
        ctx.register_event_time_timer(window.max_timestamp())
        if element[1] >= self.limit and not seen.value():
            seen.update(True)
            return TriggerResult.FIRE
        return TriggerResult.CONTINUE

    def on_processing_time(self, time, window, ctx):
        return TriggerResult.CONTINUE

    def on_event_time(self, time, window, ctx):
        return TriggerResult.FIRE if time == window.max_timestamp() else TriggerResult.CONTINUE

    def on_merge(self, window, ctx):
        pass

    def clear(self, window, ctx):
        ctx.delete_event_time_timer(window.max_timestamp())
        ctx.get_partitioned_state(ValueStateDescriptor("early", Types.BOOLEAN())).clear()


class Show(ProcessWindowFunction):
    def process(self, key, context, elements):
        yield "%s %d %s" % (key, context.window().start, [e[1] for e in elements])


class Stamps(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[2]


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
env.from_collection([("x", 1, 1), ("x", 50, 2), ("x", 70, 3), ("y", 5, 4), ("x", 2, 12), ("x", 60, 13)],
                    Types.TUPLE([Types.STRING(), Types.INT(), Types.LONG()])) \
    .assign_timestamps_and_watermarks(
        WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Stamps())) \
    .key_by(lambda e: e[0], Types.STRING()) \
    .window(TumblingEventTimeWindows.of(Time.milliseconds(10))) \
    .trigger(EarlyTrigger.of(50)) \
    .process(Show(), Types.STRING()) \
    .print()
env.execute()
