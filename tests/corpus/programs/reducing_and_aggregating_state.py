from pyflink.common import Types
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.functions import AggregateFunction, KeyedProcessFunction, ReduceFunction
from pyflink.datastream.state import AggregatingStateDescriptor, ReducingStateDescriptor


class Add(ReduceFunction):
    def reduce(self, value1, value2):
        return value1 + value2


class Average(AggregateFunction):
    def create_accumulator(self):
        return (0, 0)

    def add(self, value, accumulator):
        return accumulator[0] + value, accumulator[1] + 1

    def get_result(self, accumulator):
        return accumulator[0] / accumulator[1]

    def merge(self, acc_a, acc_b):
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


class Track(KeyedProcessFunction):
    def open(self, runtime_context):
        self.total = runtime_context.get_reducing_state(ReducingStateDescriptor("total", Add(), Types.INT()))
        self.mean = runtime_context.get_aggregating_state(
            AggregatingStateDescriptor("mean", Average(), Types.TUPLE([Types.INT(), Types.INT()])))

    def process_element(self, value, ctx):
        self.total.add(value[1])
        self.mean.add(value[1])
        yield value[0], self.total.get(), self.mean.get()


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
env.from_collection([("a", 1), ("b", 10), ("a", 4), ("b", 20), ("a", 7)],
                    type_info=Types.TUPLE([Types.STRING(), Types.INT()])) \
    .key_by(lambda x: x[0], Types.STRING()) \
    .process(Track(), Types.TUPLE([Types.STRING(), Types.INT(), Types.DOUBLE()])) \
    .print()
env.execute("states")
