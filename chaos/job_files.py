"""Keyed state with file sinks, whose files are read continuously: ``python -m chaos.job_files <folder>``."""

from __future__ import annotations

import contextlib
import gzip
import os
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pyarrow.parquet as pq

from chaos.control import VARIABLE
from chaos.functions import Account, Numbers, Stamp
from chaos.job import JOB_ID, run_job
from chaos.truth import DISORDER, Truth
from chaos.variant import Variant
from chaos.verdict import compare
from tidemill.checkpoint.log import ManifestLog
from tidemill.checkpoint.storage.storages import LocalStorage
from tidemill.common import Duration, Encoder, Types, WatermarkStrategy, run_main
from tidemill.datastream import StreamExecutionEnvironment
from tidemill.datastream.connectors.file_system import BucketAssigner, FileSink, OutputFileConfig, RollingPolicy
from tidemill.datastream.formats.parquet import ParquetBulkWriters
from tidemill.errors import CheckpointError

#: Text files that become visible with each epoch; compressed text in buckets, and Parquet, that span several epochs.
SINKS: Final = ("text", "rolled", "parquet")
_PAUSE: Final = 0.05


class FilesVariant(Variant):
    """Drivers and workers are killed. Each directory contains every result once, and none is visible too early."""

    module = "chaos.job_files"
    faults: Mapping[str, int] = {
        "kill_worker": 3,
        "kill_executor": 2,
        "rescale": 3,
        "slow_storage": 1,
        "kill_driver": 3,
        "stop_driver": 2,
    }

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        self._reader = Reader(self.folder)
        self._reader.start()
        try:
            yield
        finally:
            self._reader.stop()

    def differences(self, records: int) -> Iterator[str]:
        self._reader.look()
        yield from self._reader.problems
        truth = Truth.of(records).output["accounts"]
        for name in SINKS:
            yield from compare(name, truth, self._reader.lines[name])
            for path in sorted((self.folder / "output" / name).rglob(".*")):
                yield f"{path.relative_to(self.folder)} remains after the end of the job"


class Reader(threading.Thread):
    """Reads each file as soon as it becomes visible, like any other program."""

    def __init__(self, folder: Path) -> None:
        super().__init__(name="reader of the output", daemon=True)
        self._folder = folder
        self._manifests = ManifestLog(LocalStorage(folder / "checkpoints" / JOB_ID, durable=False), JOB_ID)
        self._over = threading.Event()
        self._seen: dict[Path, int] = {}
        self.lines = {name: Counter[str]() for name in SINKS}
        self.problems: list[str] = []

    def run(self) -> None:
        while not self._over.wait(_PAUSE):
            self.look()

    def stop(self) -> None:
        """Finish the current pass, and end."""
        self._over.set()
        self.join()

    def look(self) -> None:
        """Read new files. All their records must be committed by the time they have been read."""
        highest = -1
        for name in SINKS:
            for path in sorted((self._folder / "output" / name).rglob("[!._]*")):
                if path.is_file() and path not in self._seen:
                    self._seen[path] = path.stat().st_size
                    found = lines_of(path)
                    self.lines[name].update(found)
                    numbers = [int(line.split()[3]) for line in found if line.startswith("seen ")]
                    highest = max(highest, *numbers, -1)
        if highest >= 0 and highest >= (committed := self._committed()):
            self.problems.append(f"record {highest} was visible when {committed} records were committed")
        for path, size in self._seen.items():
            if not path.exists() or path.stat().st_size != size:
                self.problems.append(f"{path.relative_to(self._folder)} was read, and has changed since")

    def _committed(self) -> int:
        while True:
            with contextlib.suppress(CheckpointError):
                head = self._manifests.read_head()
                return 0 if head is None else int(head.sources.get("numbers", 0))
            if self._over.wait(_PAUSE):
                return sys.maxsize


def lines_of(path: Path) -> list[str]:
    """The lines of a file."""
    if path.suffix == ".parquet":
        lines: list[str] = pq.read_table(path).column("line").to_pylist()
        return lines
    data = path.read_bytes()
    return (gzip.decompress(data) if path.suffix == ".gz" else data).decode().splitlines()


class ByKind(BucketAssigner):
    """Assigns results of records and results of timers to different buckets."""

    def get_bucket_id(self, value: str, timestamp: int | None, processing_time: int) -> str:
        return f"kind={value.partition(' ')[0]}"


def sink(folder: Path, name: str) -> FileSink:
    """Create one of the three sinks."""
    path = str(folder / "output" / name)
    rows = FileSink.for_row_format(path, Encoder.simple_string_encoder())
    if name == "text":
        return (
            rows.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
            .with_rolling_policy(RollingPolicy.on_epoch_rolling_policy())
            .build()
        )
    policy = RollingPolicy.default_rolling_policy(6000, rollover_interval=3000, inactivity_interval=2000)
    if name == "rolled":
        builder: Any = rows.with_compression("gzip")
    else:
        builder = FileSink.for_bulk_format(path, ParquetBulkWriters.for_row_type("line STRING"))
        builder.with_output_file_config(OutputFileConfig.builder().with_part_suffix(".parquet").build())
    built: FileSink = builder.with_bucket_assigner(ByKind()).with_rolling_policy(policy).build()
    return built


def build(env: StreamExecutionEnvironment, folder: Path) -> None:
    """Build a job with counts and timers per key. All results go to three sinks."""
    bounded = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(DISORDER))
    source = Numbers(os.environ[VARIABLE])
    numbers = env.from_source(source, bounded.with_timestamp_assigner(Stamp()), "numbers").uid("numbers")
    lines = numbers.key_by(lambda record: record[0]).process(Account(), Types.STRING()).uid("accounts")
    for name in SINKS:
        lines.sink_to(sink(folder, name)).uid(name)


if __name__ == "__main__":
    sys.exit(run_main(lambda: run_job(build)))
