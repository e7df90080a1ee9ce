"""List state: collects orders in a list until there are enough for a delivery.

Run it with ``python -m examples.state.list_state``; ``--target local`` runs it in this process, without Spark.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from examples.support.target import environment
from tidemill.common import Types
from tidemill.datastream import KeyedProcessFunction, ListStateDescriptor, RuntimeContext

ORDERS = [
    ("north", "bread"),
    ("south", "salt"),
    ("north", "milk"),
    ("north", "eggs"),
    ("south", "oil"),
    ("north", "tea"),
]
VAN = 3


class Deliver(KeyedProcessFunction):
    """Sends a van to a district for every three orders."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.waiting = runtime_context.get_list_state(ListStateDescriptor("waiting", Types.STRING()))

    def process_element(self, value: tuple[str, str], ctx: KeyedProcessFunction.Context) -> Iterator[str]:
        self.waiting.add(value[1])  # the cost does not depend on the length of the list
        orders = list(self.waiting)
        if len(orders) == VAN:
            yield f"{ctx.get_current_key()}: {', '.join(orders)}"
            self.waiting.clear()


def main(arguments: Sequence[str] | None = None) -> None:
    env = environment(__doc__, arguments)
    deliveries = env.from_collection(ORDERS).key_by(0).process(Deliver()).uid("deliver")
    for line in sorted(deliveries.execute_and_collect("list state")):
        print(line)


if __name__ == "__main__":
    main()
