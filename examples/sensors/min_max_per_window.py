"""A reduce function with a window function: the lowest and highest temperature, with the end of the window.

The reduce function combines readings as they arrive, so that the window contains a single record. The
ProcessWindowFunction receives that record, and has access to the window.

Run it with ``python -m examples.sensors.min_max_per_window``; ``--target local`` runs it in this process, without
Spark.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from examples.support.sensors import readings
from examples.support.target import environment
from tidemill.common import Duration
from tidemill.datastream import ProcessWindowFunction, TumblingEventTimeWindows

MinMax = tuple[str, float, float]


def wider(one: MinMax, other: MinMax) -> MinMax:
    return one[0], min(one[1], other[1]), max(one[2], other[2])


class WithEnd(ProcessWindowFunction):
    """Adds the end of the window."""

    def process(
        self, key: str, context: ProcessWindowFunction.Context, elements: Iterable[MinMax]
    ) -> Iterator[tuple[int, str, float, float]]:
        [(sensor, lowest, highest)] = elements
        yield context.window().end, sensor, lowest, highest


def main(arguments: Sequence[str] | None = None) -> None:
    env = environment(__doc__, arguments)
    ranges = readings(env).map(lambda reading: (reading.sensor, reading.degrees, reading.degrees))
    five_seconds = TumblingEventTimeWindows.of(Duration.of_seconds(5))
    results = ranges.key_by(0).window(five_seconds).reduce(wider, WithEnd()).uid("ranges")
    for end, sensor, lowest, highest in sorted(results.execute_and_collect("min and max per window")):
        print(f"until {end / 1000:g} s: {sensor} from {lowest} to {highest}")


if __name__ == "__main__":
    main()
