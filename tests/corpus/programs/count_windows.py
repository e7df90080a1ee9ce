from pyflink.common import Types
from pyflink.datastream import StreamExecutionEnvironment, WindowFunction
from pyflink.datastream.window import CountWindow


class SumWindowFunction(WindowFunction[tuple, tuple, str, CountWindow]):
    def apply(self, key: str, window: CountWindow, inputs):
        result = 0
        for i in inputs:
            result += i[0]
        return [(key, result)]


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
data_stream = env.from_collection([
    (1, 'hi'), (2, 'hello'), (3, 'hi'), (4, 'hello'), (5, 'hello'), (6, 'hello'), (7, 'hi')],
    type_info=Types.TUPLE([Types.INT(), Types.STRING()]))
data_stream.key_by(lambda x: x[1], key_type=Types.STRING()) \
    .count_window(3) \
    .apply(SumWindowFunction(), Types.TUPLE([Types.STRING(), Types.INT()])) \
    .print()
env.execute('time_window_test')
