from pyflink.common import Types
from pyflink.datastream import StreamExecutionEnvironment, KeyedProcessFunction
from pyflink.datastream.state import ListStateDescriptor, MapStateDescriptor


class LastThree(KeyedProcessFunction):
    """Emits the mean of the last three readings."""

    def open(self, runtime_context):
        self.readings = runtime_context.get_list_state(ListStateDescriptor("readings", Types.DOUBLE()))
        self.seen = runtime_context.get_map_state(MapStateDescriptor("seen", Types.STRING(), Types.INT()))

    def process_element(self, value, ctx):
        readings = list(self.readings.get())
        readings.append(value["celsius"])
        self.readings.update(readings[-3:])
        unit = "warm" if value["celsius"] > 20 else "cold"
        self.seen.put(unit, (self.seen.get(unit) or 0) + 1)
        counts = dict(sorted(self.seen.items()))
        yield f"{ctx.get_current_key()}: {sum(readings[-3:]) / len(readings[-3:]):.2f} {counts}"


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
events = [{"id": "s%d" % (n % 2), "celsius": float(18 + n)} for n in range(8)]
env.from_collection(events).key_by(lambda e: e["id"]).process(LastThree(), Types.STRING()).print()
env.execute("readings")
