"""Functions that return lists instead of generators, delegate to others, and drop what they cannot parse."""
import json
import operator
from typing import NamedTuple

from pyflink.common import Types, WatermarkStrategy
from pyflink.common.time import Duration
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import KeyedProcessFunction, ProcessFunction, StreamExecutionEnvironment
from pyflink.datastream.state import ValueStateDescriptor


class Ride(NamedTuple):
    taxi: str
    at: int
    fare: float


def parse(line):
    try:
        parsed = json.loads(line)
        return Ride(parsed["taxi"], int(parsed["at"]), float(parsed["fare"])) if isinstance(parsed, dict) else None
    except (KeyError, ValueError):
        return None


class ByTime(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value.at


class Pairs(ProcessFunction):
    waiting = []

    def open(self, runtime_context):
        self.waiting = []

    def process_element(self, value, ctx):
        self.waiting.append(value.fare)
        if len(self.waiting) < 2:
            return []
        pair, self.waiting = self.waiting, []
        return [tuple(pair)]


class Watch(KeyedProcessFunction):
    def open(self, runtime_context):
        self.last = runtime_context.get_state(ValueStateDescriptor("last", Types.STRING()))

    def process_element(self, value, ctx):
        yield from self._ride(value, ctx)

    def _ride(self, value, ctx):
        self.last.update(json.dumps(value._asdict()))
        ctx.timer_service().register_event_time_timer(ctx.timestamp() + 100)
        yield {"ride": value.taxi, "at": ctx.timestamp()}

    def on_timer(self, timestamp, ctx):
        if self.last.value() is None:
            return
        yield {"quiet since": json.loads(self.last.value())["at"], "taxi": ctx.get_current_key()}
        self.last.clear()

    def close(self):
        if getattr(self, "connection", None):
            self.connection.close()


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
lines = ['{"taxi": "t1", "at": 100, "fare": "7.5"}', "[]", "no json", '{"taxi": "t1", "at": 150, "fare": 3}',
         '{"taxi": "t2"}', '{"taxi": "t1", "at": 900, "fare": 4}', '{"taxi": "t1", "at": 950, "fare": 1}']
rides = env.from_collection(lines, Types.STRING()).map(parse).filter(lambda ride: ride is not None)
rides = rides.assign_timestamps_and_watermarks(
    WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(10)).with_timestamp_assigner(ByTime()))
rides.process(Pairs()).print("pair")
rides.key_by(operator.attrgetter("taxi")).process(Watch()).map(json.dumps, Types.STRING()).print("watch")
env.execute("rides")
