"""Broadcast state: converts amounts with exchange rates that are available in every subtask.

In BATCH mode, all rates arrive before the first amount. In STREAMING mode, the order of the two inputs is not
guaranteed: a function then has to keep amounts that it cannot convert yet, or, as in ``keyed_broadcast_state``,
re-evaluate its state when a broadcast element arrives.

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
    """Converts amounts to euros."""

    def process_element(self, value: tuple[int, str], ctx: BroadcastProcessFunction.ReadOnlyContext) -> Iterator[str]:
        amount, currency = value
        rate = ctx.get_broadcast_state(DESCRIPTOR).get(currency)  # read-only on this side
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
