from pyflink.common.serialization import SimpleStringSchema
from pyflink.common.typeinfo import Types
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.connectors.rabbitmq import RMQConnectionConfig, RMQSource

env = StreamExecutionEnvironment.get_execution_environment()
env.enable_checkpointing(1000)
connection = RMQConnectionConfig.Builder() \
    .set_host("localhost").set_port(5672).set_virtual_host("/") \
    .set_user_name("guest").set_password("guest").build()
env.add_source(RMQSource(connection, "jobs", True, SimpleStringSchema())) \
    .set_parallelism(1) \
    .map(lambda s: s.split(";")[0], Types.STRING()) \
    .print()
env.execute("jobs")
