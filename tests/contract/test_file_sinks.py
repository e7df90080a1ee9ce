"""File sinks of every kind, under the contract of all sinks."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tidemill.common.serialization import Encoder
from tidemill.datastream.connectors.file_system import BucketAssigner, FileSink, RollingPolicy
from tidemill.datastream.formats.parquet import ParquetBulkWriters
from tidemill.testing.sink_contract import SINK_CASES, SinkCase, check_sink

each_case = pytest.mark.parametrize("case", SINK_CASES, ids=str)


def lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()


def unzipped(path: Path) -> list[str]:
    return gzip.decompress(path.read_bytes()).decode().splitlines()


def rows(path: Path) -> list[str]:
    return [row["value"] for row in pq.read_table(path).to_pylist()]


def shown(folder: Path, read: Callable[[Path], list[str]]) -> Iterator[str]:
    """What a reader sees."""
    for path in sorted(folder.rglob("[!.]*")):
        if path.is_file():
            yield from read(path)


class ByLastDigit(BucketAssigner):
    def get_bucket_id(self, value: Any, timestamp: int | None, processing_time: int) -> str:
        return f"digit={str(value)[-1]}"


@each_case
def test_compressed_rows_in_buckets(case: SinkCase, tmp_path: Path) -> None:
    def sink() -> FileSink:
        builder = FileSink.for_row_format(str(tmp_path), Encoder.simple_string_encoder()).with_compression("gzip")
        return builder.with_bucket_assigner(ByLastDigit()).build()

    check_sink(case, sink, lambda: shown(tmp_path, unzipped), left=lambda: tmp_path.rglob(".*"))


@each_case
def test_parquet(case: SinkCase, tmp_path: Path) -> None:
    def sink() -> FileSink:
        return FileSink.for_bulk_format(str(tmp_path), ParquetBulkWriters.for_row_type("value STRING")).build()

    check_sink(case, sink, lambda: shown(tmp_path, rows), left=lambda: tmp_path.rglob(".*"))


@each_case
@pytest.mark.parametrize("format_name", ["rows", "parquet"])
def test_parts_that_grow_over_epochs(case: SinkCase, format_name: str, tmp_path: Path) -> None:
    """Nothing is lost or twice in finished and open parts together, and finished ones hold nothing uncommitted."""

    def sink() -> FileSink:
        if format_name == "rows":
            builder: Any = FileSink.for_row_format(str(tmp_path), Encoder.simple_string_encoder())
        else:
            builder = FileSink.for_bulk_format(str(tmp_path), ParquetBulkWriters.for_row_type("value STRING"))
        policy = RollingPolicy.default_rolling_policy(part_size=20 if format_name == "rows" else 1500)
        built: FileSink = builder.with_bucket_assigner(ByLastDigit()).with_rolling_policy(policy).build()
        return built

    read = lines if format_name == "rows" else rows

    def safe() -> Iterator[str]:
        yield from shown(tmp_path, read)
        for path in tmp_path.rglob(".*.kept"):
            yield from read(path)

    check_sink(case, sink, safe, left=lambda: tmp_path.rglob(".*.inprogress"))
