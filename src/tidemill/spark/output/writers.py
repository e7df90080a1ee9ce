"""Commits the epochs of a Spark sink: a Spark writer on the driver writes one DataFrame per epoch.

``tidemill.connectors.spark.sink`` describes how each target handles a repeated commit. An epoch is identified by its
*name*: the run (a hash of history and lineage) and its number. If the commit is repeated, by a successor or by a driver
that was replaced, the name is the same, and no other epoch ever has it.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's customary name
from pyspark.sql.types import StructType

from tidemill.connectors.file_system.writer import sink_id
from tidemill.connectors.jdbc.passwords import hide_password
from tidemill.connectors.sinks import Committed, CommitterContext
from tidemill.connectors.spark.records import RecordColumns
from tidemill.connectors.spark.sink import FILE_FORMATS, SparkSink, SparkTarget
from tidemill.connectors.write_ahead_log import Delivery, Destination, LogCommitter, Mark, parse_committable
from tidemill.errors import GraphError
from tidemill.spark.session.failures import translated
from tidemill.spark.session.session import running_session


class SparkCommitter(LogCommitter):
    """Reads the batches of all subtasks of an epoch from the log, writes them in one step, and deletes the log."""

    on_workers = False
    whole_epochs = True

    def __init__(self, sink: SparkSink) -> None:
        super().__init__(_Nowhere())
        if sink.target is None:
            raise GraphError("a Spark sink commits on the driver, where it was created")
        self._schema = sink.schema
        self._target: SparkTarget = sink.target
        self._session: SparkSession | None = None
        self._id = ""
        self._app = ""
        self._uid = ""

    def open(self, context: CommitterContext) -> None:
        super().open(context)
        running = running_session()
        if running is None:
            raise GraphError("a Spark sink needs a Spark session: run the job with execution.target: spark")
        # The sink has its own session with the settings of the program's session, because it changes one of them.
        java: Any = running._jsparkSession
        self._session = SparkSession(running.sparkContext, java.cloneSession())
        _check_format(self._session, self._target.format)
        self._session.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
        self._id = sink_id(context.job_id, context.operator_uid)
        self._uid = context.operator_uid
        self._app = f"{context.job_id}/{context.operator_uid}"

    def commit(self, committed: Sequence[Committed]) -> None:
        for epoch in sorted({part.epoch for part in committed}):
            self._commit_epoch([part for part in committed if part.epoch == epoch])

    def discard(self, names_in_use: Sequence[bytes], lineage: str) -> None:
        super().discard(names_in_use, lineage)
        if self._target.path is not None and (self._target.format or "").lower() in FILE_FORMATS:
            folder = _Folder(self._spark(), self._target.path)
            for name in folder.asides(self._id):
                if name.split("~")[1] <= lineage:
                    folder.delete(name)

    def _commit_epoch(self, parts: Sequence[Committed]) -> None:
        deliveries: list[Delivery] = []
        names: list[str] = []
        for part in sorted(parts, key=lambda one: one.subtask):
            for committable in part.committables:
                header, inline = parse_committable(committable)
                names += [file["name"] for file in header["parts"]]
                deliveries.append(self._delivery(header, inline, again=part.again))
        # Files are deleted only after all of the epoch is written: if one is missing, the epoch was written.
        written = any(part.again for part in parts) and not all(map(self._files().exists, names))
        if deliveries and not written:
            mark, target = deliveries[0].mark, self._target
            place = hide_password(target.path or target.table or target.format or "the function")
            with translated(f"write epoch {mark.epoch} of sink {self._uid!r} to {place}"):
                self._write(self._frame(deliveries), mark)
        self._delete(names)

    def _frame(self, deliveries: Sequence[Delivery]) -> DataFrame:
        batches = [batch for delivery in deliveries for data in delivery.batches() for batch in _decoded(data)]
        table = pa.Table.from_batches(batches, RecordColumns(self._schema).arrow_schema)
        schema: Any = StructType.fromDDL(self._schema.ddl())
        # PySpark makes the session of a new DataFrame the active one, in all threads. Restore the program's session.
        active = SparkSession._activeSession
        try:
            frame: DataFrame = self._spark().createDataFrame(table, schema)
        finally:
            SparkSession._activeSession = active
        return frame

    def _write(self, frame: DataFrame, mark: Mark) -> None:
        target = self._target
        run = hashlib.sha256(f"{mark.history}\0{mark.lineage}".encode()).hexdigest()[:6]
        name = f"{self._id}{run}-{mark.epoch}"
        kind = (target.format or "").lower()
        if target.function is not None:
            target.function(frame, mark.epoch)
        elif target.table is not None and target.epoch_column is not None:
            self._replace_partition(frame.withColumn(target.epoch_column, F.lit(f"{mark.epoch:012d}-{self._id}{run}")))
        elif kind == "delta":
            self._save(self._writer(frame).options(**delta_options(self._app, mark)).mode("append"))
        elif kind in FILE_FORMATS and target.path is not None:
            self._add_files(frame, target.path, name, mark.lineage)
        else:
            self._save(self._writer(frame).mode("append"))

    def _writer(self, frame: DataFrame) -> Any:
        writer: Any = frame.write.format(self._target.format or "").options(**self._target.options)
        return writer.partitionBy(*self._target.partition_by) if self._target.partition_by else writer

    def _save(self, writer: Any) -> None:
        if self._target.table is not None:
            writer.saveAsTable(self._target.table)
        elif self._target.path is not None:
            writer.save(self._target.path)
        else:
            writer.save()

    def _replace_partition(self, frame: DataFrame) -> None:
        target = self._target
        columns = (*target.partition_by, str(target.epoch_column))
        if self._spark().catalog.tableExists(str(target.table)):
            in_order = frame.select(*self._spark().table(str(target.table)).columns)
            in_order.write.options(**target.options).mode("overwrite").insertInto(str(target.table))
        else:
            writer: Any = frame.write.format(target.format or "").options(**target.options).partitionBy(*columns)
            writer.mode("errorifexists").saveAsTable(target.table)

    def _add_files(self, frame: DataFrame, path: str, name: str, lineage: str) -> None:
        """Write the files to a hidden folder, then move them to their final names, unless those already exist.

        One task writes all of them, so that an epoch results in the same files on any driver and any cluster.
        """
        folder = _Folder(self._spark(), path)
        aside = f"_{self._id}~{lineage}~{uuid.uuid4().hex}"
        self._writer(frame.coalesce(1)).mode("overwrite").save(f"{path}/{aside}")
        for number, (directory, file) in enumerate(sorted(folder.files(aside))):
            ending = file.partition(".")[2]
            folder.move(f"{aside}/{directory}{file}", f"{directory}part-{name}-{number}.{ending}")
        folder.delete(aside)

    def _spark(self) -> SparkSession:
        if self._session is None:
            raise RuntimeError("the committer is not open")
        return self._session


def _check_format(session: SparkSession, name: str | None) -> None:
    """Raise :class:`GraphError` for an unknown format, before anything is committed that could not be written."""
    if name is None:
        return
    jvm: Any = session._jvm
    java: Any = session._jsparkSession
    try:
        jvm.org.apache.spark.sql.execution.datasources.DataSource.lookupDataSource(name, java.sessionState().conf())
    except Py4JJavaError:
        raise GraphError(
            f"Spark has no format {name!r}: correct the name, or add the format's package to spark.jars.packages"
        ) from None


def delta_options(app: str, mark: Mark) -> dict[str, str]:
    """Return the options that identify an epoch to Delta, which accepts a version of an application only once.

    A version must be higher than the last one of the application. Epochs increase within a lineage, and each lineage is
    a separate application.

    >>> delta_options("job/sink", Mark("h", "000000000002-a", 17))
    {'txnAppId': 'job/sink/h/000000000002-a', 'txnVersion': '17'}
    """
    return {"txnAppId": f"{app}/{mark.history}/{mark.lineage}", "txnVersion": str(mark.epoch)}


class _Nowhere(Destination):
    """An unused destination of single deliveries: this committer writes them together."""

    def deliver(self, delivery: Delivery) -> None:
        raise NotImplementedError


class _Folder:
    """A directory in any file system that Spark supports."""

    def __init__(self, session: SparkSession, path: str) -> None:
        jvm: Any = session._jvm
        self._path_class = jvm.org.apache.hadoop.fs.Path
        self._root = self._path_class(path)
        self._system = self._root.getFileSystem(session._jsc.hadoopConfiguration())

    def asides(self, sink: str) -> list[str]:
        """Return the hidden folders with unpublished files of a sink."""
        if not self._system.exists(self._root):
            return []
        names = [status.getPath().getName() for status in self._system.listStatus(self._root)]
        return [name for name in names if name.startswith(f"_{sink}~")]

    def files(self, below: str, directory: str = "") -> Iterator[tuple[str, str]]:
        """Return the files in a folder as (directory below it, name), without hidden files."""
        for status in self._system.listStatus(self._at(f"{below}/{directory}" if directory else below)):
            name = status.getPath().getName()
            if name.startswith((".", "_")):
                continue
            if status.isDirectory():
                yield from self.files(below, f"{directory}{name}/")
            else:
                yield directory, name

    def move(self, source: str, target: str) -> None:
        """Rename a file atomically, unless the target already exists."""
        place = self._at(target)
        if self._system.exists(place):
            return
        self._system.mkdirs(place.getParent())
        if not self._system.rename(self._at(source), place) and not self._system.exists(place):
            raise OSError(f"{source} cannot be moved to {place.toString()}")

    def delete(self, name: str) -> None:
        """Remove a folder and its contents."""
        self._system.delete(self._at(name), True)

    def _at(self, name: str) -> Any:
        return self._path_class(self._root, name)


def _decoded(data: bytes) -> Iterator[pa.RecordBatch]:
    with pa.ipc.open_stream(pa.py_buffer(data)) as reader:
        yield from reader
