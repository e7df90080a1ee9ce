"""Bounded DataFrames, written once as Parquet next to the job's checkpoints, then read by the workers epoch by epoch.

A DataFrame neither guarantees to produce the same rows twice, nor has positions. Materialized as Parquet, it has both:
a position is a number of row groups, and workers read row groups directly, without passing rows through the JVM.
:mod:`tidemill.spark.bounded.row_groups` describes which row groups an epoch reads.

In a directory, Spark itself writes the files. In an object store, Spark's tasks write the objects
(:mod:`tidemill.spark.bounded.object_input`).
"""

from __future__ import annotations

import logging
import shutil
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import groupby

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, Observation, functions

from tidemill.checkpoint.names import INPUT, input_name, input_prefix
from tidemill.checkpoint.portable import CHOSEN
from tidemill.checkpoint.storage.storages import AlreadyExistsError, LocalStorage, NotFoundError, Storage
from tidemill.common.typeinfo import TypeInformation
from tidemill.common.watermark_strategy import WatermarkStrategy
from tidemill.connectors.sources import Position, RowDecoder, Split, SplitEnumerator, SplitSource
from tidemill.errors import CheckpointError
from tidemill.runtime.batch.columns import ColumnBatch, RecordShape
from tidemill.runtime.batch.records import Batch
from tidemill.runtime.operators.source import COLUMN_BATCH_SIZE
from tidemill.spark.bounded.first_rows import FirstRows
from tidemill.spark.bounded.input_index import names_in, parts_of
from tidemill.spark.bounded.object_input import ROW_GROUP_BYTES, write_objects
from tidemill.spark.bounded.row_groups import Beginning, RowGroup, RowGroups
from tidemill.spark.bounded.stored_parquet import RowGroupReader, opened
from tidemill.spark.session.failures import translated

log = logging.getLogger(__name__)


class ParquetSource(SplitSource):
    """Reads the Parquet files in a folder of a storage (its name ends with a slash), row group by row group.

    ``has_time`` indicates that the program generates watermarks from this source. Each part of the input is then a
    partition, and all partitions are read concurrently, in the order of event time. The event time comes from
    ``strategy``; without one it is unknown, and the partitions are read in turn.
    """

    bounded = True
    replayable = True
    tells_ends = True

    def __init__(
        self,
        storage: Storage,
        folder: str,
        type_info: TypeInformation | None,
        partition_by: tuple[str, ...] = (),
        decoder: RowDecoder | None = None,
        *,
        has_time: bool = False,
        strategy: WatermarkStrategy | None = None,
    ) -> None:
        self.folder = folder
        self.type_info = type_info
        self.partition_by = partition_by
        self.decoder = decoder
        self._storage = storage
        self._has_time = has_time
        self._first_rows = FirstRows(strategy)
        self._waiting: dict[tuple[str, int], pa.RecordBatch] = {}

    def create_enumerator(self, position: Position | None) -> SplitEnumerator:
        """Create an enumerator of the row groups that have not been read yet."""
        parts = [
            [
                RowGroup(f"{self.folder}{file.name}", index, rows, part.name, file.size)
                for file in part.files
                for index, rows in enumerate(file.rows)
            ]
            for part in parts_of(self._storage, self.folder)
        ]
        return RowGroups([part for part in parts if part], position, self._beginning if self._has_time else None)

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        """Read the records of some row groups, as columns."""
        groups: Sequence[RowGroup] = split.payload
        for (name, size), neighbours in groupby(groups, lambda group: (group.file, group.size)):
            with opened(self._storage, name, size) as file:
                reader = RowGroupReader(file)
                for group in neighbours:
                    yield from reader.rows(group.index, COLUMN_BATCH_SIZE, group.start, group.rows)

    def _beginning(self, group: RowGroup) -> Beginning:
        rows = self._first_row(group)
        if rows is None:
            return Beginning()
        if self.decoder is not None:
            with suppress(Exception):  # a worker will report it
                decoded = self.decoder.decode(rows)
                return self._first_rows.beginning(Batch(decoded.values, decoded.timestamps))
            return Beginning()
        return self._first_rows.beginning(ColumnBatch(rows, RecordShape.of(self.type_info)))

    def _first_row(self, group: RowGroup) -> pa.RecordBatch | None:
        """Return the first row of a row group. Each is requested once; first rows of later row groups are cached."""
        if (group.file, group.index) in self._waiting:
            return self._waiting.pop((group.file, group.index))
        with opened(self._storage, group.file, group.size) as file:
            reader = RowGroupReader(file)
            told = reader.first_rows()
            if not told:
                return next(reader.rows(group.index, 1), None)
        self._waiting.update(((group.file, index), told[index]) for index in range(group.index + 1, len(told)))
        return told[group.index]


def materialise(dataframe: Callable[[], DataFrame], storage: Storage, uid: str, name: str = "") -> str:
    """Write a bounded source's DataFrame as Parquet, unless an earlier start of the job did so, and return the folder.

    Each start writes to its own folder. The driver that creates the marker decides which folder is used: two drivers
    that start at the same time both read the rows of the same one. ``name`` is what errors call the source.
    """
    marker = input_name(uid, CHOSEN)
    with suppress(NotFoundError):
        return _folder(uid, storage.read(marker))
    token = uuid.uuid4().hex.encode()
    folder = _folder(uid, token)
    with translated(f"read the source {name or f'with uid {uid!r}'}"):
        if isinstance(storage, LocalStorage):
            _write_files(dataframe(), storage, folder)
        else:
            write_objects(dataframe(), storage, folder)
    # Failed task attempts and earlier starts may have left objects. List them before the marker is created: objects
    # that appear later may be the input of a driver that has restarted the job.
    left = [] if isinstance(storage, LocalStorage) else _left_behind(storage, uid, folder)
    with suppress(AlreadyExistsError):  # by another driver, or by this one: the response to a request may be lost
        storage.create(marker, token)
    chosen = _folder(uid, storage.read(marker))
    if chosen != folder:
        _remove(storage, folder)
    else:
        with _told():
            storage.delete(left)
    return chosen


def remove_input(storage: Storage) -> None:
    """Remove all materialized input of a job. Objects that cannot be removed stay, with a warning in the log."""
    _remove(storage, INPUT)


def _folder(uid: str, token: bytes) -> str:
    return f"{input_prefix(uid)}{token.decode()}/"


def _write_files(frame: DataFrame, storage: LocalStorage, folder: str) -> None:
    """Let Spark write a frame, and check that the driver sees the files that the executors have written."""
    directory = storage.root / folder
    rows = Observation()
    writer = frame.observe(rows, functions.count(functions.lit(1)).alias("rows")).write
    writer = writer.option("parquet.block.size", str(ROW_GROUP_BYTES)).option("compression", "lz4_raw")
    writer.parquet(str(directory))
    written = rows.get["rows"]
    seen = sum(pq.read_metadata(path).num_rows for path in directory.glob("*.parquet"))
    if seen != written:
        raise CheckpointError(
            f"Spark wrote {written} rows of input to {directory}, but the driver sees {seen} of them there: the "
            "checkpoint directory (execution.checkpointing.dir) must be shared by all executors and the driver"
        )
    storage.make_durable(folder)  # Spark does not sync its files to disk, but epochs rely on them


def _left_behind(storage: Storage, uid: str, folder: str) -> list[str]:
    """Return the names of all objects of a source's input, except the marker and those in the index of ``folder``."""
    kept = {input_name(uid, CHOSEN), *names_in(storage, folder)}
    return [name for name in storage.list(input_prefix(uid)) if name not in kept]


def _remove(storage: Storage, prefix: str) -> None:
    if isinstance(storage, LocalStorage):
        shutil.rmtree(storage.root / prefix, ignore_errors=True)
        return
    with _told():
        # Delete the markers first: partially removed input must not be mistaken for complete input.
        storage.delete(sorted(storage.list(prefix), key=lambda name: not name.endswith(f"/{CHOSEN}")))


@contextmanager
def _told() -> Iterator[None]:
    """Log a warning if something cannot be removed."""
    try:
        yield
    except CheckpointError as error:
        log.warning("input that is no longer needed was not removed: %s", error)
