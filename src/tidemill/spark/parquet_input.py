"""Bounded DataFrames: written once as Parquet into the job's directory, then read by the workers epoch by epoch.

A DataFrame gives no promise to yield the same rows twice, nor a position inside itself. Materialised, it has both: a
position is the number of a row group, and workers read row groups directly, without rows ever passing the JVM.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import Observation, functions

from tidemill.checkpoint.names import input_name, input_prefix
from tidemill.checkpoint.storage import AlreadyExistsError, NotFoundError, Storage
from tidemill.common.typeinfo import TypeInformation
from tidemill.datastream.sources import Position, Split, SplitEnumerator, SplitSource
from tidemill.errors import CheckpointError
from tidemill.runtime.operators.source import COLUMN_BATCH_SIZE
from tidemill.spark.failures import translated

#: Row groups small enough that an epoch of the default size holds several for each subtask.
_ROW_GROUP_BYTES: Final = 4 << 20


@dataclass(frozen=True)
class RowGroup:
    """One row group of one file."""

    file: str
    index: int
    rows: int


class ParquetSource(SplitSource):
    """Reads the Parquet files of a directory in the order of their names, row group by row group."""

    bounded = True
    replayable = True

    def __init__(self, directory: str, type_info: TypeInformation | None, partition_by: tuple[str, ...] = ()) -> None:
        self.directory = directory
        self.type_info = type_info
        self.partition_by = partition_by

    def create_enumerator(self, position: Position | None) -> SplitEnumerator:
        """An enumerator from the row group with this number on."""
        groups = []
        for path in sorted(Path(self.directory).glob("*.parquet")):
            metadata = pq.read_metadata(path)
            groups += [
                RowGroup(str(path), index, metadata.row_group(index).num_rows)
                for index in range(metadata.num_row_groups)
            ]
        return _RowGroups(groups, 0 if position is None else int(position))

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        """The records of some row groups, as columns."""
        groups: Sequence[RowGroup] = split.payload
        for group in groups:
            with pq.ParquetFile(group.file) as file:
                yield from file.iter_batches(batch_size=COLUMN_BATCH_SIZE, row_groups=[group.index])


class _RowGroups(SplitEnumerator):
    def __init__(self, groups: list[RowGroup], start: int) -> None:
        self._groups = groups
        self._next = start

    def next_splits(self, parallelism: int, max_records: int) -> Sequence[Split]:
        chosen: list[RowGroup] = []
        records = 0
        while self._next < len(self._groups) and (not chosen or records < max_records):
            group = self._groups[self._next]
            if chosen and records + group.rows > max_records:
                break
            chosen.append(group)
            records += group.rows
            self._next += 1
        return [Split(part, sum(group.rows for group in part)) for part in balanced(chosen, parallelism)]

    def position(self) -> Position:
        return self._next

    @property
    def finished(self) -> bool:
        return self._next >= len(self._groups)


def balanced(groups: Sequence[RowGroup], parts: int) -> list[list[RowGroup]]:
    """Neighbouring row groups in up to ``parts`` lists with nearly equal numbers of rows; order is kept."""
    total = sum(group.rows for group in groups)
    lists: list[list[RowGroup]] = []
    done = 0
    for group in groups:
        part = min(parts - 1, done * parts // max(1, total))
        while len(lists) <= part:
            lists.append([])
        lists[part].append(group)
        done += group.rows
    return [part for part in lists if part]


def materialise(dataframe: Any, storage: Storage, root: Path, uid: str) -> Path:
    """Write a bounded source's DataFrame as Parquet, unless an earlier start of the job has done so; where it is.

    Each start writes into a folder of its own. Which one counts is decided by who creates the marker: of two drivers
    that start at the same time both read the rows of one.
    """
    marker = input_name(uid, "chosen")
    with suppress(NotFoundError):
        return root / input_prefix(uid) / storage.read(marker).decode()
    token = uuid.uuid4().hex
    directory = root / input_prefix(uid) / token
    rows = Observation()
    with translated():
        writer = dataframe.observe(rows, functions.count(functions.lit(1)).alias("rows")).write
        writer = writer.option("parquet.block.size", str(_ROW_GROUP_BYTES)).option("compression", "lz4_raw")
        writer.parquet(str(directory))
        written = rows.get["rows"]
    seen = sum(pq.read_metadata(path).num_rows for path in directory.glob("*.parquet"))
    if seen != written:
        raise CheckpointError(
            f"Spark wrote {written} rows of input to {directory}, but the driver sees {seen} of them there: the "
            "checkpoint directory (execution.checkpointing.dir) must be one that all executors and the driver share"
        )
    try:
        storage.create(marker, token.encode())
    except AlreadyExistsError:
        shutil.rmtree(directory, ignore_errors=True)
        return root / input_prefix(uid) / storage.read(marker).decode()
    return directory
