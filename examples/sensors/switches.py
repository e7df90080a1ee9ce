"""Two streams, state and timers: readings pass while a switch is on, and each switch turns itself off again.

The order in which the two streams are read is not defined. Records therefore wait in state for their event time, and
timers process them in the order of event time: the result does not depend on the order of arrival.

Run it with ``python -m examples.sensors.switches``; ``--target local`` runs it in this process, without Spark.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from examples.support.sensors import Reading, by_time, readings
from examples.support.target import environment
from tidemill.common import Types
from tidemill.datastream import KeyedCoProcessFunction, MapStateDescriptor, RuntimeContext, ValueStateDescriptor


class Switch(NamedTuple):
    """Lets the readings of a sensor pass for ``millis`` milliseconds, starting at ``at``."""

    sensor: str
    at: int
    millis: int


SWITCHES = [Switch("roof", 3_000, 5_000), Switch("cellar", 7_000, 1_000), Switch("roof", 22_000, 60_000)]


class LetThrough(KeyedCoProcessFunction):
    """Lets readings pass while their sensor is switched on."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.degrees = runtime_context.get_map_state(MapStateDescriptor("degrees", Types.LONG(), Types.DOUBLE()))
        self.switches = runtime_context.get_map_state(MapStateDescriptor("switches", Types.LONG(), Types.LONG()))
        self.off_at = runtime_context.get_state(ValueStateDescriptor("off at", Types.LONG()))

    def process_element1(self, value: Reading, ctx: KeyedCoProcessFunction.Context) -> None:
        self.degrees.put(value.at, value.degrees)
        ctx.timer_service().register_event_time_timer(value.at)

    def process_element2(self, value: Switch, ctx: KeyedCoProcessFunction.Context) -> None:
        self.switches.put(value.at, value.millis)
        ctx.timer_service().register_event_time_timer(value.at)

    def on_timer(self, timestamp: int, ctx: KeyedCoProcessFunction.OnTimerContext) -> Iterator[Reading]:
        if timestamp == self.off_at.value():
            self.off_at.clear()
        millis = self.switches.get(timestamp)
        if millis is not None:
            self.switches.remove(timestamp)
            self.off_at.update(timestamp + millis)
            ctx.timer_service().register_event_time_timer(timestamp + millis)
        degrees = self.degrees.get(timestamp)
        if degrees is not None:
            self.degrees.remove(timestamp)
            if self.off_at.value() is not None:
                yield Reading(ctx.get_current_key(), timestamp, degrees)


def main(arguments: Sequence[str] | None = None) -> None:
    env = environment(__doc__, arguments)
    switches = by_time(env.from_collection(SWITCHES)).key_by("sensor")
    passed = readings(env).key_by("sensor").connect(switches).process(LetThrough()).uid("let through")
    for reading in sorted(passed.execute_and_collect("switches")):
        print(f"{reading.sensor} at {reading.at / 1000:g} s: {reading.degrees}")


if __name__ == "__main__":
    main()
