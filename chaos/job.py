"""The job: ``python -m chaos.job <folder>`` is one driver. It ends when the run marks the input as final."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from chaos.control import VARIABLE, Control
from chaos.functions import Account, Buffer, Numbers, Session, Stamp, Sum
from chaos.truth import DISORDER, GAP, WINDOW
from tidemill.common import Configuration, Duration, Encoder, Time, WatermarkStrategy, run_main
from tidemill.datastream import DataStream, StreamExecutionEnvironment
from tidemill.datastream.connectors.file_system import BucketAssigner, FileSink, RollingPolicy
from tidemill.datastream.window import EventTimeSessionWindows, TumblingEventTimeWindows

JOB_ID: Final = "chaos"
SINKS: Final = ("accounts", "windows", "sessions", "buffered")
_QUICK_JAVA: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def settings(folder: Path) -> dict[str, str]:
    """Two executors with one core each, small epochs, small files, and unlimited restarts."""
    return {
        "execution.checkpointing.dir": str(folder / "checkpoints"),
        "execution.checkpointing.num-retained": "2",
        "execution.job-id": JOB_ID,
        "execution.take-over": "true",  # also from a paused driver
        "execution.epoch.max-records": "400",
        "execution.epoch.min-interval": "100ms",
        "execution.epoch.snapshot-interval": "6",
        "state.inline-delta-size": "2kb",  # so that there are deltas of both kinds, inline and in files
        "parallelism.default": "2",
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "1000000",
        "restart-strategy.fixed-delay.delay": "200ms",
        "spark.master": "local-cluster[2,1,1024]",
        "spark.executor.memory": "512m",
        "spark.executor.extraJavaOptions": _QUICK_JAVA,
        f"spark.executorEnv.{VARIABLE}": os.environ[VARIABLE],
        "spark.executorEnv.PYTHONPATH": os.environ.get("PYTHONPATH", ""),
        "spark.shuffle.io.maxRetries": "1",
        "spark.shuffle.io.retryWait": "100ms",
    }


def build(env: StreamExecutionEnvironment, folder: Path) -> None:
    """Keyed state and timers, tumbling and session windows, operator state; each with an exactly-once file sink."""
    bounded = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(DISORDER))
    numbers = env.from_source(Numbers(os.environ[VARIABLE]), bounded.with_timestamp_assigner(Stamp()), "numbers").uid(
        "numbers"
    )
    keyed = numbers.key_by(lambda record: record[0])
    tumbling = keyed.window(TumblingEventTimeWindows.of(Time.milliseconds(WINDOW)))
    sessions = keyed.window(EventTimeSessionWindows.with_gap(Time.milliseconds(GAP)))
    results: dict[str, DataStream] = {
        "accounts": keyed.process(Account()).uid("accounts"),
        "windows": tumbling.process(Sum()).uid("windows"),
        "sessions": sessions.process(Session()).uid("sessions"),
        "buffered": numbers.rebalance().flat_map(Buffer()).uid("buffer"),
    }
    for name, stream in results.items():
        sink = (
            FileSink.for_row_format(str(folder / "output" / name), Encoder.simple_string_encoder())
            .with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
            .with_rolling_policy(RollingPolicy.on_epoch_rolling_policy())
            .build()
        )
        stream.sink_to(sink).uid(f"{name}-sink")


def run_job(
    build: Callable[[StreamExecutionEnvironment, Path], None], done: Callable[[], bool] = lambda: False
) -> None:
    """Run a job as a driver, in the folder given on the command line, and rescale it when the run requests it.

    An unbounded job is cancelled when ``done`` returns True.
    """
    folder, control = Path(sys.argv[1]), Control(Path(os.environ[VARIABLE]))
    configuration = Configuration()
    for key, value in settings(folder).items():
        configuration.set_string(key, value)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    build(env, folder)
    seen = control.wish()[0]
    client = env.execute_async("chaos")
    result = client.get_job_execution_result()
    while not result.done():
        number, parallelism = control.wish()
        if number > seen:
            seen = number
            client.rescale(parallelism)
        if done():
            client.cancel().result()
            return
        time.sleep(0.2)
    result.result()


if __name__ == "__main__":
    sys.exit(run_main(lambda: run_job(build)))
