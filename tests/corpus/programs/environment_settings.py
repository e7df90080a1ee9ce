from pyflink.common import Configuration, Types
from pyflink.datastream import StreamExecutionEnvironment

config = Configuration()
config.set_integer("parallelism.default", 2)
config.set_string("pipeline.name", "configured")
config.set_boolean("pipeline.object-reuse", False)
config.set_string("taskmanager.memory.process.size", "1728m")
env = StreamExecutionEnvironment.get_execution_environment(configuration=config)
env.set_max_parallelism(64)
env.set_buffer_timeout(10)
print(env.get_parallelism(), env.get_max_parallelism())

stream = env.from_collection([1, 2, 3, 4], Types.INT()) \
    .map(lambda x: x + 1, Types.INT()).name("increment").uid("increment").set_parallelism(1) \
    .map(lambda x: x * 10, Types.INT()).name("multiply").disable_chaining() \
    .filter(lambda x: x > 20).slot_sharing_group("default").set_parallelism(2)
print(stream.get_name())
stream.print().name("printing").set_parallelism(1)
env.execute()
