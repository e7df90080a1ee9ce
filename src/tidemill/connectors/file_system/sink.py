"""Files as an exactly-once sink: a reader sees only what is committed.

1. A writer writes the records of an epoch to hidden files, and makes them durable at the barrier.
2. The committable names the hidden and the final file, relative to the sink's path.
3. After the manifest is durable the committer gives them their final names. Each appears whole, in one step; one that
   is gone under its hidden name was committed before.

How files are hidden and appear depends on where they are: see ``part_store``.

A part that goes on over epochs stays hidden, as segments; its committables rename a segment from one hidden name to
another that leftovers of attempts do not have.

A final name is ``<prefix>-<id>-<subtask>-<epoch>[-<n>]<suffix>``: ``id`` is different for any other sink and any other
start of the job, so that nothing that is there is ever overwritten.
"""

from __future__ import annotations

import abc
import copy
import glob
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from tidemill.common.configuration import Configuration
from tidemill.common.serialization import BulkWriterFactory, Encoder
from tidemill.common.typeinfo import TypeInformation, Types
from tidemill.connectors.file_system.buckets import BucketAssigner, OutputFileConfig
from tidemill.connectors.file_system.formats import BulkFileFormat, FileFormat, RowFileFormat
from tidemill.connectors.file_system.locations import sink_path
from tidemill.connectors.file_system.parts import IN_PROGRESS, FileCommittable
from tidemill.connectors.file_system.rolling import FileCompactStrategy, RollingPolicy
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

__all__ = ["FileCompactor", "FileSink", "RollingFileSink", "StreamingFileSink"]


class FileSink(Sink):
    """Writes records to files in a local or mounted directory, or in a bucket of an object store (``s3://bucket/path``);
    made by :meth:`for_row_format` or :meth:`for_bulk_format`.

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
        """Start building a sink that writes record after record."""
        return FileSink.RowFormatBuilder(base_path, encoder)

    @staticmethod
    def for_bulk_format(base_path: str | Path, writer_factory: BulkWriterFactory[Any]) -> FileSink.BulkFormatBuilder:
        """Start building a sink for a format whose files have to be finished, such as Parquet.

        >>> from tidemill.datastream.formats.parquet import ParquetBulkWriters
        >>> rows = ParquetBulkWriters.for_row_type(Types.ROW_NAMED(["id", "n"], [Types.STRING(), Types.LONG()]))
        >>> FileSink.for_bulk_format("/tmp/out", rows).build().guarantee
        'exactly-once'
        """
        return FileSink.BulkFormatBuilder(base_path, writer_factory)

    def create_writer(self, subtask: int, parallelism: int) -> StatefulSinkWriter:
        """A writer of hidden files."""
        return FileWriter(self.settings)

    def create_committer(self) -> Committer:
        """A committer that gives them their names."""
        return _FileCommitter(self.settings)

    def configured(self, configuration: Configuration) -> FileSink:
        """The sink with what the job's configuration says about object stores."""
        bound = copy.copy(self)
        bound.settings = replace(self.settings, store_options=store_options(configuration))
        bound.settings.part_store()  # refuses unknown keys now
        return bound

    class BaseBuilder(abc.ABC):
        """Collects the settings; by default one bucket per hour, as in Flink, and a file per epoch."""

        def __init__(self, base_path: str | Path) -> None:
            self._base_path = sink_path(base_path)
            self._assigner = BucketAssigner.date_time_bucket_assigner()
            self._files = OutputFileConfig()
            self._policy: RollingPolicy = RollingPolicy.on_checkpoint_rolling_policy()

        def with_bucket_check_interval(self, interval: int) -> Self:
            """Accepted: a part is finished when it is due, not when somebody looks."""
            return self

        def with_bucket_assigner(self, bucket_assigner: BucketAssigner) -> Self:
            """Which directory a record goes to."""
            self._assigner = bucket_assigner
            return self

        def with_output_file_config(self, output_file_config: OutputFileConfig) -> Self:
            """How files are called."""
            self._files = output_file_config
            return self

        def with_rolling_policy(
            self, rolling_policy: RollingPolicy | None = None, *, policy: RollingPolicy | None = None
        ) -> Self:
            """When a file is finished; ``policy`` is the name of the argument in programs with a StreamingFileSink."""
            given = rolling_policy if policy is None else policy
            if not isinstance(given, RollingPolicy):
                raise TypeError(f"a RollingPolicy is needed, not {type(given).__name__}")
            self._policy = given
            return self

        def enable_compact(self, strategy: FileCompactStrategy, compactor: FileCompactor) -> Self:
            """Make one file of the small ones of several epochs, before readers see them."""
            if not isinstance(compactor, FileCompactor):
                raise TypeError(f"a FileCompactor is needed, not {type(compactor).__name__}")
            return self.with_rolling_policy(strategy)

        def disable_compact(self) -> Self:
            """A file per epoch again."""
            return self.with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy())

        def build(self) -> FileSink:
            """The sink."""
            file_format = self._format()
            if self._policy.spans_epochs and not file_format.can_merge:
                raise GraphError(
                    "files of this bulk format cannot grow over epochs: use "
                    "RollingPolicy.on_checkpoint_rolling_policy(), or a MergingBulkWriterFactory"
                )
            kind = RollingFileSink if self._policy.spans_epochs else FileSink
            return kind(FileSettings(self._base_path, file_format, self._assigner, self._files, self._policy))

        @abc.abstractmethod
        def _format(self) -> FileFormat:
            """The format of the files."""

    class RowFormatBuilder(BaseBuilder):
        """For formats that are written record after record."""

        def __init__(self, base_path: str | Path, encoder: Encoder[Any]) -> None:
            super().__init__(base_path)
            if not isinstance(encoder, Encoder):
                raise TypeError(f"an Encoder is needed, not {type(encoder).__name__}")
            self._encoder = encoder
            self._compression: str | None = None

        def with_compression(self, codec: str) -> Self:
            """Beyond Flink: compress files, with ``gzip``, ``bz2``, ``zstd`` or ``lz4``; their names end accordingly.

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
        """For formats whose files have to be finished."""

        def __init__(self, base_path: str | Path, writer_factory: BulkWriterFactory[Any]) -> None:
            super().__init__(base_path)
            if not isinstance(writer_factory, BulkWriterFactory):
                raise TypeError(f"a BulkWriterFactory is needed, not {type(writer_factory).__name__}")
            self._factory = writer_factory

        def _format(self) -> FileFormat:
            return BulkFileFormat(self._factory)


class RollingFileSink(FileSink, SupportsWriterState):
    """A file sink whose parts go on over epochs: the open ones are the writers' state."""

    def restore_writer(self, subtask: int, parallelism: int, recovered_state: Sequence[str]) -> StatefulSinkWriter:
        """A writer that goes on with open parts."""
        return FileWriter(self.settings, recovered_state)

    def get_writer_state_type(self) -> TypeInformation:
        """A part is a text of JSON."""
        return Types.STRING()


#: Flink 1.x's name.
StreamingFileSink = FileSink


class FileCompactor:
    """How small files are made one. Each format of ours knows how; this says only that it shall."""

    @staticmethod
    def concat_file_compactor(file_delimiter: bytes | None = None) -> FileCompactor:
        """Put files behind each other; ``file_delimiter`` between them is refused, as encoders write their own."""
        if file_delimiter:
            raise GraphError("nothing is put between the files that are made one: let the encoder write it")
        return FileCompactor()

    @staticmethod
    def identical_file_compactor() -> FileCompactor:
        """As :meth:`concat_file_compactor`; a single file stays as it is."""
        return FileCompactor()


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
            # A file that is gone after a restart was committed before, and has been taken away since.
            if file.hidden in gone and not part.again:
                raise CheckpointError(
                    f"epoch {part.epoch} is committed, but its output file is gone: neither "
                    f"{self._store.named(file.hidden)} nor {self._store.named(file.final)} exists. Was the output "
                    "directory cleaned while the job was running?"
                )
        # Only now: what the segments hold is in a file whose name is durable.
        self._store.delete([segment for _, file in files for segment in file.drop])

    def discard(self, names_in_use: Sequence[bytes], lineage: str) -> None:
        if self._id is None:
            return  # without knowing the job, another job's files could be hit
        keep = {FileCommittable.from_bytes(name).hidden for name in names_in_use}
        found = self._store.find(self._id, f".{glob.escape(self._prefix)}-{self._id}*~*~*{IN_PROGRESS}")
        self._store.delete([name for name in found if name not in keep and name.split("~")[-2] <= lineage])
