"""Value state: the lowest price of each product so far.

Run it with ``python -m examples.state.value_state``; ``--target local`` runs it in this process, without Spark.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from examples.support.target import environment
from tidemill.common import Types
from tidemill.datastream import KeyedProcessFunction, RuntimeContext, ValueStateDescriptor

PRICES = [("tea", 21), ("rice", 4), ("tea", 18), ("tea", 19), ("rice", 5), ("tea", 12)]


class LowestPrice(KeyedProcessFunction):
    """Reports for each price whether it is the lowest so far."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.lowest = runtime_context.get_state(ValueStateDescriptor("lowest", Types.LONG()))

    def process_element(self, value: tuple[str, int], ctx: KeyedProcessFunction.Context) -> Iterator[str]:
        product, price = value
        lowest = self.lowest.value()  # None for a product that is new
        if lowest is None or price < lowest:
            self.lowest.update(price)
            yield f"{product} for {price}: the lowest price so far"
        else:
            yield f"{product} for {price}: it was {lowest} before"


def main(arguments: Sequence[str] | None = None) -> None:
    env = environment(__doc__, arguments)
    reports = env.from_collection(PRICES).key_by(0).process(LowestPrice()).uid("lowest-price")
    for line in sorted(reports.execute_and_collect("value state"), key=lambda line: line.partition(" ")[0]):
        print(line)  # grouped by product, in the order of its prices


if __name__ == "__main__":
    main()
