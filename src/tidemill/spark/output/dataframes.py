"""``DataStream.to_dataframe``: what a stream has committed, as a DataFrame.

The records are written by a file sink as Parquet files that appear when they are committed. That directory, read by
Spark, is the DataFrame: all of it after a bounded program has ended, or file by file while an unbounded one runs.
"""

from __future__ import annotations

import atexit
from pathlib import Path
from typing import Any, Final

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from tidemill.common.typeinfo import PickledBytesTypeInfo
from tidemill.connectors.file_system.buckets import BucketAssigner, OutputFileConfig
from tidemill.connectors.file_system.columnar import ParquetWriterFactory
from tidemill.connectors.file_system.locations import local_path
from tidemill.connectors.file_system.rolling import RollingPolicy
from tidemill.connectors.file_system.sink import FileSink
from tidemill.connectors.spark.schema_types import StructOf
from tidemill.connectors.spark.type_mapping import schema_of
from tidemill.datastream.program.specs import SourceSpec
from tidemill.datastream.program.transformations import Transformation
from tidemill.datastream.streams.data_stream import DataStream
from tidemill.errors import GraphError
from tidemill.runtime.task.scratch import scratch_directory
from tidemill.spark.session.session_lease import SessionLease

#: In ms: long enough that only its size or the end of the input finishes a file.
_NEVER: Final = 1 << 40


def to_dataframe(stream: DataStream, schema: Any, path: str | None, name: str | None) -> DataFrame:
    """The records of a stream: see :meth:`DataStream.to_dataframe`.

    The session that is there is used, or one is made, which stays: a DataFrame is of no use without its session.
    """
    columns = _schema_of(stream, schema)
    bounded = _is_bounded(stream)
    session = SessionLease(stream.get_execution_environment().get_configuration()).session
    folder = _temporary() if path is None else Path(local_path(path))
    folder.mkdir(parents=True, exist_ok=True)
    stream.sink_to(_sink(folder, columns, bounded=bounded)).name("Sink: DataFrame")
    spark_schema: Any = StructType.fromDDL(columns.ddl())
    if bounded:
        stream.get_execution_environment().execute(name)
        return session.read.schema(spark_schema).parquet(str(folder))
    return session.readStream.schema(spark_schema).parquet(str(folder))


def _schema_of(stream: DataStream, schema: Any) -> StructOf:
    if schema is not None:
        return schema_of(schema)
    known = stream.get_type()
    if isinstance(known, PickledBytesTypeInfo):
        raise GraphError(
            "to_dataframe() needs a schema, such as 'id LONG, name STRING': the type of the stream is not known. "
            "Give one, or declare the type where the records are made: map(..., output_type=Types.ROW_NAMED(...))"
        )
    return schema_of(known)


def _sink(folder: Path, columns: StructOf, *, bounded: bool) -> FileSink:
    """Few large files where nobody waits for them, and one per epoch and subtask where somebody does."""
    builder = FileSink.for_bulk_format(str(folder), ParquetWriterFactory(columns))
    builder.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
    builder.with_output_file_config(OutputFileConfig.builder().with_part_suffix(".parquet").build())
    if bounded:
        builder.with_rolling_policy(
            RollingPolicy.default_rolling_policy(rollover_interval=_NEVER, inactivity_interval=_NEVER)
        )
    return builder.build()


def _is_bounded(stream: DataStream) -> bool:
    """Whether the program ends by itself: all of it is run, not only what this stream comes from."""
    seen: set[int] = set()
    waiting: list[Transformation] = [upstream.node for upstream in stream._upstreams]
    waiting += stream.get_execution_environment()._transformations
    while waiting:
        node = waiting.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(spec := node.taken.on_driver, SourceSpec) and not spec.source.bounded:
            return False
        waiting += [upstream.node for upstreams in node.inputs for upstream in upstreams]
    return True


def _temporary() -> Path:
    root, remove = scratch_directory()
    atexit.register(remove)
    return root / "rows"
