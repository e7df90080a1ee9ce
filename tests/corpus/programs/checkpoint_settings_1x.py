import tempfile

from pyflink.common import RestartStrategies, Types
from pyflink.datastream import (CheckpointConfig, CheckpointingMode, EmbeddedRocksDBStateBackend,
                                ExternalizedCheckpointCleanup, FileSystemCheckpointStorage,
                                StreamExecutionEnvironment)

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
env.set_restart_strategy(RestartStrategies.fixed_delay_restart(3, 10000))
env.set_state_backend(EmbeddedRocksDBStateBackend())
env.enable_checkpointing(10000)
config = env.get_checkpoint_config()
config.set_checkpointing_mode(CheckpointingMode.EXACTLY_ONCE)
config.set_checkpoint_storage(FileSystemCheckpointStorage("file://" + tempfile.mkdtemp()))
config.enable_externalized_checkpoints(ExternalizedCheckpointCleanup.RETAIN_ON_CANCELLATION)
print(config.get_checkpoint_interval())
env.from_collection([3, 1, 2], Types.INT()).map(lambda x: (0, x), Types.TUPLE([Types.INT(), Types.INT()])) \
    .key_by(lambda x: x[0]).reduce(lambda a, b: (0, a[1] + b[1])).print()
env.execute("1.x settings")
