"""Reads Parquet files in a storage in place: only the footer of an object and the requested row groups are fetched.

The driver needs the first row of every row group, to read row groups in the order of event time. In files that Tidemill
writes, the footer contains these rows, as an Arrow stream in base64.
"""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from tidemill.checkpoint.storage.storages import LocalStorage, Storage
from tidemill.connectors.spark.schema_types import schema_from_json
from tidemill.connectors.spark.type_mapping import arrow_schema_of

#: The metadata key of the schema in Parquet files that Spark writes.
_SPARK_SCHEMA: Final = b"org.apache.spark.sql.parquet.row.metadata"
#: The metadata key of the first rows of row groups in Parquet files that Tidemill writes.
_FIRST_ROWS: Final = b"tidemill.first-rows"
#: The maximum size of the first rows, in bytes. A reader that opens a file fetches its last 64 KB. In base64, the rows
#: take at most 43 KB of these, so the footer is still read in one request.
_MOST_FIRST_ROWS: Final = 32 << 10


def opened(storage: Storage, name: str, size: int) -> pq.ParquetFile:
    """Open the Parquet file of this name and size and read its footer. The caller must close it."""
    # Spark's INT96 timestamps have a range of millennia, which fits in microseconds but not in nanoseconds.
    if isinstance(storage, LocalStorage):
        return pq.ParquetFile(storage.path(name), coerce_int96_timestamp_unit="us")
    # The columns of a row group are adjacent: pre_buffer reads them with one request instead of one per column.
    return pq.ParquetFile(_StoredBytes(storage, name, size), pre_buffer=True, coerce_int96_timestamp_unit="us")


class FirstRowsOfGroups:
    """Collects the first rows of row groups for the footer of their file."""

    def __init__(self, schema: pa.Schema) -> None:
        self._bytes = io.BytesIO()
        self._stream = pa.ipc.new_stream(self._bytes, schema)

    def add(self, group: pa.Table) -> None:
        """Record the first row of the next row group."""
        if self._bytes.tell() <= _MOST_FIRST_ROWS:
            self._stream.write_table(group.slice(0, 1))

    def metadata(self) -> dict[bytes, bytes]:
        """Return the metadata for the footer, which is empty if the rows are too large."""
        self._stream.close()
        data = self._bytes.getvalue()
        return {_FIRST_ROWS: base64.b64encode(data)} if len(data) <= _MOST_FIRST_ROWS else {}


class RowGroupReader:
    """Reads row groups of a file as Arrow batches, with the types of Spark's columns."""

    def __init__(self, file: pq.ParquetFile) -> None:
        self._file = file
        self._moments = _moments(file)

    def rows(self, group: int, batch_size: int, start: int = 0, count: int | None = None) -> Iterator[pa.RecordBatch]:
        """Read the rows of a row group, or ``count`` of them from ``start``, in batches of up to ``batch_size``."""
        left = count
        for batch in self._file.iter_batches(batch_size=batch_size, row_groups=[group]):
            wanted = batch.slice(start, left)
            start = max(0, start - batch.num_rows)
            if left is not None:
                left -= wanted.num_rows
            if wanted.num_rows:
                yield _zoned(wanted, self._moments)
            if left == 0:
                return

    def first_rows(self) -> list[pa.RecordBatch]:
        """Return the first row of each row group if the footer contains them, else an empty list."""
        data = (self._file.metadata.metadata or {}).get(_FIRST_ROWS)
        if data is None:
            return []
        with pa.ipc.open_stream(base64.b64decode(data)) as stream:
            return list(stream)


class _StoredBytes(io.RawIOBase):
    """A file in which each read is a range read of a storage. ``size`` must be the exact size of the object."""

    def __init__(self, storage: Storage, name: str, size: int) -> None:
        super().__init__()
        self._storage = storage
        self._name = name
        self._size = size
        self._place = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._place

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._place, io.SEEK_END: self._size}[whence]
        self._place = max(0, start + offset)
        return self._place

    def read(self, size: int = -1, /) -> bytes:
        left = max(0, self._size - self._place)
        data = self._storage.read_range(self._name, self._place, left if size < 0 else min(size, left))
        self._place += len(data)
        return data

    def readinto(self, buffer: Any, /) -> int:
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)


def _moments(file: pq.ParquetFile) -> dict[int, pa.DataType]:
    """Return the columns that contain timestamps, and their types. Spark writes timestamps in UTC, without a zone."""
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
    """Add the zone to the timestamps of a batch, so that they are not interpreted as timestamps without time zone."""
    if not moments:
        return batch
    columns = [
        column.cast(moments[index]) if index in moments else column for index, column in enumerate(batch.columns)
    ]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)
