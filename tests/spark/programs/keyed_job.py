"""A job with every kind of keyed state the recovery tests care about, whose output and state are the same on every run.

Run as a program it takes one argument, a JSON object::

    {"checkpoints": dir, "output": dir, "job_id": id, "input": dir or null, "options": {key: value}}

Without ``input`` the job is bounded and reads :func:`records`; with it, it reads the JSON files of that directory as a
stream, and is cancelled once all of them are committed.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.spark.committed import committed_state
from tidemill.common import Configuration, Duration, Encoder, Types, WatermarkStrategy, run_main
from tidemill.common.watermark_strategy import TimestampAssigner
from tidemill.datastream import DataStream, StreamExecutionEnvironment
from tidemill.datastream.connectors.file_system import BucketAssigner, FileSink, RollingPolicy
from tidemill.datastream.functions import KeyedProcessFunction, RuntimeContext
from tidemill.datastream.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from tidemill.errors import CheckpointError, JobCancelledError
from tidemill.spark.session.session_lease import SessionLease

Record = tuple[str, int, int]

#: Epochs of the bounded job: enough for a background snapshot (after eight) and for what it makes superfluous to go.
EPOCHS = 20
RECORDS = 2000
KEYS = 37
WINDOW = 1000


def records(count: int = RECORDS) -> list[Record]:
    """(key, number, timestamp): timestamps rise by 25 ms and are up to 300 ms out of order."""
    return [(f"k{n * 7 % KEYS}", n, 25 * n - n * 13 % 300) for n in range(count)]


class Stamp(TimestampAssigner):
    def extract_timestamp(self, value: Record, record_timestamp: int) -> int:
        return value[2]


class Account(KeyedProcessFunction):
    """Counts per key, sums per key and digit, and lists the numbers of each window of event time until its timer fires.

    The output shows the order of the records of a key, which is fixed as long as epochs are cut where they were before.
    """

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))
        self.digits = runtime_context.get_map_state(MapStateDescriptor("digits", Types.LONG(), Types.LONG()))
        self.window = runtime_context.get_list_state(ListStateDescriptor("window", Types.PICKLED_BYTE_ARRAY()))

    def process_element(self, value: Record, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        key, number, timestamp = value
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        digit = number % 10
        self.digits.put(digit, (self.digits.get(digit) or 0) + number)
        if number % 500 == 499:
            self.digits.remove(digit)
        self.window.add((number, timestamp))
        ctx.timer_service().register_event_time_timer(timestamp - timestamp % WINDOW + WINDOW)
        yield "seen", key, count, number

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterable[Any]:
        entries = list(self.window.get())
        self.window.update([(number, at) for number, at in entries if at >= timestamp])
        yield "window", ctx.get_current_key(), timestamp, sum(number for number, at in entries if at < timestamp)


class Totals(KeyedProcessFunction):
    """A second keyed step behind a second exchange."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        total = (self.total.value() or 0) + value[3]
        self.total.update(total)
        yield f"{value[0]} {value[2]} {total}"


def environment(checkpoints: str, job_id: str, options: dict[str, str]) -> StreamExecutionEnvironment:
    configuration = Configuration()
    configuration.set_string("execution.epoch.snapshot-interval", "8")
    settings = {
        "execution.checkpointing.dir": checkpoints,
        "execution.job-id": job_id,
        "execution.take-over": "true",  # tests stop drivers, and let others take the job over at once
        "execution.epoch.max-records": str(RECORDS // EPOCHS),
        "execution.epoch.max-duration": "0 ms",  # each epoch has the same records, on a slow machine too
        "state.inline-delta-size": "2kb",  # so that there are deltas of both kinds, inline and in files
        "parallelism.default": "2",
        "spark.master": "local[2,4]",
        **options,
    }
    for key, value in settings.items():
        configuration.set_string(key, value)
    return StreamExecutionEnvironment.get_execution_environment(configuration)


def build(stream: DataStream, output: Path) -> None:
    """The job behind its source: two keyed steps, two file sinks."""
    bounded = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(300))
    strategy = bounded.with_timestamp_assigner(Stamp())
    accounts = (
        stream.map(tuple)
        .assign_timestamps_and_watermarks(strategy)
        .key_by(lambda record: record[0])
        .process(Account())
        .uid("accounts")
    )
    accounts.map(lambda row: " ".join(map(str, row))).sink_to(sink(output / "accounts")).uid("accounts-sink")
    totals = accounts.key_by(lambda row: (row[0], row[2] % 5)).process(Totals()).uid("totals")
    totals.sink_to(sink(output / "totals")).uid("totals-sink")


def sink(directory: Path) -> FileSink:
    return (
        FileSink.for_row_format(str(directory), Encoder.simple_string_encoder())
        .with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
        .with_rolling_policy(RollingPolicy.on_epoch_rolling_policy())
        .build()
    )


def write_input(directory: Path, files: int) -> None:
    """The same records as JSON files, one batch each."""
    directory.mkdir(parents=True)
    rows = records()
    size = -(-len(rows) // files)
    for index in range(files):
        lines = [json.dumps({"key": k, "number": n, "at": t}) for k, n, t in rows[index * size : (index + 1) * size]]
        path = directory / f"{index:04d}.json"
        path.write_text("\n".join(lines) + "\n")
        os.utime(path, (1e9 + index, 1e9 + index))  # Spark takes files by age


def run_bounded(env: StreamExecutionEnvironment, output: Path) -> None:
    build(env.from_collection(records()).uid("numbers"), output)
    env.execute("keyed job")


def run_streaming(env: StreamExecutionEnvironment, source: Path, output: Path) -> None:
    """Run until all records are committed, however many of them this driver finds to do."""
    session = SessionLease(env.get_configuration()).session
    reader = session.readStream.schema("key STRING, number LONG, at LONG").option("maxFilesPerTrigger", 1)
    stream = env.from_dataframe(reader.json(str(source))).uid("numbers")
    build(stream, output)
    client = env.execute_async("keyed job")
    result = client.get_job_execution_result()
    checkpoints = env.get_configuration().get_string("execution.checkpointing.dir", "")
    while not result.done() and counted(Path(checkpoints) / str(client.get_job_id())) < RECORDS:
        time.sleep(0.3)
    # The last epoch counts, but its files may still be hidden: cancelled now, the job shows them at its next start.
    deadline = time.monotonic() + 120
    while any(output.rglob(".*.inprogress")) and time.monotonic() < deadline:
        time.sleep(0.1)
    client.cancel().result()
    try:
        result.result()
    except JobCancelledError:
        print("all records are committed")


def counted(directory: Path) -> int:
    """The number of records that are part of the committed state."""
    if len(list(directory.glob("manifests/*.tm"))) < 2:
        return 0
    try:
        return sum(committed_state(directory).get(("accounts", "count"), {}).values())
    except CheckpointError:
        return 0  # retention was faster than we were


def main(arguments: dict[str, Any]) -> None:
    env = environment(arguments["checkpoints"], arguments["job_id"], arguments.get("options", {}))
    output = Path(arguments["output"])
    if arguments.get("input"):
        run_streaming(env, Path(arguments["input"]), output)
    else:
        run_bounded(env, output)


if __name__ == "__main__":
    sys.exit(run_main(lambda: main(json.loads(sys.argv[1]))))
