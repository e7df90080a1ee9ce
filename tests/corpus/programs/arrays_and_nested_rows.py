from pyflink.common import Row
from pyflink.common.typeinfo import Types
from pyflink.datastream import StreamExecutionEnvironment

point = Types.ROW_NAMED(["x", "y"], [Types.INT(), Types.INT()])
shape = Types.ROW_NAMED(["name", "center", "corners"],
                        [Types.STRING(), point, Types.OBJECT_ARRAY(point)])

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
shapes = env.from_collection([
    Row("square", Row(1, 1), [Row(0, 0), Row(2, 2)]),
    Row("line", Row(5, 0), [Row(0, 0), Row(10, 0)]),
], type_info=shape)
shapes.map(lambda s: (s.name, s.center.x, sum(c.x for c in s.corners)),
           output_type=Types.TUPLE([Types.STRING(), Types.INT(), Types.INT()])).print()
shapes.map(lambda s: [c.y for c in s.corners], output_type=Types.BASIC_ARRAY(Types.INT())) \
    .map(lambda ys: ",".join(str(y) for y in ys), output_type=Types.STRING()).print()
env.execute("shapes")
