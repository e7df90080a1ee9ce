"""Sessionisation without windows: events are kept in state, a timer closes the session."""
from pyflink.common import Duration, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.functions import KeyedProcessFunction
from pyflink.datastream.state import ListStateDescriptor, ValueStateDescriptor

GAP = 30 * 60 * 1000


class EventTime(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value['ts']


class Sessions(KeyedProcessFunction):
    def open(self, ctx):
        self.pages = ctx.get_list_state(ListStateDescriptor('pages', Types.STRING()))
        self.timer = ctx.get_state(ValueStateDescriptor('timer', Types.LONG()))

    def process_element(self, value, ctx):
        self.pages.add(value['page'])
        timer = self.timer.value()
        if timer is not None:
            ctx.timer_service().delete_event_time_timer(timer)
        timer = value['ts'] + GAP
        ctx.timer_service().register_event_time_timer(timer)
        self.timer.update(timer)

    def on_timer(self, timestamp, ctx):
        pages = list(self.pages.get())
        yield ctx.get_current_key(), len(pages), '>'.join(pages)
        self.pages.clear()
        self.timer.clear()


def main():
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    minute = 60 * 1000
    visits = [('u1', 0, 'home'), ('u2', 1, 'home'), ('u1', 5, 'cart'), ('u1', 50, 'home'), ('u2', 20, 'help')]
    events = [{'user': user, 'ts': at * minute, 'page': page} for user, at, page in visits]
    env.from_collection(events) \
        .assign_timestamps_and_watermarks(
            WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_minutes(40))
            .with_timestamp_assigner(EventTime())) \
        .key_by(lambda e: e['user']) \
        .process(Sessions(), Types.TUPLE([Types.STRING(), Types.INT(), Types.STRING()])) \
        .print()
    env.execute('sessions')


if __name__ == '__main__':
    main()
