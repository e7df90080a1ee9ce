"""Reducing state: the balance of each account, which is the sum of its bookings. Only the sum is kept.

Run it with ``python -m examples.state.reducing_state``; ``--target local`` runs it in this process, without Spark.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import add

from examples.support.target import environment
from tidemill.common import Types
from tidemill.datastream import KeyedProcessFunction, ReducingStateDescriptor, RuntimeContext

BOOKINGS = [("ann", 50), ("bob", 20), ("ann", -70), ("bob", 5), ("ann", 30), ("bob", -40)]


class Overdrawn(KeyedProcessFunction):
    """Warns of accounts below zero."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.balance = runtime_context.get_reducing_state(ReducingStateDescriptor("balance", add, Types.LONG()))

    def process_element(self, value: tuple[str, int], ctx: KeyedProcessFunction.Context) -> Iterator[str]:
        self.balance.add(value[1])
        if self.balance.get() < 0:
            yield f"{ctx.get_current_key()} is overdrawn: {self.balance.get()}"


def main(arguments: Sequence[str] | None = None) -> None:
    env = environment(__doc__, arguments)
    warnings = env.from_collection(BOOKINGS).key_by(0).process(Overdrawn()).uid("overdrawn")
    for line in sorted(warnings.execute_and_collect("reducing state")):
        print(line)


if __name__ == "__main__":
    main()
