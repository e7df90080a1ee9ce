"""File sinks of every kind, in a directory and on an object store, under the contract of all sinks."""

from __future__ import annotations

import gzip
import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.memory_objects import URI, MemoryObjects
from tests.thorough import THOROUGH
from tidemill.common.serialization import Encoder
from tidemill.datastream.connectors.file_system import (
    BucketAssigner,
    FileCompactor,
    FileCompactStrategy,
    FileSink,
    RollingPolicy,
)
from tidemill.datastream.formats.parquet import ParquetBulkWriters
from tidemill.testing.sink_contract import SINK_CASES, SinkCase, check_sink

each_case = pytest.mark.parametrize("case", SINK_CASES, ids=str)
PLACES = ["directory", "object store"]


def in_place(name: str) -> pytest.MarkDecorator:
    """Where a format is written: here, or in all places. Each case runs in each place, and in each format."""
    return pytest.mark.parametrize("place", PLACES if THOROUGH else [name], indirect=True)


#: Formats of parts that grow, with their places.
GROWING = [
    *[("rows", "object store"), ("parquet", "directory")],
    *([("rows", "directory"), ("parquet", "object store")] if THOROUGH else []),
]
#: Compaction of each two epochs, of whatever an epoch has finished, and by size, with their places.
_EVERY_TWO, _EVERY_ONE, _BY_SIZE = FileCompactStrategy(2), FileCompactStrategy(1), FileCompactStrategy(None, 3)
COMPACTED = [
    (_EVERY_TWO, "object store"),
    (_BY_SIZE, "directory"),
    *([(_EVERY_TWO, "directory"), (_EVERY_ONE, "directory"), (_EVERY_ONE, "object store")] if THOROUGH else []),
]


@dataclass
class Place:
    """Where a sink writes, and all files that are there."""

    path: str
    files: Callable[[], dict[str, bytes]]

    def shown(self, read: Callable[[bytes], list[str]]) -> Iterator[str]:
        """What a reader sees."""
        for name, data in self.files().items():
            if not any(part.startswith(".") for part in name.split("/")):
                yield from read(data)

    def hidden(self, ending: str = "") -> Iterator[str]:
        """The files that no reader sees."""
        for name in self.files():
            if name.rpartition("/")[2].startswith(".") and name.endswith(ending):
                yield name


@pytest.fixture
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    if request.param == "object store":
        return Place(URI, MemoryObjects(monkeypatch).files)

    def files() -> dict[str, bytes]:
        found = [path for path in sorted(tmp_path.rglob("*")) if path.is_file()]
        return {str(path.relative_to(tmp_path)): path.read_bytes() for path in found}

    return Place(str(tmp_path), files)


def lines(data: bytes) -> list[str]:
    return data.decode().splitlines()


def unzipped(data: bytes) -> list[str]:
    return lines(gzip.decompress(data))


def rows(data: bytes) -> list[str]:
    return [row["value"] for row in pq.read_table(io.BytesIO(data)).to_pylist()]


class ByLastDigit(BucketAssigner):
    def get_bucket_id(self, value: Any, timestamp: int | None, processing_time: int) -> str:
        return f"digit={str(value)[-1]}"


@in_place("directory")
@each_case
def test_compressed_rows_in_buckets(case: SinkCase, place: Place) -> None:
    def sink() -> FileSink:
        builder = FileSink.for_row_format(place.path, Encoder.simple_string_encoder()).with_compression("gzip")
        return (
            builder.with_bucket_assigner(ByLastDigit())
            .with_rolling_policy(RollingPolicy.on_epoch_rolling_policy())
            .build()
        )

    check_sink(case, sink, lambda: place.shown(unzipped), left=place.hidden)


@in_place("object store")
@each_case
def test_parquet(case: SinkCase, place: Place) -> None:
    def sink() -> FileSink:
        return FileSink.for_bulk_format(place.path, ParquetBulkWriters.for_row_type("value STRING")).build()

    check_sink(case, sink, lambda: place.shown(rows), left=place.hidden)


@each_case
@pytest.mark.parametrize(("strategy", "place"), COMPACTED, indirect=["place"])
def test_files_that_wait_for_compaction(case: SinkCase, strategy: FileCompactStrategy, place: Place) -> None:
    """Nothing is lost or twice in visible and waiting files together, and no visible one holds anything uncommitted."""

    def sink() -> FileSink:
        builder = FileSink.for_row_format(place.path, Encoder.simple_string_encoder())
        builder.with_bucket_assigner(ByLastDigit())
        builder.with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy())
        return builder.enable_compact(strategy, FileCompactor.concat_file_compactor()).build()

    def safe() -> Iterator[str]:
        yield from place.shown(lines)
        files = place.files()
        for name in place.hidden(".kept"):
            yield from lines(files[name])

    check_sink(case, sink, safe, left=lambda: place.hidden(".inprogress"))


@each_case
@pytest.mark.parametrize(("format_name", "place"), GROWING, indirect=["place"])
def test_parts_that_grow_over_epochs(case: SinkCase, format_name: str, place: Place) -> None:
    """Nothing is lost or twice in finished and open parts together, and finished ones hold nothing uncommitted."""

    def sink() -> FileSink:
        if format_name == "rows":
            builder: Any = FileSink.for_row_format(place.path, Encoder.simple_string_encoder())
        else:
            builder = FileSink.for_bulk_format(place.path, ParquetBulkWriters.for_row_type("value STRING"))
        policy = RollingPolicy.default_rolling_policy(part_size=20 if format_name == "rows" else 1500)
        built: FileSink = builder.with_bucket_assigner(ByLastDigit()).with_rolling_policy(policy).build()
        return built

    read = lines if format_name == "rows" else rows

    def safe() -> Iterator[str]:
        yield from place.shown(read)
        files = place.files()
        for name in place.hidden(".kept"):
            yield from read(files[name])

    check_sink(case, sink, safe, left=lambda: place.hidden(".inprogress"))
