import dataclasses

from pyflink.datastream import StreamExecutionEnvironment


@dataclasses.dataclass
class Order:
    number: int
    items: list = dataclasses.field(default_factory=list)
    note: str = None

    def total(self):
        return sum(price for _, price in self.items)


def discount(order):
    return dataclasses.replace(order, items=[(name, round(price * 0.9, 2)) for name, price in order.items])


if __name__ == '__main__':
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    orders = [Order(1, [("pen", 2.0), ("ink", 5.5)]), Order(2), Order(3, [("desk", 100.0)], "fragile")]
    env.from_collection(orders).map(discount).filter(lambda o: o.items) \
        .map(lambda o: (o.number, o.total(), o.note)).print()
    env.execute("orders")
