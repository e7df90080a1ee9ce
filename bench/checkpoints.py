"""Checkpoint time by state size: the same changes, with a small state and with 50 times as much state."""

from __future__ import annotations

import statistics
import tempfile
from typing import Any

from bench.jobs import DiscardingSink, keyed_count
from bench.measure import Measurement
from bench.state_size import TOUCHED, FewKeysTouched
from tidemill.common import Configuration
from tidemill.common.watermark_strategy import WatermarkStrategy
from tidemill.datastream import StreamExecutionEnvironment

_EPOCHS = 60


def measure_checkpoint_time(sizes: tuple[int, ...]) -> list[Measurement]:
    """Measure checkpoints in a local directory, for epochs that touch a few of ``sizes`` keys."""
    return [_measure(held) for held in sizes]


def _measure(held: int) -> Measurement:
    with tempfile.TemporaryDirectory(prefix="tidemill-bench-") as directory:
        configuration = Configuration.from_dict(
            {"execution.checkpointing.dir": directory, "web.checkpoints.history": str(_EPOCHS)}
        )
        environment = StreamExecutionEnvironment.get_execution_environment(configuration)
        source = FewKeysTouched(held, TOUCHED, _EPOCHS)
        stream = environment.from_source(source, WatermarkStrategy.no_watermarks(), "few keys")
        keyed_count(stream).sink_to(DiscardingSink())
        client: Any = environment.execute_async("checkpoints")
        client.get_job_execution_result().result()
    # The first epoch creates the state; the next ones are the JVM's warm-up.
    checkpoints = client.get_checkpoint_history().checkpoints[_EPOCHS // 3 :]
    seconds = statistics.median(one.duration for one in checkpoints) / 1000
    details = {"keys touched": TOUCHED, "state bytes": checkpoints[-1].state_size}
    return Measurement("checkpoint time", f"{held:,} keys held", 0.0, seconds, details)
