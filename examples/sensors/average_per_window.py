"""Tumbling windows with an AggregateFunction: the mean temperature of each sensor in each five-second window.

A window keeps only a sum and a count, regardless of the number of readings.

Run it with ``python -m examples.sensors.average_per_window``; ``--target local`` runs it in this process, without
Spark.
"""

from __future__ import annotations

from collections.abc import Sequence

from examples.support.sensors import Reading, readings
from examples.support.target import environment
from tidemill.common import Duration
from tidemill.datastream import AggregateFunction, TumblingEventTimeWindows

Sums = tuple[str, float, int]


class Mean(AggregateFunction):
    """Computes the mean temperature, and adds the sensor's name."""

    def create_accumulator(self) -> Sums:
        return "", 0.0, 0

    def add(self, value: Reading, accumulator: Sums) -> Sums:
        return value.sensor, accumulator[1] + value.degrees, accumulator[2] + 1

    def get_result(self, accumulator: Sums) -> str:
        sensor, degrees, count = accumulator
        return f"{sensor}: {degrees / count:.2f} degrees on average, of {count}"

    def merge(self, acc_a: Sums, acc_b: Sums) -> Sums:
        return acc_a[0], acc_a[1] + acc_b[1], acc_a[2] + acc_b[2]


def main(arguments: Sequence[str] | None = None) -> None:
    env = environment(__doc__, arguments)
    five_seconds = TumblingEventTimeWindows.of(Duration.of_seconds(5))
    means = readings(env).key_by("sensor").window(five_seconds).aggregate(Mean()).uid("means")
    for line in sorted(means.execute_and_collect("average per window")):
        print(line)


if __name__ == "__main__":
    main()
