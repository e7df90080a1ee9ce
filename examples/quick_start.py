"""Reads the orders of a shop forever, and adds up the earnings of each product: the program of docs/quick-start.md.

tidemill run examples/quick_start.py                        # writes checkpoints below ./quick-start
tidemill run examples/quick_start.py --directory /data/shop
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from tidemill.common import Configuration, Types, WatermarkStrategy
from tidemill.datastream import KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment, ValueStateDescriptor
from tidemill.datastream.connectors.datagen import DataGeneratorSource, RateLimiterStrategy

PRODUCTS = ("tea", "coffee", "cocoa", "milk", "honey")
ORDER = Types.TUPLE([Types.STRING(), Types.LONG()])  # the product, and the price paid, in cents
EARNED = ValueStateDescriptor("earned", Types.TUPLE([Types.LONG(), Types.LONG()]))  # the number of orders, and cents
EARNED.set_queryable("earnings")


def order(number: int) -> tuple[str, int]:
    """Return the order with this number. It is always the same, so that it can be read again after a failure."""
    return PRODUCTS[number % 13 % len(PRODUCTS)], 100 + number * 37 % 900


class Earnings(KeyedProcessFunction):
    """Adds up the orders of each product, and emits a line for every thousandth order."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.earned = runtime_context.get_state(EARNED)

    def process_element(self, value: tuple[str, int], ctx: KeyedProcessFunction.Context) -> Iterator[str]:
        product, paid = value
        orders, cents = self.earned.value() or (0, 0)
        orders, cents = orders + 1, cents + paid
        self.earned.update((orders, cents))
        if orders % 1000 == 0:
            yield f"{product}: {orders} orders, {cents / 100:.2f} earned"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--directory", type=Path, default=Path("quick-start"), help="directory for its files")
    directory = parser.parse_args().directory.absolute()

    configuration = Configuration()
    configuration.set_string("execution.checkpointing.dir", str(directory / "checkpoints"))
    configuration.set_string("execution.checkpointing.savepoint-dir", str(directory / "savepoints"))
    configuration.set_string("execution.epoch.min-interval", "500 ms")
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    source = DataGeneratorSource(order, None, RateLimiterStrategy.per_second(500), ORDER)
    orders = env.from_source(source, WatermarkStrategy.no_watermarks(), "orders").uid("orders")
    lines = orders.key_by(lambda paid: paid[0], Types.STRING()).process(Earnings(), Types.STRING()).uid("earnings")
    lines.print().uid("print")
    env.execute("shop")


if __name__ == "__main__":
    main()
