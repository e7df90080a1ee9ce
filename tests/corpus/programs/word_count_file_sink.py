import os
import tempfile

from pyflink.common import Encoder, Types
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.connectors.file_system import FileSink, OutputFileConfig, RollingPolicy

out = tempfile.mkdtemp()
env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
env.enable_checkpointing(1000)

words = env.from_collection(["a b a", "c b a"]).flat_map(lambda s: s.split(" "), Types.STRING())
counts = words.map(lambda w: (w, 1), Types.TUPLE([Types.STRING(), Types.INT()])) \
    .key_by(lambda t: t[0], Types.STRING()) \
    .reduce(lambda a, b: (a[0], a[1] + b[1]))

sink = FileSink.for_row_format(out, Encoder.simple_string_encoder("UTF-8")) \
    .with_output_file_config(OutputFileConfig.builder().with_part_prefix("words").with_part_suffix(".txt").build()) \
    .with_rolling_policy(RollingPolicy.default_rolling_policy(
        part_size=1024 ** 3, rollover_interval=15 * 60 * 1000, inactivity_interval=5 * 60 * 1000)) \
    .build()
counts.sink_to(sink)
env.execute("words to files")

for folder, _, names in os.walk(out):
    for name in names:
        print(name.startswith("words") and name.endswith(".txt"))
        with open(os.path.join(folder, name)) as file:
            print(file.read(), end="")
