"""Part files, which are hidden until they are committed.

A file in progress is named ``.<name>~<lineage>~<attempt>.inprogress``. It belongs to one attempt of one subtask, and is
never modified after it is durable. A part that spans epochs is a list of *segments*: the records of each epoch are kept
as ``.<name>~<lineage>~<attempt>.kept``. When the part is finished, its segments are merged into one file, which appears
under its final name. A ``PartStore`` determines where all these files are stored.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any, Final

from tidemill.connectors.file_system.formats import FileFormat, RecordWriter
from tidemill.connectors.file_system.part_store import Draft, PartStore, errors_name, leaves
from tidemill.errors import CheckpointError

__all__ = ["IN_PROGRESS", "KEPT", "FileCommittable", "GrowingPart", "HiddenFile", "PartSegment"]

IN_PROGRESS: Final = ".inprogress"
KEPT: Final = ".kept"
_VERSION: Final = 2


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
        return json.dumps({"version": _VERSION, **asdict(self)}).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> FileCommittable:
        """Read a committable from a manifest.

        Raises :class:`CheckpointError` if its version is unknown, or if it names a file outside the sink's directory.
        """
        fields = json.loads(data)
        version = fields.pop("version", None)
        if version not in (1, _VERSION):
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
    epochs: int = 0
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
                "version": _VERSION,
                "bucket": self.bucket,
                "created": self.created,
                "written": self.written,
                "epochs": self.epochs,
                "segments": [[segment.path, segment.size] for segment in self.segments],
            }
        )

    @classmethod
    def from_state(cls, text: str) -> GrowingPart:
        """Restore a part from the state that :meth:`to_state` returned."""
        data = json.loads(text)
        if data["version"] != _VERSION:
            raise CheckpointError(f"a part file's state of version {data['version']} cannot be read")
        segments = [PartSegment(path, size) for path, size in data["segments"]]
        return cls(data["bucket"], data["created"], data["written"], data["epochs"], segments)


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
