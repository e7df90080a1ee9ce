"""Splits readings with map and flat_map: a pair of a tag and a value goes to a side output, as in process functions."""
from pyflink.common import Types
from pyflink.datastream import OutputTag, StreamExecutionEnvironment
from pyflink.datastream.functions import FlatMapFunction, MapFunction, ReduceFunction

BROKEN = OutputTag("broken")
HOT = OutputTag("hot", Types.STRING())
LETTERS = OutputTag("letters", Types.STRING())


class Parse(MapFunction):
    def map(self, value):
        name, _, reading = value.partition("=")
        try:
            number = float(reading)
        except ValueError as e:
            return BROKEN, ValueError(f"{name}: {e}")
        if number > 50:
            return HOT, f"{name} {number}"
        return name, number


class Letters(FlatMapFunction):
    def flat_map(self, value):
        for letter in value[0]:
            yield LETTERS, letter
        yield value[0], len(value[0])


class Longest(ReduceFunction):
    def reduce(self, value1, value2):
        return max(value1, value2)


def main():
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    lines = env.from_collection(["ab=1.5", "c=x", "ab=70", "d=2", "ab=3"], type_info=Types.STRING())
    parsed = lines.map(Parse()).name("parse")
    parsed.get_side_output(BROKEN).map(lambda e: type(e).__name__ + " " + str(e)).name("broken").print("broken")
    parsed.get_side_output(HOT).print("hot")
    sized = parsed.flat_map(Letters(), output_type=Types.TUPLE([Types.STRING(), Types.INT()]))
    sized.get_side_output(LETTERS).print("letter")
    sized.key_by(lambda v: v[0]).reduce(Longest()).print("sized")
    env.execute("side outputs of map")


if __name__ == "__main__":
    main()
