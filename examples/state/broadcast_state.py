"""Broadcast state: amounts are converted with exchange rates that every subtask holds.

In BATCH mode all rates come before the first amount. In STREAMING mode no side is promised to come first: a function
then keeps what it cannot convert yet, or, as ``keyed_broadcast_state`` does, looks at it again when a rate comes.

Run it with ``python -m examples.state.broadcast_state``; ``--target local`` runs it in this process, without Spark.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from examples.support.target import environment
from tidemill.common import Types
from tidemill.datastream import BroadcastProcessFunction, MapStateDescriptor

AMOUNTS = [(100, "CHF"), (70, "USD"), (30, "NOK"), (2000, "JPY"), (10, "USD")]
RATES = [("USD", 0.9), ("CHF", 1.05), ("JPY", 0.0062), ("USD", 0.92)]  # the second rate replaces the first
DESCRIPTOR = MapStateDescriptor("rates", Types.STRING(), Types.DOUBLE())


class Convert(BroadcastProcessFunction):
    """Amounts in euros."""

    def process_element(self, value: tuple[int, str], ctx: BroadcastProcessFunction.ReadOnlyContext) -> Iterator[str]:
        amount, currency = value
        rate = ctx.get_broadcast_state(DESCRIPTOR).get(currency)  # here it can only be read
        yield f"{amount} {currency}: " + ("no rate" if rate is None else f"{amount * rate:.2f} EUR")

    def process_broadcast_element(self, value: tuple[str, float], ctx: BroadcastProcessFunction.Context) -> None:
        ctx.get_broadcast_state(DESCRIPTOR).put(*value)


def main(arguments: Sequence[str] | None = None) -> None:
    env = environment(__doc__, arguments, {"execution.runtime-mode": "BATCH"})
    rates = env.from_collection(RATES).broadcast(DESCRIPTOR)
    converted = env.from_collection(AMOUNTS).rebalance().connect(rates).process(Convert()).uid("convert")
    for line in sorted(converted.execute_and_collect("broadcast state")):
        print(line)


if __name__ == "__main__":
    main()
