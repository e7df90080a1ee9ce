"""Late data: a window accepts late readings for a while, and readings that arrive even later go to a side output.

The sensors send a mark after each group of readings, and only these marks advance event time. It is therefore
deterministic which readings are late, and by how much.

Run it with ``python -m examples.sensors.late_readings``; ``--target local`` runs it in this process, without Spark.
"""

from __future__ import annotations

from collections.abc import Sequence

from examples.support.sensors import Reading
from examples.support.target import environment
from tidemill.common import Duration, Watermark, WatermarkGenerator, WatermarkOutput, WatermarkStrategy
from tidemill.datastream import OutputTag, TumblingEventTimeWindows

MARK = "mark"
READINGS = [
    Reading("roof", 1_000, 20.0),
    Reading("roof", 4_000, 22.0),
    Reading(MARK, 6_000, 0.0),
    Reading("roof", 2_000, 25.0),  # its window has fired, but is kept for two more seconds: it fires again
    Reading("roof", 7_000, 21.0),
    Reading(MARK, 8_000, 0.0),
    Reading("roof", 3_000, 30.0),  # its window has been removed
    Reading("roof", 9_000, 23.0),
]
LATE = OutputTag("late")


class OnMark(WatermarkGenerator):
    """Advances event time with each mark."""

    def on_event(self, event: Reading, event_timestamp: int, output: WatermarkOutput) -> None:
        if event.sensor == MARK:
            output.emit_watermark(Watermark(event_timestamp))

    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        """Emit nothing: only marks advance event time."""


def warmer(one: Reading, other: Reading) -> Reading:
    return max(one, other, key=lambda reading: reading.degrees)


def main(arguments: Sequence[str] | None = None) -> None:
    env = environment(__doc__, arguments).set_parallelism(1)
    by_marks = WatermarkStrategy.for_generator(OnMark).with_timestamp_assigner(lambda reading, _: reading.at)
    stream = env.from_collection(READINGS).assign_timestamps_and_watermarks(by_marks)
    warmest = (
        stream.filter(lambda reading: reading.sensor != MARK)
        .key_by("sensor")
        .window(TumblingEventTimeWindows.of(Duration.of_seconds(5)))
        .allowed_lateness(Duration.of_seconds(2))
        .side_output_late_data(LATE)
        .reduce(warmer)
        .uid("warmest")
    )
    late = warmest.get_side_output(LATE).map(lambda reading: (reading.at, "too late", reading.degrees))
    results = warmest.map(lambda reading: (reading.at, "warmest", reading.degrees)).union(late)
    for at, what, degrees in sorted(results.execute_and_collect("late readings"), key=lambda result: result[1:]):
        print(f"{what}: {degrees} degrees of second {at / 1000:g}")


if __name__ == "__main__":
    main()
