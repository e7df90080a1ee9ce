from pyflink.common import Row
from pyflink.common.typeinfo import Types
from pyflink.datastream import StreamExecutionEnvironment

point = Types.ROW_NAMED(["x", "y"], [Types.INT(), Types.INT()])
shape = Types.ROW_NAMED(["name", "center", "corners"],
                        [Types.STRING(), point, Types.OBJECT_ARRAY(point)])


def parse(text):
    name, numbers = text.split(":")
    x = [int(n) for n in numbers.split(",")]
    return Row(name, Row(x[0], x[1]), [Row(x[i], x[i + 1]) for i in range(2, len(x), 2)])


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
shapes = env.from_collection(["square:1,1,0,0,2,2", "line:5,0,0,0,10,0"], Types.STRING()).map(parse, output_type=shape)
shapes.map(lambda s: (s.name, s.center.x, sum(c.x for c in s.corners)),
           output_type=Types.TUPLE([Types.STRING(), Types.INT(), Types.INT()])).print()
shapes.map(lambda s: [c.y for c in s.corners], output_type=Types.BASIC_ARRAY(Types.INT())) \
    .map(lambda ys: ",".join(str(y) for y in ys), output_type=Types.STRING()).print()
env.execute("shapes")
