"""Files as an exactly-once sink: a reader sees only what is committed.

1. A writer writes the records of an epoch to hidden files ``.<name>~<lineage>~<attempt>.inprogress`` in the directory
   they will appear in, and makes them durable at the barrier.
2. The committable names the hidden and the final file, relative to the sink's directory.
3. After the manifest is durable the committer renames. A rename is atomic; a file that is there under its final name
   and gone under its hidden one was committed before.

A final name is ``<prefix>-<id>-<subtask>-<epoch>[-<n>]<suffix>``: ``id`` is the same for all runs of one job, so that a
resumed job writes the same names, and different for any other sink that writes to the same directory.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final
from urllib.parse import unquote, urlsplit

from tidemill.common.serialization import Encoder
from tidemill.datastream.connectors.file_buckets import BucketAssigner, OutputFileConfig, RollingPolicy
from tidemill.datastream.sinks import Committed, Committer, CommitterContext, Sink, SinkWriter, WriterContext
from tidemill.errors import CheckpointError, GraphError

__all__ = ["FileSink", "StreamingFileSink"]

_VERSION: Final = 1
_IN_PROGRESS: Final = ".inprogress"
_BUFFER: Final = 1 << 18


@dataclass(frozen=True)
class _Settings:
    base_path: str
    encoder: Encoder[Any]
    bucket_assigner: BucketAssigner
    file_config: OutputFileConfig
    part_size: int | None


class FileSink(Sink):
    """Writes records to files in a local or mounted directory; made by :meth:`for_row_format`.

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

    def __init__(self, settings: _Settings) -> None:
        self.settings = settings

    @staticmethod
    def for_row_format(base_path: str, encoder: Encoder[Any]) -> FileSink.RowFormatBuilder:
        """Start building a sink that writes record after record."""
        return FileSink.RowFormatBuilder(base_path, encoder)

    def create_writer(self, subtask: int, parallelism: int) -> SinkWriter:
        """A writer of hidden files."""
        return _FileWriter(self.settings)

    def create_committer(self) -> Committer:
        """A committer that renames them."""
        return _FileCommitter(self.settings)

    class RowFormatBuilder:
        """Collects the settings; by default one bucket per hour, as in Flink."""

        def __init__(self, base_path: str, encoder: Encoder[Any]) -> None:
            if not isinstance(encoder, Encoder):
                raise TypeError(f"an Encoder is needed, not {type(encoder).__name__}")
            self._base_path = local_path(base_path)
            self._encoder = encoder
            self._assigner = BucketAssigner.date_time_bucket_assigner()
            self._files = OutputFileConfig()
            self._policy: RollingPolicy = RollingPolicy.default_rolling_policy()

        def with_bucket_check_interval(self, interval: int) -> FileSink.RowFormatBuilder:
            """Accepted: files end with their epoch, nothing has to be checked in between."""
            return self

        def with_bucket_assigner(self, bucket_assigner: BucketAssigner) -> FileSink.RowFormatBuilder:
            """Which directory a record goes to."""
            self._assigner = bucket_assigner
            return self

        def with_output_file_config(self, output_file_config: OutputFileConfig) -> FileSink.RowFormatBuilder:
            """How files are called."""
            self._files = output_file_config
            return self

        def with_rolling_policy(self, rolling_policy: RollingPolicy) -> FileSink.RowFormatBuilder:
            """When a file ends before its epoch does."""
            self._policy = rolling_policy
            return self

        def build(self) -> FileSink:
            """The sink."""
            return FileSink(
                _Settings(self._base_path, self._encoder, self._assigner, self._files, self._policy.part_size)
            )


#: Flink 1.x's name.
StreamingFileSink = FileSink


def local_path(path: str) -> str:
    """A path or ``file:`` URI as an absolute path, so that driver and workers mean the same directory."""
    parts = urlsplit(path)
    if parts.scheme == "file":
        return str(Path(unquote(parts.path)).absolute())
    if len(parts.scheme) > 1:  # one letter is a drive
        raise GraphError(
            f"FileSink writes to local or mounted directories, not to {parts.scheme}: {path!r}. "
            "Mount the storage, or write through Spark."
        )
    return str(Path(path).absolute())


def sink_id(job_id: str, operator_uid: str) -> str:
    """Eight hex digits that stand for one sink of one job."""
    return hashlib.sha256(f"{job_id}\0{operator_uid}".encode()).hexdigest()[:8]


class _OpenFile:
    """One hidden file being written."""

    def __init__(self, directory: Path, hidden: str, final: str) -> None:
        self.hidden = directory / hidden
        self.final = directory / final
        self.stream: BinaryIO = self.hidden.open("wb", buffering=_BUFFER)

    def make_durable(self) -> None:
        with self.stream:
            self.stream.flush()
            os.fsync(self.stream.fileno())

    def drop(self) -> None:
        self.stream.close()
        self.hidden.unlink(missing_ok=True)


class _FileWriter(SinkWriter):
    def __init__(self, settings: _Settings) -> None:
        # configuration
        self._settings = settings
        self._base = Path(settings.base_path)
        # of the epoch
        self._context: WriterContext | None = None
        self._time = 0
        self._open: dict[str, _OpenFile] = {}
        self._closed: list[_OpenFile] = []
        self._counts: dict[str, int] = {}

    def begin_epoch(self, context: WriterContext) -> None:
        self._drop_all()
        self._context = context
        self._time = int(time.time() * 1000) if context.processing_time is None else context.processing_time
        self._counts = {}

    def write(self, values: list[Any], timestamps: list[int] | None) -> None:
        if not values:
            return
        assigner = self._settings.bucket_assigner
        if assigner.per_epoch:
            self._append(assigner.get_bucket_id(None, None, self._time), values)
            return
        buckets: dict[str, list[Any]] = {}
        for index, value in enumerate(values):
            timestamp = None if timestamps is None else timestamps[index]
            buckets.setdefault(assigner.get_bucket_id(value, timestamp, self._time), []).append(value)
        for bucket, chosen in buckets.items():
            self._append(bucket, chosen)

    def prepare_commit(self) -> Sequence[bytes]:
        files = [*self._closed, *self._open.values()]
        for file in self._open.values():
            file.make_durable()
        self._closed, self._open = [], {}
        for directory in {file.hidden.parent for file in files}:
            _sync_directory(directory)
        return [self._committable(file) for file in files]

    def close(self) -> None:
        self._drop_all()

    def _append(self, bucket: str, values: list[Any]) -> None:
        encode, limit = self._settings.encoder.encode, self._settings.part_size
        file = self._open.get(bucket) or self._next_file(bucket)
        stream = file.stream
        for value in values:
            encode(value, stream)
        if limit is not None and stream.tell() >= limit:
            file.make_durable()
            self._closed.append(self._open.pop(bucket))

    def _next_file(self, bucket: str) -> _OpenFile:
        if self._context is None:
            raise RuntimeError("begin_epoch() was not called")
        context, names = self._context, self._settings.file_config
        directory = self._base / bucket
        if ".." in Path(bucket).parts or Path(bucket).is_absolute():
            raise GraphError(f"a bucket lies below the sink's directory, which {bucket!r} does not")
        directory.mkdir(parents=True, exist_ok=True)
        number = self._counts.get(bucket, 0)
        self._counts[bucket] = number + 1
        stem = f"{names.part_prefix}-{sink_id(context.job_id, context.operator_uid)}-{context.subtask}-{context.epoch}"
        if number:
            stem += f"-{number}"
        hidden = f".{stem}{names.part_suffix}~{context.lineage}~{context.attempt}{_IN_PROGRESS}"
        file = _OpenFile(directory, hidden, stem + names.part_suffix)
        self._open[bucket] = file
        return file

    def _committable(self, file: _OpenFile) -> bytes:
        hidden, final = (str(path.relative_to(self._base)) for path in (file.hidden, file.final))
        return json.dumps({"version": _VERSION, "hidden": hidden, "final": final}).encode()

    def _drop_all(self) -> None:
        for file in (*self._open.values(), *self._closed):
            file.drop()
        self._open, self._closed = {}, []


class _FileCommitter(Committer):
    def __init__(self, settings: _Settings) -> None:
        self._base = Path(settings.base_path)
        self._prefix = settings.file_config.part_prefix
        self._id: str | None = None

    def open(self, context: CommitterContext) -> None:
        self._id = sink_id(context.job_id, context.operator_uid)

    def commit(self, committed: Sequence[Committed]) -> None:
        touched = set()
        for part in sorted(committed, key=lambda one: (one.epoch, one.subtask)):
            for committable in part.committables:
                hidden, final = self._paths(committable)
                try:
                    hidden.replace(final)
                    touched.add(final.parent)
                except FileNotFoundError:
                    # A file that is gone after a restart was committed before, and has been taken away since.
                    if not final.exists() and not part.again:
                        raise CheckpointError(
                            f"epoch {part.epoch} is committed, but its output file is gone: neither {hidden} nor "
                            f"{final} exists. Was the output directory cleaned while the job was running?"
                        ) from None
        for directory in touched:
            _sync_directory(directory)

    def discard(self, names_in_use: Sequence[bytes], lineage: str) -> None:
        if self._id is None or not self._base.is_dir():
            return  # without knowing the job, another job's files could be hit
        keep = {self._paths(name)[0] for name in names_in_use}
        for leftover in self._base.rglob(f".{self._prefix}-{self._id}-*~*~*{_IN_PROGRESS}"):
            if leftover not in keep and leftover.name.split("~")[-2] <= lineage:
                leftover.unlink(missing_ok=True)

    def _paths(self, committable: bytes) -> tuple[Path, Path]:
        data = json.loads(committable)
        if data.get("version") != _VERSION:
            raise CheckpointError(f"a file committable of version {data.get('version')} cannot be read: {data}")
        for name in (data["hidden"], data["final"]):
            if Path(name).is_absolute() or ".." in Path(name).parts:
                raise CheckpointError(f"a file committable points outside of {self._base}: {name!r}")
        return self._base / data["hidden"], self._base / data["final"]


def _sync_directory(directory: Path) -> None:
    """Make new names in a directory durable; some file systems cannot, and need not."""
    with contextlib.suppress(OSError):
        handle = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
