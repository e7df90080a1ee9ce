"""The writer of a file sink, for parts that end with their epoch and for parts that span epochs."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any, Final

from tidemill.common.calls import note_record
from tidemill.common.constants import MAX_LONG_VALUE
from tidemill.connectors.file_system.buckets import BucketAssigner, OutputFileConfig
from tidemill.connectors.file_system.formats import FileFormat
from tidemill.connectors.file_system.locations import part_store_at
from tidemill.connectors.file_system.part_store import PartStore, leaves
from tidemill.connectors.file_system.parts import (
    IN_PROGRESS,
    KEPT,
    FileCommittable,
    GrowingPart,
    HiddenFile,
    PartSegment,
)
from tidemill.connectors.file_system.rolling import RollingPolicy
from tidemill.connectors.sinks import StatefulSinkWriter, WriterContext
from tidemill.errors import CheckpointError

__all__ = ["FileSettings", "FileWriter", "sink_id"]

#: The number of files that are stored together, and so are open, and on a local disk, at the same time. Many parts may
#: end in the same epoch.
_STORED_TOGETHER: Final = 32


@dataclass(frozen=True)
class FileSettings:
    """Where and how files are written."""

    base_path: str
    format: FileFormat
    bucket_assigner: BucketAssigner
    file_config: OutputFileConfig
    policy: RollingPolicy
    #: The object store options of the job's configuration; they may contain secrets and must not be displayed.
    store_options: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def suffix(self) -> str:
        """The suffix of file names, including the extension of the format."""
        suffix, extension = self.file_config.part_suffix, self.format.extension
        return suffix if suffix.endswith(extension) else suffix + extension

    def part_store(self) -> PartStore:
        """Return the store of the files; performs no I/O."""
        return part_store_at(self.base_path, self.store_options)


def sink_id(job_id: str, operator_uid: str) -> str:
    """Return eight hex digits that identify one sink of one job."""
    return hashlib.sha256(f"{job_id}\0{operator_uid}".encode()).hexdigest()[:8]


class FileWriter(StatefulSinkWriter):
    """Writes parts, one per bucket; parts that the policy keeps open continue in the next epoch.

    Its state consists of the open parts. A growing part is rewritten only when its size doubles, so it never has more
    than a few segments. Each epoch makes one file durable for each bucket that received records.
    """

    def __init__(self, settings: FileSettings, recovered: Sequence[str] = ()) -> None:
        # configuration
        self._settings = settings
        self._format = settings.format
        self._policy = settings.policy
        self._store = settings.part_store()
        # of the epoch
        self._context: WriterContext | None = None
        self._now = 0
        self._ended = False
        self._number = 0
        self._ready: list[FileCommittable] = []
        self._hidden: list[HiddenFile] = []
        # checkpointed
        self._parts: dict[str, GrowingPart] = {}
        for text in recovered:
            self._recover(GrowingPart.from_state(text))

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
        remaining = iter(values)
        try:
            for index, value in enumerate(remaining):
                timestamp = None if timestamps is None else timestamps[index]
                buckets.setdefault(assigner.get_bucket_id(value, timestamp, self._now), []).append(value)
        except BaseException as error:
            note_record(error, values, remaining)
            raise
        for bucket, chosen in buckets.items():
            self._append(bucket, chosen)

    def write_watermark(self, watermark: int) -> None:
        self._ended = self._ended or watermark == MAX_LONG_VALUE

    def prepare_commit(self) -> Sequence[bytes]:
        made: list[HiddenFile] = []
        for part in list(self._parts.values()):
            if self._ended or self._policy.is_due(part, self._now):
                made.append(self._finish(part))
            elif (kept := self._keep(part)) is not None:
                made.append(kept)
            if len(made) == _STORED_TOGETHER:
                self._store.store([file.draft for file in made])
                made = []
        self._store.store([file.draft for file in made])
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

    def _recover(self, part: GrowingPart) -> None:
        for segment in part.segments:
            if leaves(segment.path) or not self._store.exists(segment.path):
                raise CheckpointError(
                    f"the state this job starts from has an unfinished part file in {self._store.named(part.bucket)}, "
                    f"but {segment.path} is gone. The part was finished by a later epoch, or the file was removed. "
                    "Start from the last checkpoint, or without the sink's state: give the sink another uid"
                )
        known = self._parts.setdefault(part.bucket, part)
        if known is not part:  # two subtasks wrote to the bucket, and this subtask now continues both parts
            known.segments += part.segments
            known.created = min(known.created, part.created)
            known.written = max(known.written, part.written)
            known.epochs = max(known.epochs, part.epochs)

    def _append(self, bucket: str, values: list[Any]) -> None:
        part = self._parts.get(bucket)
        if part is None:
            part = self._parts[bucket] = GrowingPart(bucket, self._now, self._now)
        if part.current is None:
            part.current = self._new_file(bucket)
        part.current.write(values)
        part.written = self._now
        if self._policy.is_full(part.size):
            self._store.store([self._finish(part).draft])

    def _finish(self, part: GrowingPart) -> HiddenFile:
        """Merge the part into one file, still to be stored, which becomes visible with the commit."""
        del self._parts[part.bucket]
        whole = self._merged(part, part.segments)
        self._add_committable(whole, whole.final, part.segments)
        return whole

    def _keep(self, part: GrowingPart) -> HiddenFile | None:
        """Keep the part open: the records of this epoch become a segment, merged with segments that are not larger.

        Returns the segment, still to be stored, or None if the epoch added no records.
        """
        part.epochs += 1
        if part.current is None:
            return None
        part.current.finish()
        added = part.current.size()
        first = len(part.segments)
        while first and part.segments[first - 1].size <= added:
            first -= 1
            added += part.segments[first].size
        old = part.segments[first:]
        segment = self._merged(part, old)
        kept = segment.draft.name.removesuffix(IN_PROGRESS) + KEPT
        self._add_committable(segment, kept, old)
        part.segments[first:] = [PartSegment(kept, segment.size())]
        part.current = None
        return segment

    def _merged(self, part: GrowingPart, segments: Sequence[PartSegment]) -> HiddenFile:
        """Merge these segments and the records of the epoch into one file."""
        current = part.current
        if current is not None:
            current.finish()
            if not segments:
                return current
        whole = self._new_file(part.bucket)
        with self._store.reading([segment.path for segment in segments]) as sources:
            whole.merge(sources if current is None else [*sources, current.draft.path])
        whole.finish()
        if current is not None:
            current.drop()
            self._hidden.remove(current)
        return whole

    def _add_committable(self, file: HiddenFile, final: str, drop: Sequence[PartSegment]) -> None:
        self._ready.append(FileCommittable(file.draft.name, final, tuple(segment.path for segment in drop)))

    # -- names ----------------------------------------------------------------------------------------------------

    def _new_file(self, bucket: str) -> HiddenFile:
        """Create the next hidden file of a bucket.

        No other attempt, lineage or job uses the same names, so existing files are never overwritten.
        """
        if self._context is None:
            raise RuntimeError("begin_epoch() must be called before the first record")
        context = self._context
        self._store.check_bucket(bucket)
        sink = sink_id(context.job_id, context.operator_uid)
        run = hashlib.sha256(f"{context.history}\0{context.lineage}".encode()).hexdigest()[:6]
        stem = f"{self._settings.file_config.part_prefix}-{sink}{run}-{context.subtask}-{context.epoch}"
        if self._number:
            stem += f"-{self._number}"
        self._number += 1
        file = f"{stem}{self._settings.suffix}"
        hidden = self._store.hidden_name(sink, bucket, f".{file}~{context.lineage}~{context.attempt}{IN_PROGRESS}")
        made = HiddenFile(self._store, hidden, str(PurePosixPath(bucket, file)), self._format)
        self._hidden.append(made)
        return made

    def _drop_all(self) -> None:
        """Discard the files of an epoch that was not committed."""
        for part in self._parts.values():
            part.current = None
        for file in self._hidden:
            file.drop()
        self._hidden, self._ready = [], []
