"""Connected streams: joins orders with the price of their product, using state that both inputs share.

Run it with ``python -m examples.connected_streams``; ``--target local`` runs it in this process, without Spark.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence

from tidemill.common import Configuration, Types
from tidemill.datastream import KeyedCoProcessFunction, RuntimeContext, StreamExecutionEnvironment
from tidemill.datastream.state import ListStateDescriptor, ValueStateDescriptor

ORDERS = [("tea", 3), ("salt", 1), ("tea", 2), ("rice", 10)]  # product, pieces
PRICES = [{"product": "tea", "price": 4}, {"product": "rice", "price": 2}]


class PriceOrders(KeyedCoProcessFunction):
    """Prices orders. Whichever input arrives first waits in state: orders in a list, the price as a value."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.waiting = runtime_context.get_list_state(ListStateDescriptor("waiting", Types.LONG()))
        self.price = runtime_context.get_state(ValueStateDescriptor("price", Types.LONG()))

    def process_element1(self, value: tuple[str, int], ctx: KeyedCoProcessFunction.Context) -> Iterator[str]:
        product, pieces = value
        if self.price.value() is None:
            self.waiting.add(pieces)
        else:
            yield f"{pieces} {product} for {pieces * self.price.value()}"

    def process_element2(self, value: dict[str, int], ctx: KeyedCoProcessFunction.Context) -> Iterator[str]:
        self.price.update(value["price"])
        for pieces in self.waiting:
            yield f"{pieces} {ctx.get_current_key()} for {pieces * value['price']}"
        self.waiting.clear()


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", choices=["spark", "local"], default="spark", help="where to run")
    configuration = Configuration().set_string("execution.target", parser.parse_args(arguments).target)
    env = StreamExecutionEnvironment.get_execution_environment(configuration).set_parallelism(2)
    orders, prices = env.from_collection(ORDERS), env.from_collection(PRICES)
    priced = orders.connect(prices).key_by(0, "product").process(PriceOrders()).uid("price-orders")
    for line in sorted(priced.execute_and_collect("connected streams")):  # the order of the inputs is not guaranteed
        print(line)


if __name__ == "__main__":
    main()
