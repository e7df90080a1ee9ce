from pyflink.common import Types
from pyflink.datastream import MapFunction, RuntimeContext, StreamExecutionEnvironment


class Tokenizer(MapFunction):

    def __init__(self, stop_words):
        self.stop_words = stop_words
        self.counter = None
        self.prefix = None

    def open(self, runtime_context: RuntimeContext):
        self.counter = runtime_context.get_metrics_group().add_group("words").counter("dropped")
        self.prefix = "%d/%d " % (runtime_context.get_index_of_this_subtask(),
                                  runtime_context.get_number_of_parallel_subtasks())

    def map(self, value: str):
        kept = []
        for word in value.split():
            if word in self.stop_words:
                self.counter.inc()
            else:
                kept.append(word)
        return self.prefix + " ".join(kept)

    def close(self):
        self.prefix = None


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
env.from_collection(["the cat and the hat", "and so on"], Types.STRING()) \
    .map(Tokenizer({"the", "and"}), output_type=Types.STRING()) \
    .print()
env.execute("tokens")
