"""The writer of a file sink: parts that end with their epoch or span epochs, and the compaction of finished files."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import PurePosixPath
from typing import Any, Final

from tidemill.common.calls import note_record
from tidemill.common.constants import MAX_LONG_VALUE
from tidemill.connectors.file_system.buckets import BucketAssigner, OutputFileConfig
from tidemill.connectors.file_system.compaction import Compaction
from tidemill.connectors.file_system.formats import FileFormat
from tidemill.connectors.file_system.locations import part_store_at
from tidemill.connectors.file_system.part_store import PartStore, leaves
from tidemill.connectors.file_system.parts import (
    IN_PROGRESS,
    FileCommittable,
    GrowingPart,
    HiddenFile,
    PartSegment,
    WaitingFiles,
    final_name,
    kept_name,
    read_state,
)
from tidemill.connectors.file_system.rolling import RollingPolicy
from tidemill.connectors.sinks import StatefulSinkWriter, WriterContext
from tidemill.errors import CheckpointError

__all__ = ["FileSettings", "FileWriter", "sink_id"]

#: The number of files that are stored together, and so are open, and on a local disk, at the same time. Many parts may
#: end in the same epoch.
_STORED_TOGETHER: Final = 32
#: The prefix of the names of files that were merged; Flink's.
_COMPACTED: Final = "compacted-"
#: Without a checkpoint interval there may be no further epoch that counts as a checkpoint. Files that wait for a number
#: of checkpoints are then merged when no other has joined them for so many ms.
_LONGEST_WAIT: Final = 60_000


@dataclass(frozen=True)
class FileSettings:
    """Where and how files are written."""

    base_path: str
    format: FileFormat
    bucket_assigner: BucketAssigner
    file_config: OutputFileConfig
    policy: RollingPolicy
    compaction: Compaction | None = None
    #: The policy to use instead if the job has no checkpoint interval; None: the same.
    without_interval: RollingPolicy | None = None
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

    Its state consists of the open parts, and of the finished files that wait to be merged. A growing part is rewritten
    only when its size doubles, so it never has more than a few segments. Each epoch makes one file durable for each
    bucket that received records.
    """

    def __init__(self, settings: FileSettings, recovered: Sequence[str] = ()) -> None:
        # configuration
        self._settings = settings
        self._format = settings.format
        self._policy = settings.policy
        self._compaction = settings.compaction
        self._store = settings.part_store()
        # of the epoch
        self._context: WriterContext | None = None
        self._now = 0
        self._ended = False
        self._number = 0
        #: What to commit, by the new name of the file.
        self._ready: dict[str, FileCommittable] = {}
        self._hidden: list[HiddenFile] = []
        #: Files of this epoch that wait to be merged, by their names once they are committed.
        self._fresh: dict[str, HiddenFile] = {}
        # checkpointed
        self._parts: dict[str, GrowingPart] = {}
        self._waiting: dict[str, WaitingFiles] = {}
        for text in recovered:
            self._recover(read_state(text))

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
        checkpoint = self._in_epoch().checkpoint
        self._store_all(self._end_epoch_of(part, checkpoint) for part in list(self._parts.values()))
        self._store_all(self._decide_on(waiting, checkpoint) for waiting in list(self._waiting.values()))
        ready, self._ready, self._hidden, self._fresh = self._ready, {}, [], {}
        return [committable.to_bytes() for committable in ready.values()]

    def snapshot_state(self, checkpoint_id: int) -> Sequence[str]:
        parts = [part.to_state() for part in self._parts.values()]
        return [*parts, *(waiting.to_state() for waiting in self._waiting.values())]

    def due(self) -> int | None:
        upcoming = self._in_epoch().next_checkpoint
        times = [self._policy.due_at(part, upcoming) for part in self._parts.values()]
        if self._compaction is not None and self._compaction.strategy.num_checkpoints is not None:
            times += [one.since + _LONGEST_WAIT if upcoming is None else upcoming for one in self._waiting.values()]
        return min((at for at in times if at is not None), default=None)

    def close(self) -> None:
        self._drop_all()

    # -- parts ----------------------------------------------------------------------------------------------------

    def _recover(self, found: GrowingPart | WaitingFiles) -> None:
        for file in found.segments if isinstance(found, GrowingPart) else found.files:
            if leaves(file.path) or not self._store.exists(file.path):
                raise CheckpointError(
                    f"the state this job starts from has an unfinished part file in {self._store.named(found.bucket)}, "
                    f"but {file.path} is gone. The part was finished by a later epoch, or the file was removed. "
                    "Start from the last checkpoint, or without the sink's state: give the sink another uid"
                )
        # Two subtasks may have written to the bucket: this one now continues the work of both.
        if isinstance(found, GrowingPart):
            part = self._parts.setdefault(found.bucket, found)
            if part is not found:
                part.join(found)
        else:
            waiting = self._waiting.setdefault(found.bucket, found)
            if waiting is not found:
                waiting.join(found)

    def _append(self, bucket: str, values: list[Any]) -> None:
        part = self._parts.get(bucket)
        if part is None:
            part = self._parts[bucket] = GrowingPart(bucket, self._now, self._now)
        if part.current is None:
            part.current = self._new_file(bucket)
        part.current.write(values)
        part.written = self._now
        if self._policy.is_full(part.size):
            self._store_all([self._finish(part)])

    def _end_epoch_of(self, part: GrowingPart, checkpoint: bool) -> HiddenFile | None:
        due = self._ended or self._policy.is_due(part, self._now, checkpoint=checkpoint)
        return self._finish(part) if due else self._keep(part)

    def _finish(self, part: GrowingPart) -> HiddenFile | None:
        """Merge the part into one file, which becomes visible with the commit, or waits to be merged with others.

        Returns the file, still to be stored, or None if the part is a single segment, which needs only another name.
        """
        del self._parts[part.bucket]
        whole = None
        if part.current is None and len(part.segments) == 1:
            kept = part.segments[0]
            if self._compaction is None:
                self._rename(kept.path, final_name(part.bucket, kept.path))
                return None
        else:
            whole = self._merged(part, part.segments)
            drop = [segment.path for segment in part.segments]
            if self._compaction is None:
                self._add_committable(whole.draft.name, whole.final, drop)
                return whole
            kept = PartSegment(kept_name(whole.draft.name), whole.size())
            self._add_committable(whole.draft.name, kept.path, drop)
            self._fresh[kept.path] = whole
        waiting = self._waiting.setdefault(part.bucket, WaitingFiles(part.bucket, self._now))
        waiting.files.append(kept)
        waiting.since = self._now
        return whole

    def _keep(self, part: GrowingPart) -> HiddenFile | None:
        """Keep the part open: the records of this epoch become a segment, merged with segments that are not larger.

        Returns the segment, still to be stored, or None if the epoch added no records.
        """
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
        kept = kept_name(segment.draft.name)
        self._add_committable(segment.draft.name, kept, [one.path for one in old])
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

    def _add_committable(self, hidden: str, final: str, drop: Sequence[str] = ()) -> None:
        self._ready[final] = FileCommittable(hidden, final, tuple(drop))

    def _rename(self, kept: str, final: str) -> None:
        """Let a kept file become visible as it is. If it is gone, fail now: the commit would be too late."""
        if not self._store.exists(kept):
            raise FileNotFoundError(f"{self._store.named(kept)} does not exist")
        self._add_committable(kept, final)

    def _store_all(self, files: Iterable[HiddenFile | None]) -> None:
        """Store files as they are made, some of them together."""
        drafts = (file.draft for file in files if file is not None)
        while together := list(islice(drafts, _STORED_TOGETHER)):
            self._store.store(together)

    # -- compaction -----------------------------------------------------------------------------------------------

    def _decide_on(self, waiting: WaitingFiles, checkpoint: bool) -> HiddenFile | None:
        """Merge the waiting files of a bucket if it is time. Returns the new file, if there is one, to be stored."""
        waiting.checkpoints += checkpoint
        if self._compaction is None:  # it was disabled after the state was written
            del self._waiting[waiting.bucket]
            for file in waiting.files:
                self._rename(file.path, final_name(waiting.bucket, file.path))
            return None
        strategy = self._compaction.strategy
        overdue = (
            strategy.num_checkpoints is not None
            and self._in_epoch().next_checkpoint is None
            and self._now >= waiting.since + _LONGEST_WAIT
        )
        if not (self._ended or overdue or strategy.is_due(waiting.checkpoints, waiting.size)):
            return None
        del self._waiting[waiting.bucket]
        if len(waiting.files) == 1 and not self._compaction.compactor.rewrites:
            kept = waiting.files[0].path
            final = final_name(waiting.bucket, kept, _COMPACTED)
            if kept in self._ready:  # it was finished in this epoch
                known = self._ready.pop(kept)
                self._add_committable(known.hidden, final, known.drop)
            else:
                self._rename(kept, final)
            return None
        return self._compacted(waiting, self._compaction)

    def _compacted(self, waiting: WaitingFiles, compaction: Compaction) -> HiddenFile:
        paths = [file.path for file in waiting.files]
        stored = [self._fresh[path].draft.name if path in self._fresh else path for path in paths]
        whole = self._new_file(waiting.bucket, _COMPACTED)
        with self._store.reading(stored) as sources:
            whole.compact(compaction.compactor, sources)
        whole.finish()
        drop: list[str] = []
        for path in paths:
            if path in self._fresh:  # it was never committed, but what was merged into it still has to be deleted
                drop += self._ready.pop(path).drop
                file = self._fresh.pop(path)
                file.drop()
                self._hidden.remove(file)
            else:
                drop.append(path)
        self._add_committable(whole.draft.name, whole.final, drop)
        return whole

    # -- names ----------------------------------------------------------------------------------------------------

    def _in_epoch(self) -> WriterContext:
        if self._context is None:
            raise RuntimeError("begin_epoch() must be called before the first record")
        return self._context

    def _new_file(self, bucket: str, prefix: str = "") -> HiddenFile:
        """Create the next hidden file of a bucket.

        No other attempt, lineage or job uses the same names, so existing files are never overwritten.
        """
        context = self._in_epoch()
        self._store.check_bucket(bucket)
        sink = sink_id(context.job_id, context.operator_uid)
        run = hashlib.sha256(f"{context.history}\0{context.lineage}".encode()).hexdigest()[:6]
        stem = f"{self._settings.file_config.part_prefix}-{sink}{run}-{context.subtask}-{context.epoch}"
        if self._number:
            stem += f"-{self._number}"
        self._number += 1
        file = f"{stem}{self._settings.suffix}"
        hidden = self._store.hidden_name(sink, bucket, f".{file}~{context.lineage}~{context.attempt}{IN_PROGRESS}")
        made = HiddenFile(self._store, hidden, str(PurePosixPath(bucket, prefix + file)), self._format)
        self._hidden.append(made)
        return made

    def _drop_all(self) -> None:
        """Discard the files of an epoch that was not committed."""
        for part in self._parts.values():
            part.current = None
        for file in self._hidden:
            file.drop()
        self._hidden, self._ready, self._fresh = [], {}, {}
