from pyflink.common import Types
from pyflink.datastream import CoMapFunction, CoFlatMapFunction, StreamExecutionEnvironment


class Both(CoMapFunction):
    def map1(self, value):
        return 'number', value

    def map2(self, value):
        return 'text', len(value)


class Flatten(CoFlatMapFunction):
    def flat_map1(self, value):
        for i in range(value):
            yield str(i)

    def flat_map2(self, value):
        yield from value


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
numbers = env.from_collection([1, 2, 3], type_info=Types.INT())
texts = env.from_collection(['ab', 'cde'], type_info=Types.STRING())
numbers.connect(texts).map(Both(), Types.TUPLE([Types.STRING(), Types.INT()])).print()
numbers.connect(texts).flat_map(Flatten(), Types.STRING()).print()
env.execute("connect")
