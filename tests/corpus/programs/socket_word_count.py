import sys

from pyflink.common import Types
from pyflink.datastream import StreamExecutionEnvironment

if __name__ == "__main__":
    host, port = sys.argv[1], int(sys.argv[2])
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    from pyflink.common.watermark_strategy import WatermarkStrategy
    lines = env.from_collection(["connecting to %s:%d" % (host, port)], Types.STRING())
    lines.flat_map(lambda line: line.split(), Types.STRING()).print()
    env.execute("Socket words")
