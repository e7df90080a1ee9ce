"""Where the parts of a file sink live: the contract of the stores in ``local_parts`` and ``object_parts``.

Names are relative to the sink's path, with slashes. Those of hidden files are never given twice, so that nothing that
is stored is ever written again.
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
    """A new hidden file while it is written on this machine: through ``stream``, to be read again at ``path``."""

    def __init__(self, name: str, stream: IO[bytes], path: Path, shown: str) -> None:
        self.name = name
        self.stream = stream
        self.path = path
        #: What errors call it.
        self.shown = shown
        #: Whether its store may have it.
        self.stored = False


class PartStore(abc.ABC):
    """Keeps the files of one sink. ``base`` is the sink's path, as errors show it."""

    def __init__(self, base: str) -> None:
        self.base = base

    def check(self) -> None:
        """Called when a job starts. Raises :class:`GraphError` if nothing can be written here."""

    def check_bucket(self, bucket: str) -> None:
        """Raises :class:`GraphError` for a bucket that lies elsewhere, or that readers would not see."""
        if not isinstance(bucket, str):
            raise TypeError(f"a bucket assigner returns a text, not {type(bucket).__name__} {bucket!r}")
        if leaves(bucket):
            raise GraphError(f"a bucket lies below the sink's directory {self.base}, which {bucket!r} does not")
        if any(map(_is_hidden, PurePosixPath(bucket).parts)):
            raise GraphError(f"files in the bucket {bucket!r} would be hidden from readers: begin it with a letter")

    @abc.abstractmethod
    def hidden_name(self, sink: str, bucket: str, file: str) -> str:
        """The name of a hidden file: ``sink`` is the sink's id, and ``file`` begins with a dot."""

    @abc.abstractmethod
    def draft(self, name: str) -> Draft:
        """Begin a hidden file."""

    @abc.abstractmethod
    def store(self, drafts: Sequence[Draft]) -> None:
        """Nothing comes for these any more: on return they are durable under their names, and their streams closed."""

    @abc.abstractmethod
    def drop(self, draft: Draft) -> None:
        """It does not count, whether it is stored or not. Does not fail: what cannot be removed now is a leftover."""

    @abc.abstractmethod
    def reading(self, names: Sequence[str]) -> contextlib.AbstractContextManager[list[Path]]:
        """Stored files, to be read on this machine. Raises FileNotFoundError for one that is gone."""

    @abc.abstractmethod
    def exists(self, name: str) -> bool:
        """Whether a file is stored."""

    @abc.abstractmethod
    def publish(self, names: Mapping[str, str]) -> list[str]:
        """Give hidden files their final names; each appears whole, and all of that is durable on return.

        Done again it changes nothing. Returns the hidden names of those that are there under neither name.
        """

    @abc.abstractmethod
    def delete(self, names: Sequence[str]) -> None:
        """Delete files; what is gone already is fine."""

    @abc.abstractmethod
    def find(self, sink: str, pattern: str) -> list[str]:
        """The names of a sink's hidden files that, without their directory, match a pattern of ``fnmatch``."""

    def named(self, name: str) -> str:
        """A file as errors show it."""
        return f"{self.base}/{name}"


def leaves(path: str) -> bool:
    """Whether a relative path leads out of where it begins, as far as its text tells."""
    return PurePosixPath(path).is_absolute() or ".." in PurePosixPath(path).parts


@contextlib.contextmanager
def errors_name(shown: str) -> Iterator[None]:
    """While the block runs, an error of the operating system says which file it is about."""
    try:
        yield
    except OSError as error:
        if error.filename is not None:
            raise
        raise OSError(error.errno, f"{error.strerror or error}, while writing", shown) from error


def _is_hidden(name: str) -> bool:
    """Whether Spark and others leave out a directory of this name; ``_day=7`` is a partition to them."""
    return name.startswith(".") or (name.startswith("_") and "=" not in name)
