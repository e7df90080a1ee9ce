"""The storage of a file sink's parts: the contract of the stores in ``local_parts`` and ``object_parts``.

Names are relative to the sink's path, with slashes. Names of hidden files are never used twice, so that stored files
are never overwritten.
"""

from __future__ import annotations

import abc
import contextlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import IO, Final

from tidemill.errors import GraphError

__all__ = ["DRAFT_BUFFER", "Draft", "PartStore", "errors_name", "leaves"]

DRAFT_BUFFER: Final = 1 << 18


class Draft:
    """A new hidden file while it is written on this machine: written to ``stream``, readable at ``path``."""

    def __init__(self, name: str, stream: IO[bytes], path: Path, shown: str) -> None:
        self.name = name
        self.stream = stream
        self.path = path
        #: Its name in error messages.
        self.shown = shown
        #: Whether it may exist in its store.
        self.stored = False


class PartStore(abc.ABC):
    """Stores the files of one sink. ``base`` is the sink's path, as displayed in error messages."""

    def __init__(self, base: str) -> None:
        self.base = base

    def check(self) -> None:
        """Called when a job starts. Raises :class:`GraphError` if the sink's path cannot be written to."""

    def check_bucket(self, bucket: str) -> None:
        """Raise :class:`GraphError` for a bucket outside the sink's directory, or one that is hidden from readers."""
        if not isinstance(bucket, str):
            raise TypeError(f"a bucket assigner must return a string, not {type(bucket).__name__} {bucket!r}")
        if leaves(bucket):
            raise GraphError(f"a bucket must be below the sink's directory {self.base}, but {bucket!r} is not")
        if any(map(_is_hidden, PurePosixPath(bucket).parts)):
            raise GraphError(f"files in the bucket {bucket!r} would be hidden from readers: begin it with a letter")

    @abc.abstractmethod
    def hidden_name(self, sink: str, bucket: str, file: str) -> str:
        """Return the name of a hidden file: ``sink`` is the sink's id, and ``file`` begins with a dot."""

    @abc.abstractmethod
    def draft(self, name: str) -> Draft:
        """Create a hidden file."""

    @abc.abstractmethod
    def store(self, drafts: Sequence[Draft]) -> None:
        """Store complete files: on return they are durable under their names, and their streams are closed."""

    @abc.abstractmethod
    def drop(self, draft: Draft) -> None:
        """Discard a file, whether it is stored or not. Never fails: a file that cannot be removed is a leftover."""

    @abc.abstractmethod
    def reading(self, names: Sequence[str]) -> contextlib.AbstractContextManager[list[Path]]:
        """Make stored files readable on this machine. Raises FileNotFoundError for a file that does not exist."""

    @abc.abstractmethod
    def exists(self, name: str) -> bool:
        """Whether a file is stored."""

    @abc.abstractmethod
    def publish(self, names: Mapping[str, str]) -> list[str]:
        """Give hidden files their final names; each appears atomically, and all names are durable on return.

        The operation is idempotent. Returns the hidden names of files that exist under neither name.
        """

    @abc.abstractmethod
    def delete(self, names: Sequence[str]) -> None:
        """Delete files. Files that do not exist are ignored."""

    @abc.abstractmethod
    def find(self, sink: str, pattern: str) -> list[str]:
        """Return the names of a sink's hidden files whose last component matches a pattern of ``fnmatch``."""

    def named(self, name: str) -> str:
        """Return the full name of a file, for error messages."""
        return f"{self.base}/{name}"


def leaves(path: str) -> bool:
    """Whether a path, judged by its text alone, leads outside the directory that it is relative to."""
    return PurePosixPath(path).is_absolute() or ".." in PurePosixPath(path).parts


@contextlib.contextmanager
def errors_name(shown: str) -> Iterator[None]:
    """Add the name of the file to errors of the operating system within the block."""
    try:
        yield
    except OSError as error:
        if error.filename is not None:
            raise
        raise OSError(error.errno, f"{error.strerror or error}, while writing", shown) from error


def _is_hidden(name: str) -> bool:
    """Whether Spark and other readers ignore a directory of this name; they read ``_day=7`` as a partition."""
    return name.startswith(".") or (name.startswith("_") and "=" not in name)
