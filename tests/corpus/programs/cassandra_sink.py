from pyflink.common import Types
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.connectors.cassandra import CassandraSink

env = StreamExecutionEnvironment.get_execution_environment()
users = env.from_collection([("ann", 1), ("bob", 2)], Types.TUPLE([Types.STRING(), Types.INT()]))
CassandraSink.add_sink(users) \
    .set_query("INSERT INTO site.users (name, visits) VALUES (?, ?)") \
    .set_host("127.0.0.1", 9042) \
    .build()
env.execute("users")
