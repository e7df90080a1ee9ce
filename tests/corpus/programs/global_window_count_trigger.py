from pyflink.common import Types
from pyflink.datastream import StreamExecutionEnvironment, ProcessWindowFunction
from pyflink.datastream.window import CountTrigger, GlobalWindows, PurgingTrigger


class Batch(ProcessWindowFunction):
    def process(self, key, context, elements):
        yield key + ":" + "+".join(str(e[1]) for e in elements)


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
keyed = env.from_collection([("a", i) for i in range(5)] + [("b", i) for i in range(3)],
                            type_info=Types.TUPLE([Types.STRING(), Types.INT()])) \
    .key_by(lambda e: e[0], Types.STRING())
keyed.window(GlobalWindows.create()) \
    .trigger(PurgingTrigger.of(CountTrigger.of(2))) \
    .process(Batch(), Types.STRING()) \
    .print()
keyed.window(GlobalWindows.create()) \
    .trigger(CountTrigger.of(2)) \
    .process(Batch(), Types.STRING()) \
    .map(lambda s: "all " + s, Types.STRING()) \
    .print()
env.execute()
