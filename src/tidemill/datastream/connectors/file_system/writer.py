"""The writers of a file sink: parts that end with their epoch, and parts that go on over epochs."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tidemill.common.constants import MAX_LONG_VALUE
from tidemill.datastream.connectors.file_system.buckets import BucketAssigner, OutputFileConfig
from tidemill.datastream.connectors.file_system.formats import FileFormat
from tidemill.datastream.connectors.file_system.parts import (
    IN_PROGRESS,
    KEPT,
    FileCommittable,
    HiddenFile,
    Part,
    Segment,
    durable,
    leaves,
    sync_directory,
)
from tidemill.datastream.connectors.file_system.rolling import RollingPolicy
from tidemill.datastream.sinks import StatefulSinkWriter, WriterContext
from tidemill.errors import CheckpointError, GraphError

__all__ = ["FileSettings", "FileWriter", "sink_id"]


@dataclass(frozen=True)
class FileSettings:
    """Where and how files are written."""

    base_path: str
    format: FileFormat
    bucket_assigner: BucketAssigner
    file_config: OutputFileConfig
    policy: RollingPolicy

    @property
    def suffix(self) -> str:
        """What file names end with."""
        suffix, extension = self.file_config.part_suffix, self.format.extension
        return suffix if suffix.endswith(extension) else suffix + extension


def sink_id(job_id: str, operator_uid: str) -> str:
    """Eight hex digits that stand for one sink of one job."""
    return hashlib.sha256(f"{job_id}\0{operator_uid}".encode()).hexdigest()[:8]


class FileWriter(StatefulSinkWriter):
    """Writes parts, one per bucket; those that the policy leaves open go on in the next epoch.

    Its state are the open parts. A part is rewritten as it grows only as often as its size doubles, so that it never
    has more than a few segments, and every epoch makes one file durable for each bucket that got records.
    """

    def __init__(self, settings: FileSettings, recovered: Sequence[str] = ()) -> None:
        # configuration
        self._settings = settings
        self._format = settings.format
        self._policy = settings.policy
        self._base = Path(settings.base_path)
        # of the epoch
        self._context: WriterContext | None = None
        self._now = 0
        self._ended = False
        self._number = 0
        self._ready: list[FileCommittable] = []
        self._hidden: list[Path] = []
        # checkpointed
        self._parts: dict[str, Part] = {}
        for text in recovered:
            self._recover(Part.from_state(text))

    def begin_epoch(self, context: WriterContext) -> None:
        self._drop_all()
        self._context = context
        self._now = int(time.time() * 1000) if context.processing_time is None else context.processing_time
        self._number = 0

    def write(self, values: list[Any], timestamps: list[int] | None) -> None:
        if not values:
            return
        assigner = self._settings.bucket_assigner
        if assigner.per_epoch:
            self._append(assigner.get_bucket_id(None, None, self._now), values)
            return
        buckets: dict[str, list[Any]] = {}
        for index, value in enumerate(values):
            timestamp = None if timestamps is None else timestamps[index]
            buckets.setdefault(assigner.get_bucket_id(value, timestamp, self._now), []).append(value)
        for bucket, chosen in buckets.items():
            self._append(bucket, chosen)

    def write_watermark(self, watermark: int) -> None:
        self._ended = self._ended or watermark == MAX_LONG_VALUE

    def prepare_commit(self) -> Sequence[bytes]:
        for part in list(self._parts.values()):
            if self._ended or self._policy.is_due(part, self._now):
                self._finish(part)
            else:
                self._keep(part)
        for directory in {path.parent for path in self._hidden}:
            sync_directory(directory)
        ready, self._ready, self._hidden = self._ready, [], []
        return [committable.to_bytes() for committable in ready]

    def snapshot_state(self, checkpoint_id: int) -> Sequence[str]:
        return [part.to_state() for part in self._parts.values()]

    def due(self) -> int | None:
        times = [self._policy.due_at(part) for part in self._parts.values()]
        return min((at for at in times if at is not None), default=None)

    def close(self) -> None:
        self._drop_all()

    # -- parts ----------------------------------------------------------------------------------------------------

    def _recover(self, part: Part) -> None:
        for segment in part.segments:
            if leaves(segment.path) or not (self._base / segment.path).is_file():
                raise CheckpointError(
                    f"the state this job starts from has an unfinished part file in {self._base / part.bucket}, but "
                    f"{segment.path} is gone. It was finished by a later epoch than that state is of, or removed. "
                    "Start from the last checkpoint, or without the sink's state: give the sink another uid"
                )
        known = self._parts.setdefault(part.bucket, part)
        if known is not part:  # two subtasks wrote to the bucket, and there is one now
            known.segments += part.segments
            known.created = min(known.created, part.created)
            known.written = max(known.written, part.written)
            known.epochs = max(known.epochs, part.epochs)

    def _append(self, bucket: str, values: list[Any]) -> None:
        part = self._parts.get(bucket)
        if part is None:
            part = self._parts[bucket] = Part(bucket, self._now, self._now)
        if part.current is None:
            part.current = self._new_file(bucket)
        part.current.write(values)
        part.written = self._now
        if self._policy.is_full(part.size):
            self._finish(part)

    def _finish(self, part: Part) -> None:
        """Make the part one file, which appears with the commit."""
        del self._parts[part.bucket]
        path, final = self._merged(part, part.segments)
        self._ready.append(self._committable(path, final, part.segments))

    def _keep(self, part: Part) -> None:
        """Let the part go on: what this epoch added becomes a segment, together with those that are no larger."""
        part.epochs += 1
        if part.current is None:
            return
        part.current.finish()
        added = part.current.size()
        first = len(part.segments)
        while first and part.segments[first - 1].size <= added:
            first -= 1
            added += part.segments[first].size
        old = part.segments[first:]
        path, _ = self._merged(part, old)
        kept = path.with_name(path.name.removesuffix(IN_PROGRESS) + KEPT)
        self._ready.append(self._committable(path, kept, old))
        part.segments[first:] = [Segment(str(kept.relative_to(self._base)), path.stat().st_size)]
        part.current = None

    def _merged(self, part: Part, segments: Sequence[Segment]) -> tuple[Path, Path]:
        """One durable hidden file of these segments and what the epoch added; where it is, and its final place."""
        current = part.current
        if current is not None and not segments:
            current.finish()
            return current.path, current.final
        sources = [self._base / segment.path for segment in segments]
        path, final = self._next_name(part.bucket)
        if current is not None:
            current.finish()
            sources.append(current.path)
        durable(path, self._format, sources)
        if current is not None:
            current.drop()
            self._hidden.remove(current.path)
        return path, final

    # -- names ----------------------------------------------------------------------------------------------------

    def _new_file(self, bucket: str) -> HiddenFile:
        path, final = self._next_name(bucket)
        return HiddenFile(path, final.name, self._format)

    def _next_name(self, bucket: str) -> tuple[Path, Path]:
        """Where the next hidden file goes, and what it is called when it counts.

        No other attempt, lineage or job ever makes the same names: nothing that is there is overwritten.
        """
        if self._context is None:
            raise RuntimeError("begin_epoch() was not called")
        context = self._context
        directory = self._directory(bucket)
        run = hashlib.sha256(f"{context.history}\0{context.lineage}".encode()).hexdigest()[:6]
        stem = (
            f"{self._settings.file_config.part_prefix}-{sink_id(context.job_id, context.operator_uid)}{run}"
            f"-{context.subtask}-{context.epoch}"
        )
        if self._number:
            stem += f"-{self._number}"
        self._number += 1
        final = directory / f"{stem}{self._settings.suffix}"
        path = directory / f".{final.name}~{context.lineage}~{context.attempt}{IN_PROGRESS}"
        self._hidden.append(path)
        return path, final

    def _directory(self, bucket: str) -> Path:
        if not isinstance(bucket, str):
            raise TypeError(f"a bucket assigner returns a text, not {type(bucket).__name__} {bucket!r}")
        directory = self._base / bucket
        inside = not leaves(bucket) and directory.resolve().is_relative_to(self._base.resolve())
        if not inside:
            raise GraphError(
                f"a bucket lies below the sink's directory {self._base}, which {bucket!r} does not: it leads to "
                f"{directory.resolve()}"
            )
        if any(map(_is_hidden, Path(bucket).parts)):
            raise GraphError(f"files in the bucket {bucket!r} would be hidden from readers: begin it with a letter")
        directory.mkdir(parents=True, exist_ok=True)
        return directory

    def _committable(self, path: Path, final: Path, drop: Sequence[Segment]) -> FileCommittable:
        hidden, name = (str(one.relative_to(self._base)) for one in (path, final))
        return FileCommittable(hidden, name, tuple(segment.path for segment in drop))

    def _drop_all(self) -> None:
        """Remove what the epoch has written, if it does not count."""
        for part in self._parts.values():
            if part.current is not None:
                part.current.drop()
                part.current = None
        for path in self._hidden:
            path.unlink(missing_ok=True)
        self._hidden, self._ready = [], []


def _is_hidden(name: str) -> bool:
    """Whether Spark and others leave out a directory of this name; ``_day=7`` is a partition to them."""
    return name.startswith(".") or (name.startswith("_") and "=" not in name)
