"""Statistics with numpy over keyed state of many kinds; numpy numbers go into state and results as they are."""
import numpy as np
from pyflink.common import Types
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.functions import AggregateFunction, KeyedProcessFunction, ReduceFunction, RuntimeContext
from pyflink.datastream.state import (AggregatingStateDescriptor, ListStateDescriptor, ReducingStateDescriptor,
                                      ValueStateDescriptor)


class Mean(AggregateFunction):
    def create_accumulator(self):
        return 0.0, 0

    def add(self, value, accumulator):
        return accumulator[0] + value, accumulator[1] + 1

    def get_result(self, accumulator):
        return accumulator[0] / accumulator[1]

    def merge(self, a, b):
        return a[0] + b[0], a[1] + b[1]


class Highest(ReduceFunction):
    def reduce(self, value1, value2):
        return max(value1, value2)


class Statistics(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext):
        self.history = runtime_context.get_list_state(ListStateDescriptor("history", Types.DOUBLE()))
        self.last = runtime_context.get_state(ValueStateDescriptor("last", Types.PICKLED_BYTE_ARRAY()))
        self.highest = runtime_context.get_reducing_state(
            ReducingStateDescriptor("highest", Highest(), Types.DOUBLE()))
        self.mean = runtime_context.get_aggregating_state(
            AggregatingStateDescriptor("mean", Mean(), Types.TUPLE([Types.DOUBLE(), Types.LONG()])))

    def process_element(self, value, ctx: "KeyedProcessFunction.Context"):
        self.history.add(np.float64(value[1]))
        self.highest.add(np.float64(value[1]))
        self.mean.add(np.float64(value[1]))
        numbers = np.array(list(self.history.get()))
        before = self.last.value()
        self.last.update(numbers)
        yield (value[0], np.mean(numbers), np.int64(len(numbers)), bool(numbers.max() > 2), self.highest.get(),
               self.mean.get(), 0 if before is None else len(before))


if __name__ == "__main__":
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    readings = env.from_collection([("a", 1.0), ("a", 2.0), ("b", 9.0), ("a", 6.0)])
    readings.key_by(lambda reading: reading[0], key_type=Types.STRING()).process(
        Statistics(),
        output_type=Types.TUPLE([Types.STRING(), Types.DOUBLE(), Types.LONG(), Types.BOOLEAN(), Types.DOUBLE(),
                                 Types.DOUBLE(), Types.INT()])).print()
    env.execute("statistics")
