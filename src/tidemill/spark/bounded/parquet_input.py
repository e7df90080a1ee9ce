"""Writes bounded DataFrames as Parquet next to the job's checkpoints: see :mod:`tidemill.runtime.stored_input`.

In a directory, Spark itself writes the files. In an object store, Spark's tasks write the objects
(:mod:`tidemill.spark.bounded.object_input`).
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow.parquet as pq
from pyspark.sql import DataFrame, Observation, functions

from tidemill.checkpoint.storage.storages import LocalStorage, Storage
from tidemill.errors import CheckpointError
from tidemill.runtime.stored_input.parquet_source import materialise
from tidemill.runtime.stored_input.write_input import ROW_GROUP_BYTES
from tidemill.spark.bounded.object_input import write_objects
from tidemill.spark.session.failures import translated

__all__ = ["materialise_frame"]


def materialise_frame(dataframe: Callable[[], DataFrame], storage: Storage, uid: str, name: str = "") -> str:
    """Write a bounded source's DataFrame as Parquet, unless an earlier start of the job did so, and return the folder.

    The rows are in a directory, as Spark writes them, or in objects that its tasks write. ``name`` is what errors call
    the source.
    """

    def write(folder: str) -> None:
        with translated(f"read the source {name or f'with uid {uid!r}'}"):
            if isinstance(storage, LocalStorage):
                _write_files(dataframe(), storage, folder)
            else:
                write_objects(dataframe(), storage, folder)

    return materialise(write, storage, uid)


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
