from collections import deque

from pyflink.common import Row, Types
from pyflink.datastream import KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment
from pyflink.datastream.state import ListState, ListStateDescriptor


class MovingAverage(KeyedProcessFunction):
    def __init__(self, size: int):
        self.size = size
        self.prices: ListState = None

    def open(self, runtime_context: RuntimeContext):
        self.prices = runtime_context.get_list_state(ListStateDescriptor("prices", Types.FLOAT()))

    def process_element(self, value: Row, ctx: 'KeyedProcessFunction.Context'):
        window = deque(self.prices.get() or [], maxlen=self.size)
        window.append(value[1])
        self.prices.update(list(window))
        average = sum(window) / len(window)
        yield Row(value[0], average, value[1] > average)


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
ticks = env.from_collection(
    [Row("ACME", 10.0), Row("ACME", 12.0), Row("INIT", 7.5), Row("ACME", 8.0), Row("INIT", 8.5), Row("ACME", 16.0)],
    type_info=Types.ROW([Types.STRING(), Types.FLOAT()]))
ticks.key_by(lambda t: t[0]) \
    .process(MovingAverage(3), output_type=Types.ROW([Types.STRING(), Types.DOUBLE(), Types.BOOLEAN()])) \
    .print()
env.execute("moving averages")
