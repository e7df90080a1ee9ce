"""The effect of background snapshots on epochs: their median time with and without, for two sizes of state."""

from __future__ import annotations

import statistics
from typing import Any

from bench.jobs import DiscardingSink, keyed_count
from bench.measure import Measurement
from bench.state_size import FewKeysTouched
from tidemill.common import Configuration
from tidemill.common.watermark_strategy import WatermarkStrategy
from tidemill.datastream import StreamExecutionEnvironment

_EPOCHS = 60
#: Enough keys that the deltas of the epochs soon add up to the whole state, which is then merged too.
_TOUCHED = 50_000
#: Snapshot intervals: as often as possible, and never.
_BUSY, _NEVER = 2, 1_000_000


def measure_snapshot_load(sizes: tuple[int, ...]) -> list[Measurement]:
    """Measure epochs that touch some keys, while the state of all keys is merged continuously or not at all."""
    results = []
    for held in sizes:
        case = f"epochs beside snapshots, {held:,} keys held"
        results.append(_measure(case, "without snapshots", held, _NEVER))
        results.append(_measure(case, "with snapshots", held, _BUSY))
    return results


def _measure(case: str, contender: str, held: int, interval: int) -> Measurement:
    configuration = Configuration()
    configuration.set_string("execution.epoch.snapshot-interval", str(interval))
    environment = StreamExecutionEnvironment.get_execution_environment(configuration)
    source = FewKeysTouched(held, _TOUCHED, _EPOCHS)
    stream = environment.from_source(source, WatermarkStrategy.no_watermarks(), "few keys")
    keyed_count(stream).sink_to(DiscardingSink())
    client: Any = environment.execute_async("snapshot load")
    client.get_job_execution_result().result()
    seconds = [epoch.seconds for epoch in client.epochs[2:]]
    details = {"keys held": held, "keys touched": _TOUCHED, "slowest": max(seconds)}
    return Measurement(case, contender, 0.0, statistics.median(seconds), details)
