"""Bounded DataFrames as Parquet objects in a storage, written by the tasks that compute the rows.

Spark's own writer would need its own libraries and credentials for an object store. The name of each object contains a
token of the task attempt, because a task that is retried stores its rows twice. Only the objects of the attempt whose
result Spark accepts are valid, and the index lists them. A task keeps one object in memory, not its whole partition.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
from pyspark.core.rdd import RDD
from pyspark.serializers import NoOpSerializer
from pyspark.sql import DataFrame, SparkSession

from tidemill.checkpoint.storage.storages import Storage
from tidemill.connectors.spark.type_mapping import arrow_schema_of, schema_of
from tidemill.errors import GraphError
from tidemill.runtime.stored_input.input_index import InputPart, write_index
from tidemill.runtime.stored_input.write_input import write_part
from tidemill.spark.frames.frames import arrow_schema


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


def _as(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    columns = [
        column if column.type == field.type else column.cast(field.type)
        for column, field in zip(batch.columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
