"""An interval join: finds alarms that occurred at most three seconds after a reading of 24 degrees or more.

Run it with ``python -m examples.sensors.interval_join``; ``--target local`` runs it in this process, without Spark.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from examples.support.sensors import Reading, by_time, readings
from examples.support.target import environment
from tidemill.common import Duration
from tidemill.datastream import ProcessJoinFunction


class Alarm(NamedTuple):
    """An alarm about a sensor."""

    sensor: str
    at: int


ALARMS = [Alarm("cellar", 8_000), Alarm("roof", 10_000), Alarm("roof", 22_000)]


class Explain(ProcessJoinFunction):
    """Emits the time between a reading and its alarm."""

    def process_element(self, left: Reading, right: Alarm, ctx: ProcessJoinFunction.Context) -> Iterator[str]:
        yield f"{right.sensor}: alarm {right.at - left.at} ms after {left.degrees} degrees"


def main(arguments: Sequence[str] | None = None) -> None:
    env = environment(__doc__, arguments)
    hot = readings(env).filter(lambda reading: reading.degrees >= 24).key_by("sensor")
    alarms = by_time(env.from_collection(ALARMS)).key_by("sensor")
    within = hot.interval_join(alarms).between(Duration.of_seconds(0), Duration.of_seconds(3))
    for line in sorted(within.process(Explain()).uid("explain").execute_and_collect("interval join")):
        print(line)


if __name__ == "__main__":
    main()
