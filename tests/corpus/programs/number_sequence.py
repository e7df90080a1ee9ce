from pyflink.common import Types, WatermarkStrategy
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.connectors.number_seq import NumberSequenceSource

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
numbers = env.from_source(source=NumberSequenceSource(1, 20),
                          watermark_strategy=WatermarkStrategy.for_monotonous_timestamps(),
                          source_name='numbers', type_info=Types.LONG())
numbers.map(lambda n: (n % 3, n), output_type=Types.TUPLE([Types.LONG(), Types.LONG()])) \
    .key_by(lambda t: t[0], key_type=Types.LONG()) \
    .reduce(lambda a, b: (a[0], a[1] + b[1])) \
    .filter(lambda t: t[1] > 50) \
    .print()
env.execute("sums")
