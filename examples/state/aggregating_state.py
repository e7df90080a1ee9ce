"""Aggregating state: the mean of all measurements of a sensor. It stores an accumulator, and returns the result.

Run it with ``python -m examples.state.aggregating_state``; ``--target local`` runs it in this process, without Spark.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

from examples.support.target import environment
from tidemill.common import Types
from tidemill.datastream import AggregateFunction, AggregatingStateDescriptor, KeyedProcessFunction, RuntimeContext

TEMPERATURES = [("roof", 3), ("cellar", 12), ("roof", 5), ("roof", 4), ("cellar", 14), ("roof", 12)]
CountAndSum: TypeAlias = tuple[int, int]


class Mean(AggregateFunction):
    """Computes the mean of the added values."""

    def create_accumulator(self) -> CountAndSum:
        return 0, 0

    def add(self, value: int, accumulator: CountAndSum) -> CountAndSum:
        return accumulator[0] + 1, accumulator[1] + value

    def get_result(self, accumulator: CountAndSum) -> float:
        return accumulator[1] / accumulator[0]

    def merge(self, acc_a: CountAndSum, acc_b: CountAndSum) -> CountAndSum:
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


class Warmer(KeyedProcessFunction):
    """Reports measurements that are above the mean of the previous ones."""

    def open(self, runtime_context: RuntimeContext) -> None:
        accumulator = Types.TUPLE([Types.LONG(), Types.LONG()])
        self.mean = runtime_context.get_aggregating_state(AggregatingStateDescriptor("mean", Mean(), accumulator))

    def process_element(self, value: tuple[str, int], ctx: KeyedProcessFunction.Context) -> Iterator[str]:
        mean = self.mean.get()  # None before the first measurement
        if mean is not None and value[1] > mean:
            yield f"{value[0]}: {value[1]} is more than {mean}"
        self.mean.add(value[1])


def main(arguments: Sequence[str] | None = None) -> None:
    env = environment(__doc__, arguments)
    warmer = env.from_collection(TEMPERATURES).key_by(0).process(Warmer()).uid("warmer")
    for line in sorted(warmer.execute_and_collect("aggregating state"), key=lambda line: line.partition(":")[0]):
        print(line)


if __name__ == "__main__":
    main()
