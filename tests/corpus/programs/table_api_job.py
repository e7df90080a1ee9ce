from pyflink.datastream import StreamExecutionEnvironment
from pyflink.table import StreamTableEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
t_env = StreamTableEnvironment.create(env)
t_env.execute_sql("CREATE TABLE numbers (n INT) WITH ('connector' = 'datagen', 'number-of-rows' = '3')")
t_env.execute_sql("SELECT n FROM numbers").print()
