"""The same work written by hand: what a good PySpark programmer would write for these jobs, without a framework.

Rows arrive as columns (``mapInArrow``), are packed into one pickled bucket per target, are exchanged by one
``partitionBy`` of packed buckets, and update a plain dict that stays in the worker. There is no recovery, no commit and
no ordering: when a worker is lost, its counts are lost. This code is a reference for speed, not for guarantees.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from bench.measure import Measurement, of_epochs
from bench.windows import window_rows

_PACKED = "target long, payload binary"
#: Counts by stage and partition. They live as long as the worker.
_state: dict[tuple[str, int], dict[Any, Any]] = {}


def pack_buckets(targets: int) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return a function that packs rows into one pickled list per target and batch."""

    def pack(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            buckets: list[list[Any]] = [[] for _ in range(targets)]
            appends = [bucket.append for bucket in buckets]
            for row in zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True):
                appends[row[0] % targets](row)
            yield pa.record_batch(
                [pa.array(range(targets)), pa.array([pickle.dumps(bucket, 5) for bucket in buckets])],
                names=["target", "payload"],
            )

    return pack


def count_rows(rows: Iterable[tuple[int, int]], counts: dict[int, int]) -> list[tuple[int, int]]:
    """Count rows per key, with one result per row."""
    results = []
    for key, _ in rows:
        counts[key] = count = counts.get(key, 0) + 1
        results.append((key, count))
    return results


def sum_rows(rows: Iterable[tuple[int, int]], sums: dict[int, tuple[int, int]]) -> list[tuple[int, int]]:
    """Reduce rows per key, with one result per row."""
    results = []
    for row in rows:
        before = sums.get(row[0])
        sums[row[0]] = after = row if before is None else (before[0], before[1] + row[1])
        results.append(after)
    return results


def stateful(stage: str, work: Callable[..., list[Any]]) -> Callable[[int, Iterable[Any]], Iterator[int]]:
    """Return a partition function over packed buckets that yields the number of results."""

    def run(partition: int, items: Iterable[Any]) -> Iterator[int]:
        state = _state.setdefault((stage, partition), {})
        yield sum(len(work(pickle.loads(payload), state)) for _, payload in items)

    return run


def stateful_and_repack(
    stage: str, work: Callable[..., list[Any]], targets: int
) -> Callable[[int, Iterable[Any]], Iterator[Any]]:
    """Return a partition function over packed buckets that packs its results by their second field."""

    def run(partition: int, items: Iterable[Any]) -> Iterator[Any]:
        state = _state.setdefault((stage, partition), {})
        for _, payload in items:
            buckets: list[list[Any]] = [[] for _ in range(targets)]
            for key, count in work(pickle.loads(payload), state):
                buckets[count % targets].append((count, key))
            yield from ((target, pickle.dumps(bucket, 5)) for target, bucket in enumerate(buckets))

    return run


def identity(key: int) -> int:
    """The partitioner of packed buckets."""
    return key


def map_filter_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The stateless job: a Python call per record, with columnar input and output."""
    for batch in batches:
        rows = [
            (key, value * 3 + 1)
            for key, value in zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True)
        ]
        kept = [row for row in rows if row[1] % 2 == 0]
        yield pa.record_batch([pa.array([len(kept)])], names=["n"])


class Handwritten:
    """The hand-written jobs. Each input file is one Spark job."""

    def __init__(self, session: SparkSession, partitions: int) -> None:
        self._session = session
        self._partitions = partitions

    def run(self, case: str, job: str, files: list[Path], records_per_file: int) -> Measurement:
        """Run one job over the files in sequence."""
        step = {
            "keyed count": lambda file: self._one_exchange(file, job, count_rows),
            "rolling reduce": lambda file: self._one_exchange(file, job, sum_rows),
            "rolling sum": lambda file: self._one_exchange(file, job, sum_rows),
            "tumbling windows": lambda file: self._one_exchange(file, job, window_rows),
            "map + filter": self._stateless,
            "two exchanges": self._two_exchanges,
        }[job]
        seconds = []
        for file in files:
            started = time.perf_counter()
            step(file)
            seconds.append(time.perf_counter() - started)
        return of_epochs(case, "by hand", [records_per_file] * len(files), seconds)

    def _packed(self, file: Path) -> Any:
        frame = self._session.read.parquet(str(file))
        return frame.mapInArrow(pack_buckets(self._partitions), _PACKED).rdd.map(tuple)

    def _one_exchange(self, file: Path, stage: str, work: Callable[..., list[Any]]) -> None:
        parts = self._packed(file).partitionBy(self._partitions, identity)
        parts.mapPartitionsWithIndex(stateful(stage, work)).collect()

    def _two_exchanges(self, file: Path) -> None:
        first = self._packed(file).partitionBy(self._partitions, identity)
        packed = first.mapPartitionsWithIndex(stateful_and_repack("first", count_rows, self._partitions))
        second = packed.partitionBy(self._partitions, identity)
        second.mapPartitionsWithIndex(stateful("second", count_rows)).collect()

    def _stateless(self, file: Path) -> None:
        self._session.read.parquet(str(file)).mapInArrow(map_filter_batches, "n long").collect()
