"""Part files, hidden until they count.

A file that is being written is called ``.<name>~<lineage>~<attempt>.inprogress``. It belongs to one attempt of one
subtask and is never written again once it is durable. A part that goes on over epochs is a list of *segments*: after
each epoch what came is kept as ``.<name>~<lineage>~<attempt>.kept``. When the part is finished its segments are made
one file, which appears under its final name.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Final

from tidemill.datastream.connectors.file_system.formats import FileFormat
from tidemill.errors import CheckpointError

__all__ = ["IN_PROGRESS", "KEPT", "FileCommittable", "HiddenFile", "Part", "Segment", "durable", "sync_directory"]

IN_PROGRESS: Final = ".inprogress"
KEPT: Final = ".kept"
_VERSION: Final = 2
_BUFFER: Final = 1 << 18


@dataclass(frozen=True)
class FileCommittable:
    """What the committer does for one file: give it its name, then delete the segments that are in it.

    Paths are relative to the sink's directory.
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


def leaves(path: str) -> bool:
    """Whether a relative path leads out of where it begins, as far as its text tells."""
    return Path(path).is_absolute() or ".." in Path(path).parts


@dataclass(frozen=True)
class Segment:
    """A kept file of a part, by its path below the sink's directory."""

    path: str
    size: int


@dataclass
class Part:
    """A part that goes on over epochs, of one bucket: what is kept of it, and what the epoch adds."""

    bucket: str
    created: int
    written: int
    epochs: int = 0
    segments: list[Segment] = field(default_factory=list)
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
    def from_state(cls, text: str) -> Part:
        """The part that :meth:`to_state` described."""
        data = json.loads(text)
        if data["version"] != _VERSION:
            raise CheckpointError(f"a part file's state of version {data['version']} cannot be read")
        segments = [Segment(path, size) for path, size in data["segments"]]
        return cls(data["bucket"], data["created"], data["written"], data["epochs"], segments)


class HiddenFile:
    """A file being written by one attempt. What the disk refuses is raised with the file's name."""

    def __init__(self, path: Path, final_name: str, file_format: FileFormat) -> None:
        self.path = path
        self.final = path.with_name(final_name)
        with self._named():
            self._stream: BinaryIO = path.open("wb", buffering=_BUFFER)
        self._target = _Target(self._stream)
        self._records = file_format.open(self._target)  # type: ignore[arg-type]

    def write(self, values: list[Any]) -> None:
        """Append records."""
        with self._named():
            self._records.write(values)

    def size(self) -> int:
        """Bytes so far."""
        return self.path.stat().st_size if self._stream.closed else self._stream.tell()

    def finish(self) -> None:
        """Nothing comes any more; durable on return. Without effect if called again."""
        if self._stream.closed:
            return
        with self._named(), self._stream:
            self._records.finish()
            self._stream.flush()
            os.fsync(self._stream.fileno())

    def drop(self) -> None:
        """It does not count."""
        self._target.cut()
        with contextlib.suppress(OSError):  # what is left in the buffer may have no room
            self._stream.close()
        self.path.unlink(missing_ok=True)

    def _named(self) -> contextlib.AbstractContextManager[None]:
        return errors_name(self.path)


class _Target:
    """A file as formats see it: they may close it, which it does not mind, and after :meth:`cut` write to it in vain.

    Some formats close their stream when they are done, and write when they are garbage.
    """

    closed = False

    def __init__(self, stream: BinaryIO) -> None:
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


@contextlib.contextmanager
def errors_name(path: Path) -> Iterator[None]:
    """While the block runs, an error of the operating system says which file it is about."""
    try:
        yield
    except OSError as error:
        if error.filename is not None:
            raise
        raise OSError(error.errno, f"{error.strerror or error}, while writing", str(path)) from error


def durable(path: Path, file_format: FileFormat, sources: Sequence[Path]) -> None:
    """Make one file of several; durable on return."""
    with errors_name(path), path.open("wb", buffering=_BUFFER) as stream:
        file_format.merge(sources, _Target(stream))  # type: ignore[arg-type]
        stream.flush()
        os.fsync(stream.fileno())


def sync_directory(directory: Path) -> None:
    """Make new names in a directory durable; some file systems cannot, and need not."""
    with contextlib.suppress(OSError):
        handle = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
