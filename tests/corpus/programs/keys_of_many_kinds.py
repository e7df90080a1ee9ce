from pyflink.common import Row, Types
from pyflink.datastream import StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
kind = Types.ROW_NAMED(["shop", "day", "amount"], [Types.STRING(), Types.INT(), Types.INT()])
sales = env.from_collection([Row("a", 1, 5), Row("b", 1, 7), Row("a", 2, 1), Row("a", 1, 2), Row("b", 2, 9)], kind)


def add(x, y):
    return Row(x[0], x[1], x[2] + y[2])


sales.key_by(lambda r: r.shop, Types.STRING()).reduce(add).print()
sales.key_by(lambda r: Row(r.shop, r.day), Types.ROW([Types.STRING(), Types.INT()])).reduce(add).print()
sales.key_by(lambda r: r.day % 2 == 0, Types.BOOLEAN()).reduce(add).print()
sales.key_by(lambda r: (r.day, r.shop)).sum("amount").print()
env.execute("keys")
