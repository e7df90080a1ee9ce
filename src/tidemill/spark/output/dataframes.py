"""``DataStream.to_dataframe``: the committed records of a stream as a DataFrame.

A file sink writes the records as Parquet files, which become visible when they are committed. Spark reads that
directory as the DataFrame: all of it after a bounded program has ended, or file by file while an unbounded one runs.
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

#: An interval in ms that is never reached, so that only its size or the end of the input closes a file.
_NEVER: Final = 1 << 40


def to_dataframe(stream: DataStream, schema: Any, path: str | None, name: str | None) -> DataFrame:
    """Return the records of a stream; see :meth:`DataStream.to_dataframe`.

    Uses the active session, or creates one that is not stopped, because a DataFrame cannot be used without its session.
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
            "Pass one, or declare the type of the records: map(..., output_type=Types.ROW_NAMED(...))"
        )
    return schema_of(known)


def _sink(folder: Path, columns: StructOf, *, bounded: bool) -> FileSink:
    """Create a sink that writes a few large files for bounded input, else one file per epoch and subtask."""
    builder = FileSink.for_bulk_format(str(folder), ParquetWriterFactory(columns))
    builder.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
    builder.with_output_file_config(OutputFileConfig.builder().with_part_suffix(".parquet").build())
    large = RollingPolicy.default_rolling_policy(rollover_interval=_NEVER, inactivity_interval=_NEVER)
    return builder.with_rolling_policy(large if bounded else RollingPolicy.on_epoch_rolling_policy()).build()


def _is_bounded(stream: DataStream) -> bool:
    """Whether the whole program is bounded: all of it is executed, not only the inputs of this stream."""
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
