"""What an epoch takes of a watched path: whole files, or some rows of one that has too many."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import closing
from typing import Any

import pytest

from tests.waiting import eventually
from tidemill.checkpoint.model import Epoch, Lineage, Manifest, Slot
from tidemill.connectors.file_system.listing import FileListing, FoundFile
from tidemill.python_versions import Self
from tidemill.runtime.driver.epoch_limit import EpochLimit
from tidemill.runtime.driver.file_enumerator import FileBounds
from tidemill.runtime.watched.processed_files import ProcessedFiles
from tidemill.runtime.watched.watched_source import WatchedSource, WatchSettings
from tidemill.spark.files.watched_rows import SparkFileReader

BIG = "/in/big"
HEAD = Manifest("takeover", "job", Lineage("000000000001-a"), Slot(1), Epoch(0))


class Listing(FileListing):
    """One file of a megabyte, for as long as it is there."""

    interval = 0.0

    def __init__(self) -> None:
        self.there = True

    def new_files(self, is_known: Callable[[str], bool]) -> list[FoundFile]:
        return [FoundFile(BIG, 1_000_000, 0.0)] if self.there and not is_known(BIG) else []

    def present(self, paths: Iterable[str]) -> dict[str, FoundFile]:
        return {path: FoundFile(path, 1_000_000, 0.0) for path in paths if self.there}


class Rows:
    """A frame of Spark's and its RDD: 1,000 rows that four tasks would read."""

    def __init__(
        self, planned: list[tuple[int, int | None]], start: int = 0, count: int | None = None, tasks: int = 4
    ) -> None:
        self.planned = planned
        self.start, self.rows, self.tasks = start, count, tasks
        self._jdf = self

    def count(self) -> int:
        return 1000

    def coalesce(self, tasks: int) -> Rows:
        return Rows(self.planned, self.start, self.rows, tasks)

    def offset(self, start: int) -> Rows:
        return Rows(self.planned, start, None, self.tasks)

    def limit(self, count: int) -> Rows:
        return Rows(self.planned, self.start, count, self.tasks)

    def toArrowBatchRdd(self) -> Self:
        self.planned.append((self.start, self.rows))
        return self

    def getNumPartitions(self) -> int:
        return self.tasks

    def union(self, other: Rows) -> Self:
        return self


class Files:
    """Makes such frames, and notes which of them are planned."""

    def __init__(self) -> None:
        self.planned: list[tuple[int, int | None]] = []

    def frame(self, paths: list[str], root_depth: int) -> Rows:
        return Rows(self.planned)

    def new(self) -> list[tuple[int, int | None]]:
        """What was planned since the last call."""
        planned = list(self.planned)
        self.planned.clear()
        return planned


def watched(files: Any, listing: Listing, *, missing: str = "fail") -> WatchedSource:
    staging: Any = None
    return WatchedSource(
        "words",
        "words",
        listing,
        SparkFileReader("words", listing, files, staging, root_depth=2),
        bounds=FileBounds(),
        settings=WatchSettings(missing=missing),
        processed=ProcessedFiles(),
        keeps_order=True,
    )


@pytest.fixture
def limit() -> EpochLimit:
    """Records are slow: an epoch may have 100 of them."""
    return EpochLimit(max_records=10_000, max_seconds=10.0)


def test_spark_plans_a_whole_file_once_to_know_how_many_tasks_share_its_parts(limit: EpochLimit) -> None:
    files = Files()
    with closing(watched(files, Listing())) as source:
        source.open(None, [], [])
        eventually(lambda: source.available(HEAD.epoch))
        _, added = source.take(HEAD, limit)
        assert added == [BIG]
        assert files.new() == [(0, None), (0, 25), (25, 25), (50, 25), (75, 25)]
        _, added = source.take(HEAD, limit)
        assert added == []
        assert files.new() == [(100, 25), (125, 25), (150, 25), (175, 25)]
        position = source.position
    assert position == {"kind": "files", "read": 1, "part": {"path": BIG, "rows": 200, "of": 1000}}
    with closing(watched(files, Listing())) as resumed:
        resumed.open(position, [BIG], [])
        assert resumed.available(HEAD.epoch)
        resumed.take(HEAD, limit)
    assert files.new() == [(0, None), (200, 25), (225, 25), (250, 25), (275, 25)], "after a start Spark is asked again"


def test_the_last_part_of_a_file_has_no_end(limit: EpochLimit) -> None:
    files = Files()
    with closing(watched(files, Listing())) as source:
        source.open({"kind": "files", "read": 1, "part": {"path": BIG, "rows": 960, "of": 1000}}, [BIG], [])
        source.take(HEAD, limit)
        assert files.new() == [(0, None), (960, 10), (970, 10), (980, 10), (990, None)]
        assert source.position == {"kind": "files", "read": 1}


def test_a_file_that_is_gone_is_not_continued(limit: EpochLimit) -> None:
    listing = Listing()
    with closing(watched(Files(), listing, missing="skip")) as source:
        source.open({"kind": "files", "read": 1, "part": {"path": BIG, "rows": 100, "of": 1000}}, [BIG], [])
        listing.there = False
        assert source.take(HEAD, limit) == (None, [])
        assert source.take_skipped() == 1
        assert source.position == {"kind": "files", "read": 1}


def test_paths_from_before_are_stored_once(limit: EpochLimit) -> None:
    with closing(watched(Files(), Listing())) as source:
        source.open(None, ["/in/b", BIG, "/in/a"], [])
        _, added = source.take(HEAD, limit)
        assert added == ["/in/a", "/in/b", BIG]
        assert source.take_inherited() == []
        assert source.position == {"kind": "files", "read": 3}
