from pyflink.common.typeinfo import Types
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.functions import FilterFunction, RuntimeContext
from pyflink.datastream.state import ValueStateDescriptor


class FirstOnly(FilterFunction):

    def __init__(self):
        self.seen = None

    def open(self, runtime_context: RuntimeContext):
        self.seen = runtime_context.get_state(ValueStateDescriptor("seen", Types.BOOLEAN()))

    def filter(self, value) -> bool:
        if self.seen.value():
            return False
        self.seen.update(True)
        return True


if __name__ == '__main__':
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    ids = env.from_collection([("e1", 1), ("e2", 2), ("e1", 3), ("e3", 4), ("e2", 5)])
    ids.key_by(lambda e: e[0]).filter(FirstOnly()).print()
    env.execute("deduplicate")
