"""``python -m bench``: runs all benchmarks in sequence, prints a table, and writes JSON to ``bench/results``."""

from __future__ import annotations

import argparse
import json
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyspark
from rich.console import Console
from rich.table import Table

from bench import fixed_costs
from bench.checkpoints import measure_checkpoint_time
from bench.handwritten import Handwritten
from bench.inputs import write_input
from bench.jobs import JOBS, measure_job
from bench.kafka import measure_kafka
from bench.measure import Measurement, alone
from bench.memory import PeakMemory
from bench.queryable import measure_queries
from bench.snapshot_load import measure_snapshot_load
from bench.state_access import measure_large_entries, measure_state_access
from bench.state_size import measure_state_size
from bench.transform_with_state import measure_transform_with_state
from bench.windows import WINDOW_JOBS
from tidemill.checkpoint.storage.storages import LocalStorage
from tidemill.common import Configuration, Types
from tidemill.runtime.stored_input.parquet_source import ParquetSource
from tidemill.spark.session.session_lease import SessionLease

_TYPE = Types.TUPLE([Types.LONG(), Types.LONG()])
#: (label, job, keys)
_CASES = (
    ("keyed count, 10 000 keys", "keyed count", 10_000),
    ("keyed count, 1 000 000 keys", "keyed count", 1_000_000),
    ("rolling reduce, 10 000 keys", "rolling reduce", 10_000),
    ("built-in rolling sum over columns, 10 000 keys", "rolling sum", 10_000),
    ("built-in rolling sum over columns, 1 000 000 keys", "rolling sum", 1_000_000),
    ("map + filter", "map + filter", 10_000),
    ("two exchanges, 10 000 keys", "two exchanges", 10_000),
)
_SMALL = 100_000


class Benchmark:
    """One run of all cases in one Spark session."""

    def __init__(self, cores: int, quick: bool, scratch: Path) -> None:
        configuration = Configuration()
        configuration.set_string("spark.master", f"local[{cores},4]")
        self.session = SessionLease(configuration).session
        self.cores = cores
        self.quick = quick
        self.per_epoch = 200_000 if quick else 1_000_000
        self.epochs = 4 if quick else 6
        self.scratch = scratch
        self.results: list[Measurement] = []
        self.console = Console(stderr=True)

    def run(self, only: str | None) -> None:
        """Run the cases whose name contains ``only``."""
        for label, job, keys in _CASES:
            if only is None or only in label:
                self._throughput(label, job, keys)
        groups: dict[str, Callable[[], None]] = {
            "small epochs": self._small_epochs,
            "empty": self._fixed_costs,
            "bytes": lambda: self._note(*map(measure_state_size, (1_000, 1_000_000))),
            "state access": lambda: self._note(*alone(measure_state_access), *alone(measure_large_entries)),
            "snapshots": lambda: self._note(
                *measure_snapshot_load((10_000, 100_000) if self.quick else (100_000, 1_000_000))
            ),
            "rocksdb": self._backends,
            "windows": self._windows,
            "kafka": lambda: self._note(
                *measure_kafka(self.session, self.scratch, self.per_epoch // 4, 2 * self.epochs, self.cores)
            ),
            "checkpoints": lambda: self._note(*measure_checkpoint_time((20_000, 1_000_000))),
            "queryable": lambda: self._note(*measure_queries(*((2, 3.0) if self.quick else (6, 5.0)))),
        }
        for name, measure in groups.items():
            if only is None or only in name:
                measure()

    def _throughput(self, label: str, job: str, keys: int) -> None:
        directory = self._input(f"large-{keys}", keys, self.per_epoch * self.epochs, self.epochs)
        files = sorted(directory.glob("*.parquet"))
        by_hand = Handwritten(self.session, self.cores)
        # Contenders alternate, so that a noisy period of the machine affects both.
        turns: dict[str, list[Measurement]] = {"by hand": [], "tidemill": []}
        for _ in range(2):
            turns["by hand"].append(by_hand.run(label, job, files, self.per_epoch))
            with PeakMemory() as memory:
                ours = measure_job(label, _source(directory), JOBS[job], self.per_epoch)
            ours.details["peak memory, MB"] = memory.megabytes()
            turns["tidemill"].append(ours)
        for measured in turns.values():
            self._note(max(measured, key=lambda one: one.records_per_second))

    def _small_epochs(self) -> None:
        label = f"keyed count, 10 000 keys, {_SMALL:,} records per epoch"
        directory = self._input("small", 10_000, _SMALL * 90, 90)
        few = self._input("few small", 10_000, _SMALL * 12, 12)  # each takes 3 s, and the first four are warm-up
        files = sorted(directory.glob("*.parquet"))
        self._note(Handwritten(self.session, self.cores).run(label, "keyed count", files, _SMALL))
        self._note(measure_job(label, _source(directory), JOBS["keyed count"], _SMALL))
        self._note(measure_transform_with_state(self.session, label, few, self.cores))

    def _windows(self) -> None:
        directory = self._input("windows", 1_000, self.per_epoch * self.epochs, self.epochs)
        label = "event time, 1 000 keys"
        by_hand = Handwritten(self.session, self.cores)
        files = sorted(directory.glob("*.parquet"))
        measured = by_hand.run(label, "tumbling windows", files, self.per_epoch)
        self._note(replace(measured, contender="tumbling windows by hand"))
        for name, build in WINDOW_JOBS.items():
            ours = measure_job(label, _source(directory), build, self.per_epoch)
            self._note(replace(ours, contender=name))

    def _backends(self) -> None:
        label = "keyed count by backend, 1 000 000 keys"
        directory = self._input("large-1000000", 1_000_000, self.per_epoch * self.epochs, self.epochs)
        for name in ("hashmap", "rocksdb"):
            with PeakMemory() as memory:
                source = _source(directory)
                ours = measure_job(label, source, JOBS["keyed count"], self.per_epoch, backend=name)
            ours.details["peak memory, MB"] = memory.megabytes()
            self._note(replace(ours, contender=name))

    def _fixed_costs(self) -> None:
        self._note(fixed_costs.measure_empty_jobs(self.session, self.cores))
        self._note(fixed_costs.measure_empty_epochs(self.scratch / "checkpoints"))
        tiny = fixed_costs.write_tiny_files(self.scratch / "tiny", 45)
        self._note(fixed_costs.measure_empty_batches(self.session, tiny, self.cores, 40))
        self._note(fixed_costs.measure_empty_stream_epochs(self.session, tiny, 40))

    def _input(self, name: str, keys: int, records: int, files: int) -> Path:
        directory = self.scratch / name
        return directory if directory.exists() else write_input(directory, keys, records, files)

    def _note(self, *measurements: Measurement) -> None:
        for measurement in measurements:
            self.results.append(measurement)
            self.console.print(f"[dim]{measurement.case}: {measurement.contender} done[/dim]")

    def table(self) -> Table:
        """The results, each compared with the first one of its case: the hand-written job, or the smaller size."""
        table = Table(title=f"Spark {pyspark.__version__}, {self.cores} cores, Python {platform.python_version()}")
        for heading in ("case", "contender"):
            table.add_column(heading)
        for heading in ("records/s", "s per epoch", "ratio to the first", "details"):
            table.add_column(heading, justify="right")
        for one in self.results:
            base = next(m for m in self.results if m.case == one.case)  # the first measurement
            table.add_row(
                one.case,
                one.contender,
                f"{one.records_per_second:,.0f}" if one.records_per_second else "",
                f"{one.seconds_per_epoch:.3f}",
                ratio(one, base),
                shown(one.details),
            )
        return table

    def as_json(self) -> dict[str, Any]:
        """All measurements as plain data."""
        return {
            "spark": pyspark.__version__,
            "python": platform.python_version(),
            "cores": self.cores,
            "records per epoch": self.per_epoch,
            "measurements": [one.as_json() for one in self.results],
        }


def _source(directory: Path) -> ParquetSource:
    """A source of the records of all files of a directory."""
    return ParquetSource(LocalStorage(directory), "", _TYPE)


def shown(details: dict[str, Any]) -> str:
    """The details to show in the table: bytes written per epoch, reads, and the memory of all Python workers."""
    parts = [f"{details[name]:,} bytes/epoch" for name in ("bytes written", "delta_bytes") if name in details]
    core = "reads per second of a core"
    if f"{core}, server" in details:
        of_a_core = ", ".join(f"{who} {details[f'{core}, {who}']:,.0f}/s" for who in ("server", "client"))
        parts.append(f"{details['reads per second']:,.0f} reads/s; of a core: {of_a_core}")
        parts.append(f"epochs take {details['slowdown']:.2f} x the time")
    if "peak memory, MB" in details:
        parts.append(f"workers {details['peak memory, MB']['python workers']:,} MB")
    return ", ".join(parts)


def ratio(one: Measurement, base: Measurement) -> str:
    """The speed relative to the baseline; for fixed costs, the time relative to it."""
    if base is one:
        return ""
    if base.records_per_second:
        return f"{one.records_per_second / base.records_per_second:.2f}"
    return f"{one.seconds_per_epoch / base.seconds_per_epoch:.2f} x the time"


def main() -> int:
    """Run the benchmarks, print the results, and store them."""
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="use less data, to check that everything runs")
    parser.add_argument("--only", help="only cases whose name contains this")
    parser.add_argument("--cores", type=int, default=2)
    arguments = parser.parse_args()
    scratch = Path(tempfile.mkdtemp(prefix="tidemill-bench-"))
    benchmark = Benchmark(arguments.cores, arguments.quick, scratch)
    try:
        benchmark.run(arguments.only)
        Console(width=150).print(benchmark.table())
        results = Path(__file__).parent / "results"
        results.mkdir(exist_ok=True)
        target = results / f"{time.strftime('%Y%m%d-%H%M%S')}.json"
        target.write_text(json.dumps(benchmark.as_json(), indent=2), encoding="utf-8")
        sys.stdout.write(f"written to bench/results/{target.name}\n")
    finally:
        benchmark.session.stop()
        shutil.rmtree(scratch, ignore_errors=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
