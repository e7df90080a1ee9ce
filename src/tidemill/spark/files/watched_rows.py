"""The rows of watched files as Spark reads them, for :mod:`tidemill.runtime.watched`."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from functools import reduce
from typing import Any

from pyspark.sql import DataFrame

from tidemill.connectors.file_system.listing import FileListing, ObjectListing
from tidemill.runtime.watched.watched_source import EpochRows
from tidemill.spark.files.file_frames import FileFrames
from tidemill.spark.files.staging import Staging
from tidemill.spark.frames.frames import arrow_schema
from tidemill.spark.jobs.engine import SourceFrames
from tidemill.spark.session.failures import translated

__all__ = ["SparkFileReader", "frame_of"]


def frame_of(rows: EpochRows | None, chain: int) -> SourceFrames:
    """Return the input of a chain."""
    return SourceFrames(None if rows is None else rows.rows, (chain,))


class SparkFileReader:
    """Reads the files of one source. Objects that Spark cannot read are copied first."""

    def __init__(self, named: str, listing: FileListing, frames: FileFrames, staging: Staging, root_depth: int) -> None:
        """``root_depth`` is the number of leading path parts that cannot name columns."""
        self._named = named
        self._listing = listing
        self._frames = frames
        self._staging = staging
        self._root_depth = root_depth

    def schema(self) -> bytes:
        """Return the Arrow schema of the rows."""
        schema: bytes = arrow_schema(self._frames.empty).serialize().to_pybytes()
        return schema

    def rows(self, paths: Sequence[str]) -> SparkFileRows:
        """Return the rows of files as a DataFrame."""
        files, depth = list(paths), self._root_depth
        if isinstance(self._listing, ObjectListing):
            files, depth = self._staging.copies(self._listing, files)
        with _reading(self._named):
            return SparkFileRows(self._named, self._frames.frame(files, depth))


class SparkFileRows:
    """The rows of some files, as a DataFrame."""

    def __init__(self, named: str, frame: DataFrame) -> None:
        self._named = named
        self._frame = frame

    def all(self) -> EpochRows | None:
        """Return all rows as a Java RDD."""
        return self._rows([self._frame])

    def count(self) -> int:
        """Count the rows, which reads the files."""
        with _reading(self._named):
            return self._frame.count()

    def part(self, ranges: Sequence[tuple[int, int]], *, open_end: bool) -> EpochRows | None:
        """Return ranges of rows, one partition for each."""
        in_order = self._frame.coalesce(1)
        frames = [in_order.offset(start).limit(stop - start) for start, stop in ranges]
        if open_end:
            frames[-1] = in_order.offset(ranges[-1][0])
        return self._rows(frames)

    def _rows(self, frames: Sequence[DataFrame]) -> EpochRows | None:
        with _reading(self._named):
            rdds = [rdd for frame in frames if (rdd := frame._jdf.toArrowBatchRdd()).getNumPartitions()]
            if not rdds:
                return None
            whole: Any = reduce(lambda one, other: one.union(other), rdds)
            return EpochRows(whole, whole.getNumPartitions())


def _reading(named: str) -> AbstractContextManager[None]:
    return translated(f"read the source {named}")
