from pyflink.common import Types
from pyflink.datastream import StreamExecutionEnvironment, RuntimeExecutionMode

env = StreamExecutionEnvironment.get_execution_environment()
env.set_runtime_mode(RuntimeExecutionMode.BATCH)
env.set_parallelism(2)

data = ["to be or not to be", "that is the question", "to be"]
result = env.from_collection(data) \
    .flat_map(lambda line: line.split(' '), output_type=Types.STRING()) \
    .map(lambda w: (w, 1), output_type=Types.TUPLE([Types.STRING(), Types.INT()])) \
    .key_by(lambda t: t[0]) \
    .reduce(lambda a, b: (a[0], a[1] + b[1]))

with result.execute_and_collect() as rows:
    for row in sorted(rows):
        print(row)
