from pyflink.common import Types
from pyflink.datastream import StreamExecutionEnvironment, Partitioner, KeySelector


class ByRemainder(Partitioner):
    def partition(self, key: int, num_partitions: int) -> int:
        return key % num_partitions


class Last(KeySelector):
    def get_key(self, value):
        return value[1]


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(2)
numbered = env.from_collection([("a", 1), ("b", 2), ("c", 3), ("d", 4)],
                               Types.TUPLE([Types.STRING(), Types.INT()]))
kinds = Types.TUPLE([Types.STRING(), Types.INT()])
numbered.rebalance().map(lambda v: ("rebalance " + v[0], v[1]), kinds).print()
numbered.shuffle().map(lambda v: ("shuffle " + v[0], v[1]), kinds).print()
numbered.rescale().map(lambda v: ("rescale " + v[0], v[1]), kinds).print()
numbered.broadcast().map(lambda v: ("broadcast " + v[0], v[1]), kinds).print()
numbered.partition_custom(ByRemainder(), Last()).map(lambda v: ("custom " + v[0], v[1]), kinds).print()
numbered.map(lambda v: v, kinds).set_parallelism(1).rescale() \
    .map(lambda v: ("global " + v[0], v[1]), kinds).forward().map(lambda v: ("forward " + v[0], v[1]), kinds).print()
env.execute("partitioning")
