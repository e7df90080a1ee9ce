from pyflink.common.typeinfo import Types
from pyflink.datastream import StreamExecutionEnvironment


def word_count():
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    lines = env.from_collection(
        ["the quick brown fox", "jumps over the lazy dog", "the end"], type_info=Types.STRING()
    )
    lines.flat_map(lambda line: line.split(), output_type=Types.STRING()) \
        .map(lambda word: (word, 1), output_type=Types.TUPLE([Types.STRING(), Types.INT()])) \
        .key_by(lambda pair: pair[0], key_type=Types.STRING()) \
        .reduce(lambda a, b: (a[0], a[1] + b[1])) \
        .print()
    env.execute("word_count")


if __name__ == '__main__':
    word_count()
