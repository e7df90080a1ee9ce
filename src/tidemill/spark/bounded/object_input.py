"""Bounded DataFrames as Parquet objects in a storage, written by the tasks that compute the rows.

Spark's own writer would need its own libraries and credentials for an object store. The name of each object contains a
token of the task attempt, because a task that is retried stores its rows twice. Only the objects of the attempt whose
result Spark accepts are valid, and the index lists them. A task keeps one object in memory, not its whole partition.
"""

from __future__ import annotations

import io
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.core.rdd import RDD
from pyspark.serializers import NoOpSerializer
from pyspark.sql import DataFrame, SparkSession

from tidemill.checkpoint.storage.storages import Storage
from tidemill.connectors.spark.type_mapping import arrow_schema_of, schema_of
from tidemill.errors import GraphError
from tidemill.spark.bounded.input_index import InputFile, InputPart, write_index
from tidemill.spark.bounded.stored_parquet import FirstRowsOfGroups
from tidemill.spark.frames.frames import arrow_schema

#: The size of a row group: small enough that an epoch of the default size contains several for each subtask.
ROW_GROUP_BYTES: Final = 4 << 20
#: The size of an object: many row groups, and small enough that a worker, or a process that copies a savepoint, can
#: keep several in memory.
OBJECT_BYTES: Final = 32 << 20


def write_objects(frame: DataFrame, storage: Storage, folder: str) -> None:
    """Store the rows of a frame in a folder (whose name ends with a slash), and the index that lists the objects."""
    if not frame.columns:
        raise GraphError("a DataFrame without columns has no rows to read: select at least one column")
    session = frame.sparkSession
    write = InputWriter(storage, folder, arrow_schema(frame), arrow_schema_of(schema_of(frame.schema)))
    with settings_at_tasks(session):
        batches = frame._jdf.toArrowBatchRdd().toJavaRDD()
        stored = RDD(batches, session.sparkContext, NoOpSerializer()).mapPartitionsWithIndex(write).collect()
    write_index(storage, folder, [part for _, part in sorted(stored, key=lambda found: found[0])])


@contextmanager
def settings_at_tasks(session: SparkSession) -> Iterator[None]:
    """Make the session's SQL settings visible to tasks, as they are when Spark itself runs a query."""
    context: Any = session.sparkContext  # setLocalProperty accepts None as a value, although its types do not allow it
    settings = {key: value for key, value in session.conf.getAll.items() if key.startswith("spark.")}
    before = {key: context.getLocalProperty(key) for key in settings}
    try:
        for key, value in settings.items():
            context.setLocalProperty(key, value)
        yield
    finally:
        for key, value in before.items():
            context.setLocalProperty(key, value)


class InputWriter:
    """Stores the rows of one partition: a function of (partition, Arrow batches as Spark sends them)."""

    def __init__(self, storage: Storage, folder: str, sent: pa.Schema, schema: pa.Schema) -> None:
        """``sent`` is the schema of the batches, ``schema`` that of the files."""
        self._storage = storage
        self._folder = folder
        self._sent = sent
        self._schema = schema

    def __call__(self, partition: int, items: Iterable[bytes]) -> Iterator[tuple[int, InputPart]]:
        batches = (pa.ipc.read_record_batch(pa.py_buffer(item), self._sent) for item in items if item)
        name = f"part-{partition:05}-{uuid.uuid4().hex}"
        part = write_part(self._storage, self._folder, name, (_as(batch, self._schema) for batch in batches))
        if part.files:
            yield partition, part


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


def _as(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    columns = [
        column if column.type == field.type else column.cast(field.type)
        for column, field in zip(batch.columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
