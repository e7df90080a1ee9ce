"""The exactly-once file sink: readers only see committed files.

1. A writer writes the records of an epoch to hidden files, and makes them durable at the barrier.
2. The committable contains the hidden and the final name of a file, relative to the sink's path.
3. After the manifest is durable, the committer gives files their final names. Each file appears atomically. A file that
   no longer exists under its hidden name was committed before.

How files are hidden and made visible depends on the storage: see ``part_store``.

A part that spans epochs stays hidden, as segments. Its committables rename a segment from one hidden name to another,
which differs from the names of leftover files of failed attempts. So do those of a finished file that waits for
compaction. The committable of the file into which others are merged also names these, to be deleted after it is
visible.

A final name is ``<prefix>-<id>-<subtask>-<epoch>[-<n>]<suffix>``. ``id`` is different for each sink and each start of
the job, so that existing files are never overwritten.
"""

from __future__ import annotations

import abc
import copy
import glob
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tidemill.common.configuration import Configuration
from tidemill.common.serialization import BulkWriterFactory, Encoder
from tidemill.common.typeinfo import TypeInformation, Types
from tidemill.config import CheckpointingOptions
from tidemill.connectors.file_system.buckets import BucketAssigner, OutputFileConfig, named_assigner
from tidemill.connectors.file_system.compaction import Compaction, FileCompactor, FileCompactStrategy
from tidemill.connectors.file_system.formats import BulkFileFormat, FileFormat, RowFileFormat
from tidemill.connectors.file_system.locations import sink_path
from tidemill.connectors.file_system.parts import IN_PROGRESS, FileCommittable
from tidemill.connectors.file_system.rolling import (
    CHECK_INTERVAL,
    DefaultRollingPolicy,
    OnCheckpointRollingPolicy,
    OnEpochRollingPolicy,
    RollingPolicy,
)
from tidemill.connectors.file_system.writer import FileSettings, FileWriter, sink_id
from tidemill.connectors.object_store import store_options
from tidemill.connectors.sinks import (
    Committed,
    Committer,
    CommitterContext,
    Sink,
    StatefulSinkWriter,
    SupportsWriterState,
)
from tidemill.errors import CheckpointError, GraphError
from tidemill.python_versions import Self

__all__ = ["FileSink", "RollingFileSink", "StreamingFileSink"]


class FileSink(Sink):
    """Writes records to files in a local or mounted directory, or in an object store (``s3://bucket/path``).

    Created with :meth:`for_row_format` or :meth:`for_bulk_format`.

    >>> sink = (
    ...     FileSink.for_row_format("/tmp/out", Encoder.simple_string_encoder())
    ...     .with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
    ...     .with_output_file_config(OutputFileConfig.builder().with_part_suffix(".txt").build())
    ...     .build()
    ... )
    >>> sink.guarantee
    'exactly-once'
    """

    guarantee = "exactly-once"

    def __init__(self, settings: FileSettings) -> None:
        self.settings = settings

    @staticmethod
    def for_row_format(base_path: str | Path, encoder: Encoder[Any]) -> FileSink.RowFormatBuilder:
        """Start building a sink for a row format, whose records are encoded one by one."""
        return FileSink.RowFormatBuilder(base_path, encoder)

    @staticmethod
    def for_bulk_format(base_path: str | Path, writer_factory: BulkWriterFactory[Any]) -> FileSink.BulkFormatBuilder:
        """Start building a sink for a bulk format, such as Parquet.

        >>> from tidemill.datastream.formats.parquet import ParquetBulkWriters
        >>> rows = ParquetBulkWriters.for_row_type(Types.ROW_NAMED(["id", "n"], [Types.STRING(), Types.LONG()]))
        >>> FileSink.for_bulk_format("/tmp/out", rows).build().guarantee
        'exactly-once'
        """
        return FileSink.BulkFormatBuilder(base_path, writer_factory)

    def create_writer(self, subtask: int, parallelism: int) -> StatefulSinkWriter:
        """Create a writer of hidden files."""
        return FileWriter(self.settings)

    def create_committer(self) -> Committer:
        """Create a committer that gives the files their final names."""
        return _FileCommitter(self.settings)

    def configured(self, configuration: Configuration) -> FileSink:
        """Return the sink with the checkpoint interval and the object store options of the job's configuration."""
        bound = copy.copy(self)
        policy = self.settings.policy
        if self.settings.without_interval is not None and not configuration.get(CheckpointingOptions.INTERVAL):
            policy = self.settings.without_interval
        bound.settings = replace(self.settings, policy=policy, store_options=store_options(configuration))
        bound.settings.part_store()  # raises an error for unknown keys before the job starts
        return bound

    class BaseBuilder(abc.ABC):
        """Builds a file sink, by default with one bucket per hour.

        The default rolling policy is Flink's: rows are written to a part until it has 128 MB, is 60 seconds old, or has
        had no records for 60 seconds, which is checked every 60 seconds. Parts of a bulk format are finished with each
        checkpoint; without a checkpoint interval, in the same way as rows.
        """

        def __init__(self, base_path: str | Path) -> None:
            self._base_path = sink_path(base_path)
            self._assigner = BucketAssigner.date_time_bucket_assigner()
            self._files = OutputFileConfig()
            self._policy: RollingPolicy | None = None
            self._check_interval: int | None = None
            self._compaction: Compaction | None = None

        def with_bucket_check_interval(self, interval: int) -> Self:
            """Set the time, in ms, between two checks of the intervals of a :class:`DefaultRollingPolicy`.

            Without it, the default policy checks every 60 seconds, as in Flink. A part of a policy that is set with
            :meth:`with_rolling_policy` is finished as soon as it is due.
            """
            if interval < 1:
                raise ValueError(f"the bucket check interval must be positive, not {interval}")
            self._check_interval = interval
            return self

        def with_bucket_assigner(
            self, bucket_assigner: BucketAssigner | str | None = None, *, assigner_class_name: str | None = None
        ) -> Self:
            """Set the assigner of buckets, which are directories, to records.

            Programs for PyFlink 1.12 pass the name of one of Flink's own classes in Java.
            """
            self._assigner = named_assigner(assigner_class_name or bucket_assigner)
            return self

        def with_output_file_config(self, output_file_config: OutputFileConfig) -> Self:
            """Set the prefix and suffix of file names."""
            self._files = output_file_config
            return self

        def with_rolling_policy(
            self, rolling_policy: RollingPolicy | None = None, *, policy: RollingPolicy | None = None
        ) -> Self:
            """Set when a file is finished; StreamingFileSink programs pass the argument as ``policy``."""
            given = rolling_policy if policy is None else policy
            if not isinstance(given, RollingPolicy):
                raise TypeError(f"a RollingPolicy is needed, not {type(given).__name__}")
            self._policy = given
            return self

        def enable_compact(self, strategy: FileCompactStrategy, compactor: FileCompactor) -> Self:
            """Merge finished files of a bucket into one, before they become visible to readers.

            The rolling policy determines when a file is finished, and ``strategy`` when those that each subtask has
            finished are merged. The names of merged files begin with ``compacted-``.
            """
            if not isinstance(strategy, FileCompactStrategy):
                raise TypeError(f"a FileCompactStrategy is needed, not {type(strategy).__name__}")
            if not isinstance(compactor, FileCompactor):
                raise TypeError(f"a FileCompactor is needed, not {type(compactor).__name__}")
            self._compaction = Compaction(strategy, compactor)
            return self

        def disable_compact(self) -> Self:
            """Do not merge finished files, which is the default.

            Files that still wait to be merged, in the state from which a job is restored, become visible as they are.
            """
            self._compaction = None
            return self

        def build(self) -> FileSink:
            """Build the sink."""
            file_format = self._format()
            policy, without_interval = self._policies(file_format)
            if policy.spans_epochs and not file_format.can_merge:
                raise GraphError(
                    "files of this bulk format cannot span epochs: use RollingPolicy.on_epoch_rolling_policy(), or a "
                    "MergingBulkWriterFactory"
                )
            if self._compaction is not None:
                self._compaction.compactor.check(file_format)
            kind = RollingFileSink if policy.spans_epochs or self._compaction is not None else FileSink
            return kind(
                FileSettings(
                    self._base_path,
                    file_format,
                    self._assigner,
                    self._files,
                    policy,
                    self._compaction,
                    without_interval,
                )
            )

        def _policies(self, file_format: FileFormat) -> tuple[RollingPolicy, RollingPolicy | None]:
            """The rolling policy, and the one that replaces it if the job has no checkpoint interval."""
            if isinstance(self._policy, DefaultRollingPolicy) and self._check_interval is not None:
                return replace(self._policy, check_interval=self._check_interval), None
            if self._policy is not None:
                return self._policy, None
            timed = replace(
                RollingPolicy.default_rolling_policy(), check_interval=self._check_interval or CHECK_INTERVAL
            )
            if not isinstance(file_format, BulkFileFormat):
                return timed, None
            return (OnCheckpointRollingPolicy(), timed) if file_format.can_merge else (OnEpochRollingPolicy(), None)

        @abc.abstractmethod
        def _format(self) -> FileFormat:
            """Return the format of the files."""

    class RowFormatBuilder(BaseBuilder):
        """Builds a sink for a row format, whose records are encoded one by one."""

        def __init__(self, base_path: str | Path, encoder: Encoder[Any]) -> None:
            super().__init__(base_path)
            if not isinstance(encoder, Encoder):
                raise TypeError(f"an Encoder is needed, not {type(encoder).__name__}")
            self._encoder = encoder
            self._compression: str | None = None

        def with_compression(self, codec: str) -> Self:
            """Compress files with ``gzip``, ``bz2``, ``zstd`` or ``lz4``, and add its extension. Not in Flink.

            >>> builder = FileSink.for_row_format("/tmp/out", Encoder.simple_string_encoder())
            >>> builder.with_compression("gzip").build().settings.suffix
            '.gz'
            """
            self._compression = codec
            self._format()
            return self

        def _format(self) -> FileFormat:
            return RowFileFormat(self._encoder, self._compression)

    class BulkFormatBuilder(BaseBuilder):
        """Builds a sink for a bulk format, such as Parquet."""

        def __init__(self, base_path: str | Path, writer_factory: BulkWriterFactory[Any]) -> None:
            super().__init__(base_path)
            if not isinstance(writer_factory, BulkWriterFactory):
                raise TypeError(f"a BulkWriterFactory is needed, not {type(writer_factory).__name__}")
            self._factory = writer_factory

        def _format(self) -> FileFormat:
            return BulkFileFormat(self._factory)


class RollingFileSink(FileSink, SupportsWriterState):
    """A file sink whose writers have state: parts that span epochs, and finished files that wait for compaction."""

    def restore_writer(self, subtask: int, parallelism: int, recovered_state: Sequence[str]) -> StatefulSinkWriter:
        """Create a writer that continues open parts."""
        return FileWriter(self.settings, recovered_state)

    def get_writer_state_type(self) -> TypeInformation:
        """Return the type of the state: a part is a JSON string."""
        return Types.STRING()


class StreamingFileSink(FileSink):
    """The file sink of Flink 1.x, for ``stream.add_sink``. Its builders create a :class:`FileSink`.

    >>> policy = RollingPolicy.default_rolling_policy(part_size=1 << 30)
    >>> builder = StreamingFileSink.for_row_format("/tmp/out", Encoder.simple_string_encoder())
    >>> builder.with_rolling_policy(policy).build().guarantee
    'exactly-once'
    """

    DefaultRowFormatBuilder = FileSink.RowFormatBuilder
    DefaultBulkFormatBuilder = FileSink.BulkFormatBuilder


class _FileCommitter(Committer):
    def __init__(self, settings: FileSettings) -> None:
        self._store = settings.part_store()
        self._prefix = settings.file_config.part_prefix
        self._id: str | None = None

    def open(self, context: CommitterContext) -> None:
        self._id = sink_id(context.job_id, context.operator_uid)
        self._store.check()

    def commit(self, committed: Sequence[Committed]) -> None:
        files = [(part, FileCommittable.from_bytes(data)) for part in committed for data in part.committables]
        gone = set(self._store.publish({file.hidden: file.final for _, file in files}))
        for part, file in files:
            # A file that does not exist after a restart was committed before, and has been removed since.
            if file.hidden in gone and not part.again:
                raise CheckpointError(
                    f"epoch {part.epoch} is committed, but its output file is gone: neither "
                    f"{self._store.named(file.hidden)} nor {self._store.named(file.final)} exists. Was the output "
                    "directory cleaned while the job was running?"
                )
        # Only now is it safe: the contents of the segments are in a file whose name is durable.
        self._store.delete([segment for _, file in files for segment in file.drop])

    def discard(self, names_in_use: Sequence[bytes], lineage: str) -> None:
        if self._id is None:
            return  # without the job's id, files of other jobs could be deleted
        keep = {FileCommittable.from_bytes(name).hidden for name in names_in_use}
        found = self._store.find(self._id, f".{glob.escape(self._prefix)}-{self._id}*~*~*{IN_PROGRESS}")
        self._store.delete([name for name in found if name not in keep and name.split("~")[-2] <= lineage])
