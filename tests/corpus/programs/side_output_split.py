from pyflink.common import Types
from pyflink.datastream import OutputTag, ProcessFunction, StreamExecutionEnvironment

EVEN = OutputTag("even", Types.INT())
BIG = OutputTag("big", Types.STRING())


class Route(ProcessFunction):
    def process_element(self, value, ctx: 'ProcessFunction.Context'):
        if value % 2 == 0:
            yield EVEN, value
        if value > 7:
            yield BIG, "big " + str(value)
        yield value


def main():
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    main_stream = env.from_collection(range(1, 11), Types.INT()).process(Route(), Types.INT())
    main_stream.map(lambda v: "main " + str(v), Types.STRING()).print()
    main_stream.get_side_output(EVEN).map(lambda v: "even " + str(v), Types.STRING()).print()
    main_stream.get_side_output(BIG).print()
    env.execute()


main()
