"""Bounded DataFrames: written once as Parquet into the job's directory, then read by the workers epoch by epoch.

A DataFrame gives no promise to yield the same rows twice, nor a position inside itself. Materialised, it has both: a
position counts row groups, and workers read row groups directly, without rows ever passing the JVM. Which ones an epoch
reads is told in :mod:`tidemill.spark.row_groups`.
"""

from __future__ import annotations

import json
import shutil
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, Observation, functions

from tidemill.checkpoint.names import input_name, input_prefix
from tidemill.checkpoint.storage import AlreadyExistsError, NotFoundError, Storage
from tidemill.common.typeinfo import TypeInformation
from tidemill.common.watermark_strategy import WatermarkStrategy
from tidemill.datastream.connectors.spark.schema_types import schema_from_json
from tidemill.datastream.connectors.spark.type_mapping import arrow_schema_of
from tidemill.datastream.sources import Position, RowDecoder, Split, SplitEnumerator, SplitSource
from tidemill.errors import CheckpointError
from tidemill.runtime.columns import ColumnBatch, Shape
from tidemill.runtime.operators.source import COLUMN_BATCH_SIZE
from tidemill.runtime.records import Batch
from tidemill.spark.failures import translated
from tidemill.spark.first_rows import FirstRows
from tidemill.spark.row_groups import Beginning, RowGroup, RowGroups

#: Row groups small enough that an epoch of the default size holds several for each subtask.
_ROW_GROUP_BYTES: Final = 4 << 20
#: Where Spark keeps the schema in a Parquet file of its own.
_SPARK_SCHEMA: Final = b"org.apache.spark.sql.parquet.row.metadata"


class ParquetSource(SplitSource):
    """Reads the Parquet files of a directory, row group by row group.

    With ``has_time`` somebody makes watermarks: each file is a partition, and files are read side by side. ``strategy``
    tells in which order; without one it is not known, and they are read in turn.
    """

    bounded = True
    replayable = True
    tells_ends = True

    def __init__(
        self,
        directory: str,
        type_info: TypeInformation | None,
        partition_by: tuple[str, ...] = (),
        decoder: RowDecoder | None = None,
        *,
        has_time: bool = False,
        strategy: WatermarkStrategy | None = None,
    ) -> None:
        self.directory = directory
        self.type_info = type_info
        self.partition_by = partition_by
        self.decoder = decoder
        self._has_time = has_time
        self._first_rows = FirstRows(strategy)

    def create_enumerator(self, position: Position | None) -> SplitEnumerator:
        """An enumerator of what was not read yet."""
        files = []
        for path in sorted(Path(self.directory).glob("*.parquet")):
            metadata = pq.read_metadata(path)
            groups = [
                RowGroup(str(path), index, metadata.row_group(index).num_rows)
                for index in range(metadata.num_row_groups)
            ]
            if groups:
                files.append(groups)
        return RowGroups(files, position, self._beginning if self._has_time else None)

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        """The records of some row groups, as columns."""
        groups: Sequence[RowGroup] = split.payload
        for group in groups:
            yield from self._rows(group, COLUMN_BATCH_SIZE)

    def _beginning(self, group: RowGroup) -> Beginning:
        rows = next(self._rows(group, 1), None)
        if rows is None:
            return Beginning()
        if self.decoder is not None:
            with suppress(Exception):  # a worker will tell of it
                decoded = self.decoder.decode(rows)
                return self._first_rows.beginning(Batch(decoded.values, decoded.timestamps))
            return Beginning()
        return self._first_rows.beginning(ColumnBatch(rows, Shape.of(self.type_info)))

    @staticmethod
    def _rows(group: RowGroup, batch_size: int) -> Iterator[pa.RecordBatch]:
        # Spark's own form of moments has a range of millennia, which microseconds hold and nanoseconds do not.
        with pq.ParquetFile(group.file, coerce_int96_timestamp_unit="us") as file:
            moments = _moments(file)
            for batch in file.iter_batches(batch_size=batch_size, row_groups=[group.index]):
                yield _zoned(batch, moments)


def _moments(file: pq.ParquetFile) -> dict[int, pa.DataType]:
    """The columns with moments in them, and their types: Spark writes them without a zone, which is UTC."""
    described = (file.schema_arrow.metadata or {}).get(_SPARK_SCHEMA)
    if described is None:
        return {}
    found = {}
    for index, field in enumerate(json.loads(described)["fields"]):
        if '"timestamp"' in json.dumps(field["type"]):
            schema = schema_from_json({"type": "struct", "fields": [field]})
            found[index] = arrow_schema_of(schema).field(0).type
    return found


def _zoned(batch: pa.RecordBatch, moments: dict[int, pa.DataType]) -> pa.RecordBatch:
    """A batch whose moments have a zone, so that they are not taken for times of no zone."""
    if not moments:
        return batch
    columns = [
        column.cast(moments[index]) if index in moments else column for index, column in enumerate(batch.columns)
    ]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def materialise(dataframe: Callable[[], DataFrame], storage: Storage, root: Path, uid: str) -> Path:
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
    with translated(f"read the source with uid {uid!r}"):
        writer = dataframe().observe(rows, functions.count(functions.lit(1)).alias("rows")).write
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
