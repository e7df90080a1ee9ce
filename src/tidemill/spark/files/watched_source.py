"""A source that watches files: it selects the files that the next epoch reads, or a range of rows of a large file.

An epoch reads whole files. Its limit in records is converted to bytes with an estimated record size. If records are
slow to process, and a single file has more records than an epoch may have, the file is read in parts over several
epochs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import reduce
from typing import Any, Final

from pyspark.sql import DataFrame

from tidemill.checkpoint.model import Epoch, Manifest
from tidemill.connectors.file_system.listing import FileListing, FoundFile, ObjectListing
from tidemill.connectors.ranges import cut_range
from tidemill.runtime.driver.epoch_limit import EpochLimit
from tidemill.runtime.driver.file_enumerator import FileBounds, FileEnumerator
from tidemill.runtime.driver.files_read import FilePart, files_position, part_in
from tidemill.spark.files.file_frames import FileFrames
from tidemill.spark.files.processed_files import ProcessedFiles
from tidemill.spark.files.staging import Staging
from tidemill.spark.frames.frames import arrow_schema
from tidemill.spark.session.failures import translated

__all__ = ["WatchSettings", "WatchedSource"]

#: The assumed size of a record in bytes until an epoch has measured it. It converts the limit of an epoch to bytes.
_RECORD_BYTES: Final = 100


@dataclass(frozen=True)
class WatchSettings:
    """The order of files, the interval of the search for new files, and the handling of files that no longer exist."""

    missing: str = "fail"
    interval: float | None = None
    latest_first: bool = False
    by_name: bool = False


@dataclass(frozen=True)
class _BegunFile:
    """A file that is read over several epochs, and the number of tasks that would read all of it in one epoch.

    Spark must plan the whole file to determine that number, so it is computed only once. It is None after a start.
    """

    part: FilePart
    tasks: int | None = None


class WatchedSource:
    """The files of one source. Call :meth:`open` first. Not thread-safe."""

    def __init__(
        self,
        uid: str,
        name: str,
        listing: FileListing,
        frames: FileFrames,
        staging: Staging,
        *,
        root_depth: int,
        bounds: FileBounds,
        settings: WatchSettings,
        processed: ProcessedFiles,
        keeps_order: bool,
    ) -> None:
        """``root_depth`` is the number of leading path parts that cannot name columns. ``bounds`` are the limits that
        the program sets. With ``keeps_order``, Spark reads the rows of a file in the same order each time."""
        # configuration
        self.uid = uid
        self._name = name
        self._listing = listing
        self._frames = frames
        self._staging = staging
        self._root_depth = root_depth
        self._bounds = bounds
        self._settings = settings
        self._keeps_order = keeps_order
        # transient
        self._files: FileEnumerator | None = None
        self._processed = processed
        #: The size of a record, and the epoch that will measure it, with the size of its files.
        self._record_bytes: float = _RECORD_BYTES
        self._weighing: tuple[Epoch, int] = (Epoch(0), 0)
        # checkpointed
        self._read = 0
        self._begun: _BegunFile | None = None
        #: Paths that were read before this kind of position existed. They are stored with the next epoch.
        self._inherited: frozenset[str] = frozenset()

    def open(self, position: Any, read: Collection[str], begun: Iterable[str]) -> None:
        """Resume after the files in ``read``, starting with those in ``begun``. ``position`` is None if none is stored.

        Raises :class:`~tidemill.errors.LostInputError` if a file that an epoch had begun to read no longer exists.
        """
        self._inherited = frozenset(read) if position is None else frozenset()
        self._read = len(read)
        part = part_in(position)
        self._begun = None if part is None else _BegunFile(part)
        self._files = FileEnumerator(
            self._listing,
            read,
            begun,
            where=f"source {self._name!r} (uid {self.uid})",
            missing=self._settings.missing,
            interval=self._settings.interval,
            latest_first=self._settings.latest_first,
            by_name=self._settings.by_name,
        )

    def schema(self) -> bytes:
        """Return the Arrow schema of the rows."""
        schema: bytes = arrow_schema(self._frames.empty).serialize().to_pybytes()
        return schema

    @property
    def position(self) -> dict[str, Any]:
        """The position after the files of all epochs so far."""
        return files_position(self._read, None if self._begun is None else self._begun.part)

    @property
    def pending_files(self) -> int:
        """The number of files that are waiting to be read."""
        return 0 if self._files is None else self._files.pending_files

    def available(self, epoch: Epoch) -> bool:
        """Whether there is something to read after the commit of an epoch. Searches for new files in the background."""
        self._processed.clean(epoch)
        waits = self._files is not None and self._files.available()
        return waits or self._begun is not None

    def take_skipped(self) -> int:
        """Return the number of files skipped since the previous call because they no longer existed."""
        if self._files is None:
            return 0
        skipped, self._files.skipped = self._files.skipped, 0
        return skipped

    def take_inherited(self) -> list[str]:
        """Return the paths to store with the next epoch although it does not read them."""
        inherited, self._inherited = sorted(self._inherited), frozenset()
        return inherited

    def take(self, head: Manifest, limit: EpochLimit) -> tuple[Any, list[str]]:
        """Return the rows of the epoch after ``head`` as a Java RDD (None without rows), and the paths to store."""
        if self._files is None:
            return None, self.take_inherited()
        self._weigh(head)
        epoch = Epoch(head.epoch + 1)
        rows, begun, done = self._next_rows(self._files, epoch, limit)
        self._read += len(begun)
        self._processed.reading(done, epoch)
        return rows, [*self.take_inherited(), *begun]

    def close(self) -> None:
        """Release the listing."""
        if self._files is not None:
            self._files.close()

    def _next_rows(self, files: FileEnumerator, epoch: Epoch, limit: EpochLimit) -> tuple[Any, list[str], list[str]]:
        """Return the rows of an epoch, the files that it starts to read, and the files that it has read completely."""
        if self._begun is not None and files.is_there(self._begun.part.path):
            return self._next_part(self._frame([self._begun.part.path]), self._begun, limit, [])
        self._begun = None
        taken = files.take(self._bounds_for(limit))
        begun = [file.path for file in taken]
        if not begun:
            return None, [], []
        frame = self._frame(begun)
        if self._has_too_many(taken, limit):
            with self._reading():
                rows = frame.count()
            return self._next_part(frame, _BegunFile(FilePart(begun[0], 0, rows)), limit, begun)
        self._weighing = (epoch, sum(file.size for file in taken))
        return self._rdd(frame), begun, begun

    def _next_part(
        self, frame: DataFrame, file: _BegunFile, limit: EpochLimit, begun: list[str]
    ) -> tuple[Any, list[str], list[str]]:
        """Return the next rows of a file that is read over several epochs, or all remaining rows if records are fast.

        The rows are divided among as many tasks as would read the whole file. Each task reads the file from its
        beginning, in the order of its rows, and skips the rows of other tasks. If records are slow, this takes only a
        small part of an epoch. The number of rows is an estimate (Spark counts records that it cannot parse in its own
        way), so the last task of the last part has no upper bound.
        """
        part = file.part
        tasks = file.tasks or self._tasks_for(frame)
        end = part.rows + limit.records
        last = end >= part.of or limit.records >= limit.max_records
        self._begun = None if last else _BegunFile(FilePart(part.path, end, part.of), tasks)
        in_order = frame.coalesce(1)
        ranges = cut_range(part.rows, part.of if last else end, tasks) or [(part.rows, part.rows)]
        frames = [in_order.offset(start).limit(stop - start) for start, stop in ranges]
        if last:
            frames[-1] = in_order.offset(ranges[-1][0])
        rdds = [rdd for each in frames if (rdd := self._rdd(each)) is not None]
        return reduce(_union, rdds) if rdds else None, begun, [part.path] if last else []

    def _tasks_for(self, frame: DataFrame) -> int:
        whole = self._rdd(frame)
        return 1 if whole is None else int(whole.getNumPartitions())

    def _frame(self, paths: list[str]) -> DataFrame:
        """Return the rows of files."""
        depth = self._root_depth
        if isinstance(self._listing, ObjectListing):
            paths, depth = self._staging.copies(self._listing, paths)
        with self._reading():
            return self._frames.frame(paths, depth)

    def _rdd(self, frame: DataFrame) -> Any:
        with self._reading():
            rdd: Any = frame._jdf.toArrowBatchRdd()
            return rdd if rdd.getNumPartitions() else None

    def _reading(self) -> AbstractContextManager[None]:
        return translated(f"read the source {self._name!r} (uid {self.uid})")

    def _weigh(self, head: Manifest) -> None:
        """Update the record size from the last epoch, if it is committed."""
        epoch, size = self._weighing
        if size and epoch == head.epoch:
            records = head.metrics.get(f"{self.uid}.numRecordsOut", 0)
            self._record_bytes = size / records if records else self._record_bytes

    def _bounds_for(self, limit: EpochLimit) -> FileBounds:
        """Return the limits of an epoch. If records are not slow, only the limits that the program sets apply."""
        if self._bounds != FileBounds() and limit.records >= limit.max_records:
            return self._bounds
        return self._bounds.at_most(max(1, int(limit.records * self._record_bytes)))

    def _has_too_many(self, taken: list[FoundFile], limit: EpochLimit) -> bool:
        """Whether records are slow and the next file has more records than an epoch may have."""
        return (
            len(taken) == 1
            and limit.records < limit.max_records
            and taken[0].size > 2 * limit.records * self._record_bytes
            and self._keeps_order
        )


def _union(one: Any, other: Any) -> Any:
    return one.union(other)
