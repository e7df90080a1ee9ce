from pyflink.common import Types
from pyflink.datastream import StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
tuple_type = Types.TUPLE([Types.STRING(), Types.INT()])
eu = env.from_collection([("eu", 3), ("eu", 5)], type_info=tuple_type)
us = env.from_collection([("us", 8)], type_info=tuple_type)
asia = env.from_collection([("asia", 1), ("asia", 13), ("eu", 100)], type_info=tuple_type)
eu.union(us, asia).key_by(lambda x: x[0]).max(1).print()
eu.union(us).map(lambda x: x[1], output_type=Types.INT()).filter(lambda x: x > 3).print()
env.execute()
