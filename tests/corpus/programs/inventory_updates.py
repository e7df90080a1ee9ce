from pyflink.common import Types
from pyflink.datastream import StreamExecutionEnvironment, CoProcessFunction, KeyedCoProcessFunction
from pyflink.datastream.state import MapStateDescriptor


class Inventory(KeyedCoProcessFunction):
    """Both inputs only add or subtract, so that their order does not matter for the last result."""

    def open(self, runtime_context):
        self.stock = runtime_context.get_map_state(MapStateDescriptor("stock", Types.STRING(), Types.INT()))
        self.seen = runtime_context.get_map_state(MapStateDescriptor("seen", Types.INT(), Types.BOOLEAN()))

    def _change(self, item, amount, event):
        self.stock.put(item, (self.stock.get(item) or 0) + amount)
        self.seen.put(event, True)
        if len([e for e in self.seen]) == 5:
            for name in sorted(self.stock.keys()):
                yield "%s: %d" % (name, self.stock.get(name))

    def process_element1(self, delivery, ctx):
        yield from self._change(delivery[1], delivery[2], delivery[3])

    def process_element2(self, sale, ctx):
        yield from self._change(sale[1], -sale[2], sale[3])


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
kind = Types.TUPLE([Types.STRING(), Types.STRING(), Types.INT(), Types.INT()])
deliveries = env.from_collection([("berlin", "lamp", 10, 1), ("berlin", "desk", 4, 2), ("berlin", "lamp", 5, 3)], kind)
sales = env.from_collection([("berlin", "lamp", 3, 4), ("berlin", "desk", 1, 5)], kind)
deliveries.key_by(lambda d: d[0], Types.STRING()).connect(sales.key_by(lambda s: s[0], Types.STRING())) \
    .process(Inventory(), Types.STRING()) \
    .print()
env.execute("inventory")
