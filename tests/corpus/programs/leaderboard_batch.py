from pyflink.common import Types
from pyflink.datastream import RuntimeExecutionMode, StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
env.set_runtime_mode(RuntimeExecutionMode.BATCH)
env.set_parallelism(1)
scores = env.from_collection([("ann", 10), ("bob", 7), ("ann", 3), ("eve", 9), ("bob", 8), ("eve", 1)],
                             type_info=Types.TUPLE([Types.STRING(), Types.INT()]))
by_player = scores.key_by(lambda s: s[0], Types.STRING())
by_player.reduce(lambda a, b: (a[0], a[1] + b[1])).map(lambda s: "total %s %d" % s, Types.STRING()).print()
by_player.max(1).map(lambda s: "best %s %d" % (s[0], s[1]), Types.STRING()).print()
by_player.min_by(1).map(lambda s: "worst %s %d" % (s[0], s[1]), Types.STRING()).print()
env.execute("leaderboard")
