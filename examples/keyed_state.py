"""The five kinds of keyed state: value, list, map, reducing and aggregating. Each is scoped to the current key.

Run it with ``python -m examples.keyed_state``; ``--target local`` runs it in this process, without Spark.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence

from tidemill.common import Configuration, Types
from tidemill.datastream import AggregateFunction, KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment
from tidemill.datastream import state as st

TEMPERATURES = [("roof", 3), ("cellar", 12), ("roof", 5), ("roof", 3), ("cellar", 14), ("roof", 9)]


class Mean(AggregateFunction):
    """Computes the mean of the added values. The accumulator is (count, sum)."""

    def create_accumulator(self) -> tuple[int, int]:
        return 0, 0

    def add(self, value: int, accumulator: tuple[int, int]) -> tuple[int, int]:
        return accumulator[0] + 1, accumulator[1] + value

    def get_result(self, accumulator: tuple[int, int]) -> float:
        return accumulator[1] / accumulator[0]

    def merge(self, acc_a: tuple[int, int], acc_b: tuple[int, int]) -> tuple[int, int]:
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


class Statistics(KeyedProcessFunction):
    """Keeps one state of each kind per sensor, and reports all of them with every measurement."""

    def open(self, runtime_context: RuntimeContext) -> None:
        context, number = runtime_context, Types.LONG()
        self.last = context.get_state(st.ValueStateDescriptor("last", number))
        self.history = context.get_list_state(st.ListStateDescriptor("history", number))
        self.seen = context.get_map_state(st.MapStateDescriptor("seen", number, number))
        self.highest = context.get_reducing_state(st.ReducingStateDescriptor("highest", max, number))
        self.mean = context.get_aggregating_state(st.AggregatingStateDescriptor("mean", Mean()))

    def process_element(self, value: tuple[str, int], ctx: KeyedProcessFunction.Context) -> Iterator[str]:
        sensor, now = value
        change = now - (self.last.value() or now)
        self.last.update(now)
        self.seen.put(now, (self.seen.get(now) or 0) + 1)
        for state in (self.history, self.highest, self.mean):
            state.add(now)
        counts, highest, mean = dict(self.seen.items()), self.highest.get(), self.mean.get()
        yield f"{sensor} {now}: {change=} history={list(self.history)} {counts=} {highest=} {mean=}"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", choices=["spark", "local"], default="spark", help="where to run")
    configuration = Configuration().set_string("execution.target", parser.parse_args(arguments).target)
    env = StreamExecutionEnvironment.get_execution_environment(configuration).set_parallelism(2)
    env.from_collection(TEMPERATURES).key_by(0).process(Statistics()).uid("statistics").print()
    env.execute("keyed state")


if __name__ == "__main__":
    main()
