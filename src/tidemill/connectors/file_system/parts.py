"""Part files, hidden until they count.

A file that is being written is called ``.<name>~<lineage>~<attempt>.inprogress``. It belongs to one attempt of one
subtask and is never written again once it is durable. A part that goes on over epochs is a list of *segments*: after
each epoch what came is kept as ``.<name>~<lineage>~<attempt>.kept``. When the part is finished its segments are made
one file, which appears under its final name. Where all these lie is up to a ``PartStore``.
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
    """What the committer does for one file: give it its name, then delete the segments that are in it.

    Names are relative to the sink's path.
    """

    hidden: str
    final: str
    drop: tuple[str, ...] = ()

    def to_bytes(self) -> bytes:
        """As a manifest holds it."""
        return json.dumps({"version": _VERSION, **asdict(self)}).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> FileCommittable:
        """What a manifest holds. Raises :class:`CheckpointError` if it is of another version, or points outside."""
        fields = json.loads(data)
        version = fields.pop("version", None)
        if version not in (1, _VERSION):
            raise CheckpointError(f"a file committable of version {version} cannot be read: {fields}")
        found = cls(fields["hidden"], fields["final"], tuple(fields.get("drop", ())))
        for name in (found.hidden, found.final, *found.drop):
            if leaves(name):
                raise CheckpointError(f"a file committable points outside of the sink's directory: {name!r}")
        return found


@dataclass(frozen=True)
class PartSegment:
    """A kept file of a part, by its name in the store."""

    path: str
    size: int


@dataclass
class GrowingPart:
    """A part that goes on over epochs, of one bucket: what is kept of it, and what the epoch adds."""

    bucket: str
    created: int
    written: int
    epochs: int = 0
    segments: list[PartSegment] = field(default_factory=list)
    current: HiddenFile | None = None

    @property
    def size(self) -> int:
        """Bytes written so far."""
        return sum(segment.size for segment in self.segments) + (0 if self.current is None else self.current.size())

    def to_state(self) -> str:
        """What another writer goes on from."""
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
        """The part that :meth:`to_state` described."""
        data = json.loads(text)
        if data["version"] != _VERSION:
            raise CheckpointError(f"a part file's state of version {data['version']} cannot be read")
        segments = [PartSegment(path, size) for path, size in data["segments"]]
        return cls(data["bucket"], data["created"], data["written"], data["epochs"], segments)


class HiddenFile:
    """A file until it counts: records are written to it, or other files made one. ``final`` is its name from then on.

    After :meth:`finish` its store makes it durable.
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
        """Let it hold the records of other files, in order."""
        with errors_name(self.draft.shown):
            self._format.merge(sources, self._target)  # type: ignore[arg-type]

    def size(self) -> int:
        """Bytes so far."""
        return self.draft.stream.tell() if self._size is None else self._size

    def finish(self) -> None:
        """Nothing comes any more; all of it can be read on this machine. Without effect if called again."""
        if self._size is not None:
            return
        with errors_name(self.draft.shown):
            if self._records is not None:
                self._records.finish()
            self.draft.stream.flush()
            self._size = self.draft.stream.tell()
            self.draft.stream.seek(0)  # who opens its path may share the position

    def drop(self) -> None:
        """It does not count."""
        self._target.cut()
        self._store.drop(self.draft)


class _Target:
    """A file as formats see it: they may close it, which it does not mind, and after :meth:`cut` write to it in vain.

    Some formats close their stream when they are done, and write when they are garbage.
    """

    closed = False

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self.write: Callable[[Any], int] = stream.write

    def close(self) -> None:
        """The file is still to be made durable."""

    def cut(self) -> None:
        """What comes now goes nowhere."""
        self.write = len

    def flush(self) -> None:
        if not self._stream.closed:
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
