"""A sink for everything that Spark can write: the records of each epoch are passed to a Spark writer as one DataFrame.

1. Writers convert records to Arrow batches and write them to the write-ahead log. The manifest makes them durable.
2. After the manifest is durable, the driver creates a DataFrame from the batches of an epoch, and writes it.

The second step is repeated after a crash. How it is made idempotent, and so the guarantee, depends on the target:

- **files** (parquet, orc, json, csv, text, avro): written to a temporary location, then moved to names that contain the
  epoch. Exactly-once.
- **Delta tables**: Delta itself ignores an epoch that it already has, by ``txnAppId`` and ``txnVersion``. Exactly-once.
- **tables with an epoch column**: the partition of the epoch is replaced. Exactly-once.
- **a function of (DataFrame, epoch)**: depends on the function; see :meth:`SparkSink.for_each_epoch`.
- **everything else** (tables without an epoch column, JDBC, ...): at-least-once.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Final

import pyarrow as pa

from tidemill.connectors.sinks import Committer, Sink, SinkWriter
from tidemill.connectors.spark.records import RecordColumns
from tidemill.connectors.spark.schema_types import StructOf
from tidemill.connectors.spark.type_mapping import schema_of
from tidemill.connectors.write_ahead_log import LogWriter
from tidemill.errors import GraphError

__all__ = ["SparkSink", "SparkSinkBuilder", "SparkTarget"]

#: Formats whose output is files in a directory.
FILE_FORMATS: Final = frozenset({"parquet", "orc", "json", "csv", "text", "avro", "xml"})
#: The committer needs Spark, which this package does not import; it is loaded by name.
_COMMITTER: Final = ("tidemill.spark.output.writers", "SparkCommitter")


@dataclass(frozen=True)
class SparkTarget:
    """The target of a sink's DataFrames: a path, a table, a format that is defined by its options, or a function."""

    format: str | None = None
    options: dict[str, str] = field(default_factory=dict, repr=False)  # may contain passwords
    partition_by: tuple[str, ...] = ()
    path: str | None = None
    table: str | None = None
    epoch_column: str | None = None
    function: Callable[[Any, int], None] | None = None


class SparkSink(Sink):
    """Writes through Spark; created with :meth:`for_format` or :meth:`for_each_epoch`.

    >>> sink = SparkSink.for_format("parquet", "id LONG, name STRING").partition_by("name").save("/data/out")
    >>> sink.guarantee
    'exactly-once'
    >>> SparkSink.for_format("parquet", "id LONG").save_as_table("numbers").guarantee
    'at-least-once'
    """

    def __init__(self, schema: StructOf, target: SparkTarget | None, guarantee: str) -> None:
        self.schema = schema
        self.target = target
        self.guarantee = guarantee

    @staticmethod
    def for_format(format_name: str, schema: Any) -> SparkSinkBuilder:
        """Start building a sink for a Spark format, as in ``df.write.format(...)``.

        ``schema`` is Spark's DDL (``"id LONG, name STRING"``), a ``StructType`` or ``Types.ROW_NAMED(...)``. Records
        are rows, tuples, dicts or dataclasses with these fields.
        """
        return SparkSinkBuilder(schema_of(schema), SparkTarget(format_name))

    @staticmethod
    def for_each_epoch(function: Callable[[Any, int], None], schema: Any, *, idempotent: bool = False) -> SparkSink:
        """Create a sink that calls ``function(df, epoch)`` on the driver for each epoch, as ``foreachBatch`` does.

        After a crash, the function is called again for the last epoch, with the same rows. Epoch numbers increase as
        long as the job resumes from its own state. Set ``idempotent=True`` if the function is idempotent: the sink is
        then exactly-once.

        >>> def keep(df, epoch):
        ...     df.write.mode("overwrite").parquet(f"/data/out/epoch={epoch}")
        >>> SparkSink.for_each_epoch(keep, "id LONG", idempotent=True).guarantee
        'exactly-once'
        """
        if not callable(function):
            raise TypeError(f"a function of (DataFrame, epoch) is needed, not {type(function).__name__}")
        guarantee = "exactly-once" if idempotent else "at-least-once"
        return SparkSink(schema_of(schema), SparkTarget(function=function), guarantee)

    def create_writer(self, subtask: int, parallelism: int) -> SinkWriter:
        """Create a writer of Arrow batches."""
        columns = RecordColumns(self.schema)
        return LogWriter(lambda values, timestamps: encoded(columns.batch(values)))

    def create_committer(self) -> Committer:
        """Create a committer that writes an epoch with Spark."""
        module, name = _COMMITTER
        committer: Committer = getattr(importlib.import_module(module), name)(self)
        return committer

    def __reduce__(self) -> tuple[Any, ...]:
        # Workers only need the schema: options and functions stay on the driver.
        return (SparkSink, (self.schema, None, self.guarantee))


class SparkSinkBuilder:
    """Builds a :class:`SparkSink`, with the settings of a DataFrame writer."""

    def __init__(self, schema: StructOf, target: SparkTarget) -> None:
        self._schema = schema
        self._target = target

    def option(self, key: str, value: Any) -> SparkSinkBuilder:
        """Set an option of the format."""
        text = str(value).lower() if isinstance(value, bool) else str(value)
        return self._with(options={**self._target.options, key: text})

    def partition_by(self, *columns: str) -> SparkSinkBuilder:
        """Set the columns whose values become directories or partitions."""
        unknown = [column for column in columns if column not in self._schema.names]
        if unknown:
            raise GraphError(
                f"partition_by({', '.join(columns)}): the schema has no {', '.join(unknown)}, only "
                f"{', '.join(self._schema.names)}"
            )
        return self._with(partition_by=columns)

    def save(self, path: str | None = None) -> SparkSink:
        """Build a sink that writes to a path, or to the target that the options define."""
        target = replace(self._target, path=path)
        name = (target.format or "").lower()
        if path is None and name in FILE_FORMATS | {"delta"}:
            raise GraphError(f"save() of {name} needs a path")
        once = name in FILE_FORMATS or name == "delta"
        return SparkSink(self._schema, target, "exactly-once" if once else "at-least-once")

    def save_as_table(self, table: str, epoch_column: str | None = None) -> SparkSink:
        """Build a sink that writes to a table, which is created if it does not exist.

        With ``epoch_column``, the table has an additional string column, by which it is partitioned. It contains the
        epoch, and a repeated epoch replaces its partition, so that the sink is exactly-once. Delta tables are
        exactly-once without it.
        """
        if epoch_column is not None and epoch_column in self._schema.names:
            raise GraphError(f"the epoch column {epoch_column!r} is already a column of the schema")
        target = replace(self._target, table=table, epoch_column=epoch_column)
        once = epoch_column is not None or (target.format or "").lower() == "delta"
        return SparkSink(self._schema, target, "exactly-once" if once else "at-least-once")

    def _with(self, **changes: Any) -> SparkSinkBuilder:
        return SparkSinkBuilder(self._schema, replace(self._target, **changes))


def encoded(batch: pa.RecordBatch) -> bytes:
    """Encode a batch as an Arrow IPC stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    data: bytes = sink.getvalue().to_pybytes()
    return data
