"""Orders of a shop, for ever, and what each product has earned so far: the program of docs/quick-start.md.

tidemill run examples/quick_start.py                        # checkpoints go below ./quick-start
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
ORDER = Types.TUPLE([Types.STRING(), Types.LONG()])  # a product, and what was paid for it, in cents
EARNED = ValueStateDescriptor("earned", Types.TUPLE([Types.LONG(), Types.LONG()]))  # orders, and cents
EARNED.set_queryable("earnings")


def order(number: int) -> tuple[str, int]:
    """The order with this number: always the same one, so that it can be read again after a failure."""
    return PRODUCTS[number % 13 % len(PRODUCTS)], 100 + number * 37 % 900


class Earnings(KeyedProcessFunction):
    """Adds up the orders of each product; tells of each thousandth."""

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
    parser.add_argument("--directory", type=Path, default=Path("quick-start"), help="where its files go")
    directory = parser.parse_args().directory.absolute()

    configuration = Configuration()
    configuration.set_string("execution.checkpointing.dir", str(directory / "checkpoints"))
    configuration.set_string("execution.checkpointing.savepoint-dir", str(directory / "savepoints"))
    configuration.set_string("execution.epoch.min-interval", "500 ms")
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    source = DataGeneratorSource(order, None, RateLimiterStrategy.per_second(500), ORDER)
    orders = env.from_source(source, WatermarkStrategy.no_watermarks(), "orders").uid("orders")
    told = orders.key_by(lambda paid: paid[0], Types.STRING()).process(Earnings(), Types.STRING()).uid("earnings")
    told.print().uid("told")
    env.execute("shop")


if __name__ == "__main__":
    main()
