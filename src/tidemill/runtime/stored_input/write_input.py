"""Writes materialized input as Parquet objects in a storage, without Spark."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from tidemill.checkpoint.storage.storages import Storage
from tidemill.runtime.stored_input.input_index import InputFile, InputPart
from tidemill.runtime.stored_input.stored_parquet import FirstRowsOfGroups

__all__ = ["OBJECT_BYTES", "ROW_GROUP_BYTES", "write_part"]

#: The size of a row group: small enough that an epoch of the default size contains several for each subtask.
ROW_GROUP_BYTES: Final = 4 << 20
#: The size of an object: many row groups, and small enough that a worker, or a process that copies a savepoint, can
#: keep several in memory.
OBJECT_BYTES: Final = 32 << 20


def write_part(
    storage: Storage,
    folder: str,
    name: str,
    batches: Iterable[pa.RecordBatch],
    *,
    row_group_bytes: int = ROW_GROUP_BYTES,
    object_bytes: int = OBJECT_BYTES,
) -> InputPart:
    """Store rows as objects whose names begin with ``name``.

    A row group or an object is complete when it reaches ``row_group_bytes`` or ``object_bytes``. If there are no rows,
    nothing is stored.
    """
    files: list[InputFile] = []
    begun: _Object | None = None

    def store(complete: _Object) -> None:
        file = f"{name}-{len(files):05}.parquet"
        data, rows = complete.finish()
        storage.write(f"{folder}{file}", data)
        files.append(InputFile(file, len(data), rows))

    for group in _row_groups(batches, row_group_bytes):
        begun = begun or _Object(group.schema)
        begun.add(group)
        if begun.size >= object_bytes:
            store(begun)
            begun = None
    if begun is not None:
        store(begun)
    return InputPart(name, tuple(files))


class _Object:
    """A Parquet file in memory. Its footer contains the first rows of its row groups, unless they are large."""

    def __init__(self, schema: pa.Schema) -> None:
        self._bytes = io.BytesIO()
        # The format that Spark writes, with plain Parquet types. Statistics are not used.
        self._writer = pq.ParquetWriter(
            self._bytes, schema, compression="lz4", store_schema=False, write_statistics=False
        )
        self._first_rows = FirstRowsOfGroups(schema)
        self._rows: list[int] = []

    @property
    def size(self) -> int:
        return self._bytes.tell()

    def add(self, group: pa.Table) -> None:
        self._writer.write_table(group, row_group_size=group.num_rows)
        self._first_rows.add(group)
        self._rows.append(group.num_rows)

    def finish(self) -> tuple[bytes, tuple[int, ...]]:
        """Return the contents of the file, and the number of rows in each row group."""
        self._writer.add_key_value_metadata(self._first_rows.metadata())
        self._writer.close()
        return self._bytes.getvalue(), tuple(self._rows)


def _row_groups(batches: Iterable[pa.RecordBatch], size: int) -> Iterator[pa.Table]:
    """Group consecutive rows into non-empty tables of about ``size`` bytes."""
    waiting: list[pa.RecordBatch] = []
    weight = 0
    for piece in (piece for batch in batches for piece in _pieces(batch, size)):
        if waiting and weight + piece.nbytes > size:
            yield pa.Table.from_batches(waiting)
            waiting, weight = [], 0
        waiting.append(piece)
        weight += piece.nbytes
    if waiting:
        yield pa.Table.from_batches(waiting)


def _pieces(batch: pa.RecordBatch, size: int) -> Iterator[pa.RecordBatch]:
    """Split a batch into pieces of nearly equal length, of about ``size`` bytes at most; none for an empty batch."""
    pieces = max(1, -(-batch.nbytes // size))
    rows = max(1, -(-batch.num_rows // pieces))
    for start in range(0, batch.num_rows, rows):
        yield batch.slice(start, rows)
