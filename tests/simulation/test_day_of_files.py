"""A day of a job that writes files, in simulated time: as many files as Flink makes, and nothing else grows.

The clock of the job is the test's, and its engine runs in this process. Records arrive every 20 seconds, with an hour
of silence. What Flink would make is computed from its rules, by :func:`files_of_rows` and :func:`files_of_checkpoints`.
"""

from __future__ import annotations

import gc
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean

import pyarrow.parquet as pq

from tests.thorough import THOROUGH, how_many
from tidemill.checkpoint.storage.local import LocalStorage
from tidemill.common import Encoder
from tidemill.datastream import DataStream, StreamExecutionEnvironment
from tidemill.datastream.connectors.file_system import (
    BucketAssigner,
    FileCompactor,
    FileCompactStrategy,
    FileSink,
    RollingPolicy,
)
from tidemill.datastream.formats.parquet import ParquetBulkWriters
from tidemill.testing import JobHarness

SECOND, MINUTE, HOUR = 1000, 60_000, 3_600_000
#: The length of the day; a part of it in ``make test``.
HOURS = how_many(1, 24)
#: The interval between two checkpoints, and the number of checkpoints between two compactions.
INTERVAL = 5 * MINUTE
COMPACTED = 6
SUBTASKS = 2
#: The day begins at a full hour, so that its buckets are easy to count.
START = 20_000 * 24 * HOUR


def arrivals() -> Iterator[int]:
    """The times at which records arrive, a few seconds after the checks; none in the second half of each sixth hour."""
    for at in range(START + 3 * SECOND, START + HOURS * HOUR, 20 * SECOND):
        hour, rest = divmod(at - START, HOUR)
        if hour % 6 or rest < HOUR // 2:
            yield at


def files_of_rows(times: list[int]) -> int:
    """The number of files by Flink's rules, for one subtask: ``DefaultRollingPolicy``, checked every minute.

    A part begins with a record, in the bucket of its hour. At each check, a part is finished that was begun, or last
    written to, a minute ago or earlier. The end of the input finishes the others.
    """
    finished = 0
    parts: dict[int, tuple[int, int]] = {}
    check = START
    for at in [*times, None]:
        while check <= (times[-1] if at is None else at):
            due = [hour for hour, (begun, last) in parts.items() if check - begun >= MINUTE or check - last >= MINUTE]
            for hour in due:
                del parts[hour]
                finished += 1
            check += MINUTE
        if at is not None:
            begun, _ = parts.get(at // HOUR, (at, at))
            parts[at // HOUR] = (begun, at)
    return finished + len(parts)


def files_of_checkpoints(times: list[int]) -> int:
    """The number of files by ``OnCheckpointRollingPolicy``: one for each hour and checkpoint that has records.

    The first record is written in the first epoch, which is a checkpoint here: it is a file of its own.
    """
    first = times[0]
    return len({(at // HOUR, -(-(at - first) // INTERVAL)) for at in times})


def build(env: StreamExecutionEnvironment, folder: Path, numbers: DataStream) -> None:
    hourly = BucketAssigner.date_time_bucket_assigner("yyyy-MM-dd--HH", "UTC")
    lines = numbers.rebalance().map(str)
    text = FileSink.for_row_format(folder / "rows", Encoder.simple_string_encoder()).with_bucket_assigner(hourly)
    lines.sink_to(text.build()).uid("rows")
    columns = FileSink.for_bulk_format(folder / "parquet", ParquetBulkWriters.for_row_type("n LONG"))
    numbers.rebalance().map(lambda n: (n,)).sink_to(columns.with_bucket_assigner(hourly).build()).uid("parquet")
    merged = FileSink.for_row_format(folder / "merged", Encoder.simple_string_encoder())
    merged.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
    merged.with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy())
    strategy = FileCompactStrategy.builder().enable_compaction_on_checkpoint(COMPACTED).build()
    lines.sink_to(merged.enable_compact(strategy, FileCompactor.concat_file_compactor()).build()).uid("merged")


def files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def size(folder: Path) -> tuple[int, int]:
    """The number and the bytes of the files of a directory."""
    found = files(folder)
    return len(found), sum(path.stat().st_size for path in found)


def test_a_day_of_files(tmp_path: Path) -> None:
    out, checkpoints = tmp_path / "out", tmp_path / "checkpoints"
    times = list(arrivals())
    memory: list[int] = []
    stored: list[tuple[int, int]] = []
    with JobHarness(
        lambda env, numbers: build(env, out, numbers),
        inputs=["numbers"],
        storage=LocalStorage(checkpoints),
        configuration={"execution.checkpointing.interval": f"{INTERVAL} ms"},
        processing_time=START,
        parallelism=SUBTASKS,
    ) as job:
        clock = START
        for index, at in enumerate([*times, START + HOURS * HOUR]):
            while clock < at:  # the driver looks whether a timer is due
                clock = min(at, clock + MINUTE - clock % MINUTE)
                job.set_processing_time(clock)
                if clock < at and job.due:
                    job.epoch()
            if at == START + HOURS * HOUR:
                break
            job.epoch(numbers=[2 * index, 2 * index + 1])
            job.inputs["numbers"].epochs[-1] = []  # the harness would keep it for a restart
            if index % 45 == 44:  # a quarter of an hour
                gc.collect()
                memory.append(sys.getallocatedblocks())
                stored.append(size(checkpoints))
        open_parts = [path for path in files(out) if path.name.startswith(".")]
        job.end()

    numbers = Counter(range(2 * len(times)))
    assert Counter(int(line) for path in files(out / "rows") for line in path.read_text().split()) == numbers
    assert Counter(n for path in files(out / "parquet") for n in pq.read_table(path)["n"].to_pylist()) == numbers
    assert Counter(int(line) for path in files(out / "merged") for line in path.read_text().split()) == numbers

    assert len(files(out / "rows")) == SUBTASKS * files_of_rows(times)
    assert len(files(out / "parquet")) == SUBTASKS * files_of_checkpoints(times)
    assert len(files(out / "merged")) <= SUBTASKS * (files_of_checkpoints(times) // COMPACTED + 2)
    assert len(open_parts) <= SUBTASKS * (6 + 6 + 6 + COMPACTED)

    if not THOROUGH:
        return
    # The second quarter of the day, when everything has warmed up, is the measure for the last one.
    quarter = len(memory) // 4
    then, now = memory[quarter : 2 * quarter], memory[-quarter:]
    assert fmean(now) < fmean(then) * 1.05, (then, now)
    for kind in (0, 1):  # manifests are deleted and merged in groups, so that single figures vary
        then, now = [one[kind] for one in stored[quarter : 2 * quarter]], [one[kind] for one in stored[-quarter:]]
        assert fmean(now) < fmean(then) * 1.1, (then, now)
