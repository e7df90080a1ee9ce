"""Bounded DataFrames: written once as Parquet beside the job's checkpoints, then read by the workers epoch by epoch.

A DataFrame gives no promise to yield the same rows twice, nor a position inside itself. Materialised, it has both: a
position counts row groups, and workers read row groups directly, without rows ever passing the JVM. Which ones an epoch
reads is described in :mod:`tidemill.spark.bounded.row_groups`.

Into a directory Spark itself writes the files; objects of a store are written by its tasks
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

    With ``has_time`` somebody makes watermarks: each part of the input is a partition, and these are read side by side.
    ``strategy`` tells in which order; without one it is not known, and they are read in turn.
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
        """An enumerator of what was not read yet."""
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
        """The records of some row groups, as columns."""
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
            with suppress(Exception):  # a worker will tell of it
                decoded = self.decoder.decode(rows)
                return self._first_rows.beginning(Batch(decoded.values, decoded.timestamps))
            return Beginning()
        return self._first_rows.beginning(ColumnBatch(rows, RecordShape.of(self.type_info)))

    def _first_row(self, group: RowGroup) -> pa.RecordBatch | None:
        """The first row of a row group, which is asked for once; others of its file may come along, and are kept."""
        if (group.file, group.index) in self._waiting:
            return self._waiting.pop((group.file, group.index))
        with opened(self._storage, group.file, group.size) as file:
            reader = RowGroupReader(file)
            told = reader.first_rows()
            if not told:
                return next(reader.rows(group.index, 1), None)
        self._waiting.update(((group.file, index), told[index]) for index in range(group.index + 1, len(told)))
        return told[group.index]


def materialise(dataframe: Callable[[], DataFrame], storage: Storage, uid: str) -> str:
    """Write a bounded source's DataFrame as Parquet, unless an earlier start of the job has done so; into which folder.

    Each start writes into a folder of its own. Which one counts is decided by who creates the marker: of two drivers
    that start at the same time both read the rows of one.
    """
    marker = input_name(uid, CHOSEN)
    with suppress(NotFoundError):
        return _folder(uid, storage.read(marker))
    token = uuid.uuid4().hex.encode()
    folder = _folder(uid, token)
    with translated(f"read the source with uid {uid!r}"):
        if isinstance(storage, LocalStorage):
            _write_files(dataframe(), storage, folder)
        else:
            write_objects(dataframe(), storage, folder)
    # Attempts of tasks that do not count, and earlier starts, may have left something. It is looked for before ours
    # counts: what appears later may be the input of a driver that has started the job anew.
    left = [] if isinstance(storage, LocalStorage) else _left_behind(storage, uid, folder)
    with suppress(AlreadyExistsError):  # by another driver, or by us: the answer to a request may be lost
        storage.create(marker, token)
    chosen = _folder(uid, storage.read(marker))
    if chosen != folder:
        _remove(storage, folder)
    else:
        with _told():
            storage.delete(left)
    return chosen


def remove_input(storage: Storage) -> None:
    """Remove all materialised input of a job. What cannot be removed is told, and stays."""
    _remove(storage, INPUT)


def _folder(uid: str, token: bytes) -> str:
    return f"{input_prefix(uid)}{token.decode()}/"


def _write_files(frame: DataFrame, storage: LocalStorage, folder: str) -> None:
    """Let Spark write a frame, and see to it that what its executors have written is here."""
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
            "checkpoint directory (execution.checkpointing.dir) must be one that all executors and the driver share"
        )
    storage.make_durable(folder)  # Spark does not wait for the disk, and an epoch relies on it


def _left_behind(storage: Storage, uid: str, folder: str) -> list[str]:
    """What is in the place of a source's input beside what counts of a folder."""
    kept = {input_name(uid, CHOSEN), *names_in(storage, folder)}
    return [name for name in storage.list(input_prefix(uid)) if name not in kept]


def _remove(storage: Storage, prefix: str) -> None:
    if isinstance(storage, LocalStorage):
        shutil.rmtree(storage.root / prefix, ignore_errors=True)
        return
    with _told():
        # The markers go first: input of which a part is removed must not be taken for the whole.
        storage.delete(sorted(storage.list(prefix), key=lambda name: not name.endswith(f"/{CHOSEN}")))


@contextmanager
def _told() -> Iterator[None]:
    """What cannot be removed is told, and stays."""
    try:
        yield
    except CheckpointError as error:
        log.warning("input that is not needed any more was not removed: %s", error)
