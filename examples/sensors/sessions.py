"""Session windows: the periods in which a sensor was active, that is, sent readings at most five seconds apart.

Run it with ``python -m examples.sensors.sessions``; ``--target local`` runs it in this process, without Spark.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from examples.support.sensors import Reading, readings
from examples.support.target import environment
from tidemill.common import Duration
from tidemill.datastream import EventTimeSessionWindows, ProcessWindowFunction

SILENCE = Duration.of_seconds(5)


class Session(ProcessWindowFunction):
    """Emits the start of a session, the time of its last reading, and the number of readings."""

    def process(
        self, key: str, context: ProcessWindowFunction.Context, elements: Iterable[Reading]
    ) -> Iterator[tuple[str, int, int, int]]:
        window = context.window()
        yield key, window.start, window.end - SILENCE.to_millis(), len(list(elements))


def main(arguments: Sequence[str] | None = None) -> None:
    env = environment(__doc__, arguments)
    by_sensor = readings(env).key_by("sensor")
    sessions = by_sensor.window(EventTimeSessionWindows.with_gap(SILENCE)).process(Session()).uid("sessions")
    for sensor, first, last, count in sorted(sessions.execute_and_collect("sessions")):
        print(f"{sensor}: {count} readings from {first / 1000:g} s to {last / 1000:g} s")


if __name__ == "__main__":
    main()
