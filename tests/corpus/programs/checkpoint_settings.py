import tempfile

from pyflink.common import Configuration, Types
from pyflink.datastream import (CheckpointingMode, EmbeddedRocksDBStateBackend, ExternalizedCheckpointRetention,
                                StreamExecutionEnvironment)

checkpoints = "file://" + tempfile.mkdtemp()
config = Configuration()
config.set_string("execution.checkpointing.dir", checkpoints)
config.set_string("state.backend.type", "rocksdb")
config.set_string("restart-strategy.type", "fixed-delay")
config.set_string("restart-strategy.fixed-delay.attempts", "3")
config.set_string("restart-strategy.fixed-delay.delay", "1 s")

env = StreamExecutionEnvironment.get_execution_environment(config)
env.set_parallelism(1)
env.enable_checkpointing(5000, CheckpointingMode.EXACTLY_ONCE)
checkpointing = env.get_checkpoint_config()
checkpointing.set_min_pause_between_checkpoints(500)
checkpointing.set_checkpoint_timeout(60000)
checkpointing.set_tolerable_checkpoint_failure_number(2)
checkpointing.set_max_concurrent_checkpoints(1)
checkpointing.set_externalized_checkpoint_retention(ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION)
checkpointing.enable_unaligned_checkpoints()

print(checkpointing.get_checkpoint_interval(), checkpointing.get_min_pause_between_checkpoints(),
      checkpointing.get_checkpointing_mode() == CheckpointingMode.EXACTLY_ONCE,
      checkpointing.get_max_concurrent_checkpoints())
env.from_collection(["x", "y", "x"], Types.STRING()) \
    .map(lambda v: (v, 1), Types.TUPLE([Types.STRING(), Types.INT()])) \
    .key_by(lambda v: v[0]) \
    .sum(1) \
    .print()
env.execute("checkpointed")
