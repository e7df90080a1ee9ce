"""Readings of two temperature sensors, for the programs of examples/sensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from tidemill.common import Duration, WatermarkStrategy
from tidemill.datastream import DataStream, StreamExecutionEnvironment


class Reading(NamedTuple):
    """A temperature in degrees; ``at`` is the event time in milliseconds."""

    sensor: str
    at: int
    degrees: float


#: In the order of arrival. A few are out of order, none by more than two seconds.
READINGS: Final = [
    Reading("roof", 1_000, 20.0),
    Reading("cellar", 1_500, 12.0),
    Reading("roof", 4_000, 21.0),
    Reading("roof", 3_000, 19.0),
    Reading("cellar", 6_000, 12.5),
    Reading("roof", 8_000, 24.0),
    Reading("cellar", 7_500, 11.5),
    Reading("roof", 9_000, 26.0),
    Reading("roof", 21_000, 25.0),
    Reading("roof", 23_000, 22.0),
    Reading("cellar", 24_000, 13.0),
]


def by_time(stream: DataStream, bound_ms: int = 2_000) -> DataStream:
    """Assign event time from the field ``at``. Records may be out of order by at most ``bound_ms``."""
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(bound_ms)).with_timestamp_assigner(
        lambda record, _: record.at
    )
    return stream.assign_timestamps_and_watermarks(strategy).set_parallelism(1)


def readings(env: StreamExecutionEnvironment, records: Sequence[Reading] = READINGS) -> DataStream:
    """A stream of readings with their event time."""
    return by_time(env.from_collection(records))
