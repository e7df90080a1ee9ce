"""Part files, which are hidden until they are committed.

A file in progress is named ``.<name>~<lineage>~<attempt>.inprogress``. It belongs to one attempt of one subtask, and is
never modified after it is durable. A part that spans epochs is a list of *segments*: the records of each epoch are kept
as ``.<name>~<lineage>~<attempt>.kept``. When the part is finished, its segments are merged into one file, which appears
under its final name. If the sink compacts files, a finished part is kept in the same way, and waits until it is merged
with others. A ``PartStore`` determines where all these files are stored.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path, PurePosixPath
from typing import IO, Any, Final

from tidemill.connectors.file_system.compaction import FileCompactor
from tidemill.connectors.file_system.formats import FileFormat, RecordWriter
from tidemill.connectors.file_system.part_store import Draft, PartStore, errors_name, leaves
from tidemill.errors import CheckpointError

__all__ = [
    "IN_PROGRESS",
    "KEPT",
    "FileCommittable",
    "GrowingPart",
    "HiddenFile",
    "PartSegment",
    "WaitingFiles",
    "final_name",
    "kept_name",
    "read_state",
]

IN_PROGRESS: Final = ".inprogress"
KEPT: Final = ".kept"
#: Versions of committables and of the writer's state.
_COMMITTABLE: Final = 2
_STATE: Final = 3


@dataclass(frozen=True)
class FileCommittable:
    """The committable of one file: the committer renames the file, then deletes the segments merged into it.

    Names are relative to the sink's path.
    """

    hidden: str
    final: str
    drop: tuple[str, ...] = ()

    def to_bytes(self) -> bytes:
        """Serialize the committable for the manifest."""
        return json.dumps({"version": _COMMITTABLE, **asdict(self)}).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> FileCommittable:
        """Read a committable from a manifest.

        Raises :class:`CheckpointError` if its version is unknown, or if it names a file outside the sink's directory.
        """
        fields = json.loads(data)
        version = fields.pop("version", None)
        if version not in (1, _COMMITTABLE):
            raise CheckpointError(f"a file committable of version {version} cannot be read: {fields}")
        found = cls(fields["hidden"], fields["final"], tuple(fields.get("drop", ())))
        for name in (found.hidden, found.final, *found.drop):
            if leaves(name):
                raise CheckpointError(f"a file committable names a file outside the sink's directory: {name!r}")
        return found


@dataclass(frozen=True)
class PartSegment:
    """A kept file of a part, by its name in the store."""

    path: str
    size: int


@dataclass
class GrowingPart:
    """A part of one bucket that spans epochs: its kept segments, and the file of the current epoch."""

    bucket: str
    created: int
    written: int
    segments: list[PartSegment] = field(default_factory=list)
    current: HiddenFile | None = None

    @property
    def size(self) -> int:
        """The number of bytes written so far."""
        return sum(segment.size for segment in self.segments) + (0 if self.current is None else self.current.size())

    def to_state(self) -> str:
        """Serialize the state from which another writer can continue the part."""
        return json.dumps(
            {
                "version": _STATE,
                "kind": "part",
                "bucket": self.bucket,
                "created": self.created,
                "written": self.written,
                "segments": [[segment.path, segment.size] for segment in self.segments],
            }
        )

    def join(self, other: GrowingPart) -> None:
        """Continue another part of the bucket too, which another subtask has written."""
        self.segments += other.segments
        self.created = min(self.created, other.created)
        self.written = max(self.written, other.written)


@dataclass
class WaitingFiles:
    """The finished files of one bucket that wait to be merged. ``checkpoints`` counts those since the first of them,
    ``since`` is the processing time of the last one."""

    bucket: str
    since: int
    checkpoints: int = 0
    files: list[PartSegment] = field(default_factory=list)

    @property
    def size(self) -> int:
        """The number of bytes in all files."""
        return sum(file.size for file in self.files)

    def to_state(self) -> str:
        """Serialize the state from which another writer can merge the files."""
        return json.dumps(
            {
                "version": _STATE,
                "kind": "waiting",
                "bucket": self.bucket,
                "since": self.since,
                "checkpoints": self.checkpoints,
                "files": [[file.path, file.size] for file in self.files],
            }
        )

    def join(self, other: WaitingFiles) -> None:
        """Merge the files of another subtask too."""
        self.files += other.files
        self.since = max(self.since, other.since)
        self.checkpoints = max(self.checkpoints, other.checkpoints)


def read_state(text: str) -> GrowingPart | WaitingFiles:
    """Restore an element of a writer's state. Version 2 had only growing parts."""
    data = json.loads(text)
    if data["version"] not in (2, _STATE):
        raise CheckpointError(f"a part file's state of version {data['version']} cannot be read")
    if data.get("kind") == "waiting":
        files = [PartSegment(path, size) for path, size in data["files"]]
        return WaitingFiles(data["bucket"], data["since"], data["checkpoints"], files)
    segments = [PartSegment(path, size) for path, size in data["segments"]]
    return GrowingPart(data["bucket"], data["created"], data["written"], segments)


def kept_name(hidden: str) -> str:
    """The name of a file in progress once it is committed as a segment, or as a file that waits.

    >>> kept_name("b/.part-0-1.txt~l~a.inprogress")
    'b/.part-0-1.txt~l~a.kept'
    """
    return hidden.removesuffix(IN_PROGRESS) + KEPT


def final_name(bucket: str, kept: str, prefix: str = "") -> str:
    """The name under which a kept file becomes visible.

    >>> final_name("b", ".tidemill-1/b/.part-0-1.txt~l~a.kept", "compacted-")
    'b/compacted-part-0-1.txt'
    """
    name = PurePosixPath(kept).name.removeprefix(".").rsplit("~", 2)[0]
    return str(PurePosixPath(bucket, prefix + name))


class HiddenFile:
    """A hidden file, to which records are written or other files are merged. ``final`` is its name when committed.

    After :meth:`finish`, its store makes it durable.
    """

    def __init__(self, store: PartStore, name: str, final: str, file_format: FileFormat) -> None:
        self.final = final
        self.draft: Draft = store.draft(name)
        self._store = store
        self._format = file_format
        self._target = _Target(self.draft.stream)
        self._records: RecordWriter | None = None
        self._size: int | None = None

    def write(self, values: list[Any]) -> None:
        """Append records."""
        with errors_name(self.draft.shown):
            if self._records is None:
                self._records = self._format.open(self._target)  # type: ignore[arg-type]
            self._records.write(values)

    def merge(self, sources: Sequence[Path]) -> None:
        """Write the records of other files to it, in order."""
        with errors_name(self.draft.shown):
            self._format.merge(sources, self._target)  # type: ignore[arg-type]

    def compact(self, compactor: FileCompactor, sources: Sequence[Path]) -> None:
        """Write what the compactor makes of finished files to it."""
        with errors_name(self.draft.shown):
            compactor.compact(sources, self._target, self._format)  # type: ignore[arg-type]

    def size(self) -> int:
        """Return the number of bytes written so far."""
        return self.draft.stream.tell() if self._size is None else self._size

    def finish(self) -> None:
        """Complete the file, so that it can be read on this machine. Has no effect if called again."""
        if self._size is not None:
            return
        with errors_name(self.draft.shown):
            if self._records is not None:
                self._records.finish()
            self.draft.stream.flush()
            self._size = self.draft.stream.tell()
            self.draft.stream.seek(0)  # a reader that opens its path may share the position

    def drop(self) -> None:
        """Discard the file."""
        self._target.cut()
        self._store.drop(self.draft)


class _Target:
    """The stream that is passed to formats. Closing it has no effect, and writes after :meth:`cut` are discarded.

    Some formats close their stream when they finish, and write to it when they are garbage collected.
    """

    closed = False

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self.write: Callable[[Any], int] = stream.write

    def close(self) -> None:
        """Do nothing: the file must still be made durable."""

    def cut(self) -> None:
        """Discard all further writes."""
        self.write = len

    def flush(self) -> None:
        if not self._stream.closed:
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
