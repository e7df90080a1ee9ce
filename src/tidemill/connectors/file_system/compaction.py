"""Compaction: which finished files of a bucket are merged into one before they become visible, when, and how."""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, Final

from tidemill.connectors.file_system.formats import FileFormat, RowFileFormat
from tidemill.errors import GraphError

__all__ = [
    "Compaction",
    "ConcatFileCompactor",
    "FileCompactStrategy",
    "FileCompactor",
    "IdenticalFileCompactor",
    "RecordWiseFileCompactor",
]

#: The number of records that a record-wise compactor holds in memory.
_RECORDS_AT_ONCE: Final = 1000


@dataclass(frozen=True)
class FileCompactStrategy:
    """Determines when the finished files of a bucket are merged: after a number of checkpoints, or at a total size."""

    num_checkpoints: int | None = None
    size_threshold: int | None = None

    def is_due(self, checkpoints: int, size: int) -> bool:
        """Whether files are merged that have waited for so many checkpoints and have ``size`` bytes in total."""
        by_checkpoints = self.num_checkpoints is not None and checkpoints >= self.num_checkpoints
        return by_checkpoints or (self.size_threshold is not None and size >= self.size_threshold)

    @staticmethod
    def builder() -> FileCompactStrategy.Builder:
        """Start building a strategy.

        >>> FileCompactStrategy.builder().enable_compaction_on_checkpoint(3).set_size_threshold(1 << 20).build()
        FileCompactStrategy(num_checkpoints=3, size_threshold=1048576)
        """
        return FileCompactStrategy.Builder()

    class Builder:
        """Builds a :class:`FileCompactStrategy`."""

        def __init__(self) -> None:
            self._checkpoints: int | None = None
            self._size: int | None = None

        def enable_compaction_on_checkpoint(
            self, num_checkpoints_before_compaction: int
        ) -> FileCompactStrategy.Builder:
            """Merge files when this number of checkpoints has passed since the last merge."""
            self._checkpoints = _positive(num_checkpoints_before_compaction, "number of checkpoints")
            return self

        def set_size_threshold(self, size_threshold: int) -> FileCompactStrategy.Builder:
            """Merge files as soon as they have this number of bytes in total."""
            self._size = _positive(size_threshold, "size threshold")
            return self

        def set_num_compact_threads(self, num_compact_threads: int) -> FileCompactStrategy.Builder:
            """Accepted and ignored: each subtask merges its own files."""
            _positive(num_compact_threads, "number of threads")
            return self

        def build(self) -> FileCompactStrategy:
            """Build the strategy."""
            if self._checkpoints is None and self._size is None:
                raise ValueError(
                    "a compaction strategy needs a number of checkpoints, a size, or both: without one, no file would "
                    "ever become visible"
                )
            return FileCompactStrategy(self._checkpoints, self._size)


class FileCompactor(abc.ABC):
    """Merges finished files of a bucket into one; pickled and sent to the workers. A subclass defines how."""

    #: Whether a file changes even if it is merged with no other.
    rewrites: bool = True

    @abc.abstractmethod
    def compact(self, sources: Sequence[Path], target: BinaryIO, file_format: FileFormat) -> None:
        """Write one file with the records of ``sources``, which are complete files of the sink's format, in order."""

    def check(self, file_format: FileFormat) -> None:
        """Raise :class:`GraphError` if files of this format cannot be merged in this way."""

    @staticmethod
    def concat_file_compactor(file_delimiter: bytes | None = None) -> FileCompactor:
        """Concatenate files, with ``file_delimiter`` between them if there is one: :class:`ConcatFileCompactor`."""
        return ConcatFileCompactor(file_delimiter)

    @staticmethod
    def identical_file_compactor() -> FileCompactor:
        """Leave a single file as it is: :class:`IdenticalFileCompactor`."""
        return IdenticalFileCompactor()


@dataclass(frozen=True)
class ConcatFileCompactor(FileCompactor):
    """Concatenates files. Files of a bulk format are merged as the format defines it, into one valid file.

    >>> import io, tempfile
    >>> from tidemill.common import Encoder
    >>> folder = Path(tempfile.mkdtemp())
    >>> paths = [folder / "1", folder / "2"]
    >>> for path in paths:
    ...     _ = path.write_text(f"file {path.name}")
    >>> target = io.BytesIO()
    >>> ConcatFileCompactor(b", ").compact(paths, target, RowFileFormat(Encoder.simple_string_encoder()))
    >>> target.getvalue()
    b'file 1, file 2'
    """

    file_delimiter: bytes | None = None

    rewrites = False

    def compact(self, sources: Sequence[Path], target: BinaryIO, file_format: FileFormat) -> None:
        """Write the files one after the other."""
        if not self.file_delimiter or not isinstance(file_format, RowFileFormat):
            file_format.merge(sources, target)
            return
        for number, source in enumerate(sources):
            if number:
                file_format.write_bytes(self.file_delimiter, target)
            file_format.merge([source], target)

    def check(self, file_format: FileFormat) -> None:
        """Raise :class:`GraphError` for a delimiter between files of a bulk format, or a format that cannot merge."""
        _check_mergeable(file_format)
        if self.file_delimiter and not isinstance(file_format, RowFileFormat):
            raise GraphError("files of a bulk format cannot have a delimiter between them: use no file_delimiter")


@dataclass(frozen=True)
class IdenticalFileCompactor(FileCompactor):
    """Leaves a single file as it is. Several are concatenated, where Flink's class of this name fails."""

    rewrites = False

    def compact(self, sources: Sequence[Path], target: BinaryIO, file_format: FileFormat) -> None:
        """Write the files one after the other."""
        file_format.merge(sources, target)

    def check(self, file_format: FileFormat) -> None:
        """Raise :class:`GraphError` if files of this format cannot be merged."""
        _check_mergeable(file_format)


@dataclass(frozen=True)
class RecordWiseFileCompactor(FileCompactor):
    """Reads the records of files one by one and writes them to a new file in the format of the sink.

    ``read`` gets an open file, decompressed if the sink compresses it, and yields its records. It may leave out
    records, or change them. Not in PyFlink; in Java, Flink has a class of this name.

    >>> def lines(file):
    ...     for line in file:
    ...         yield line.decode().removesuffix(chr(10))
    >>> strategy = FileCompactStrategy.builder().enable_compaction_on_checkpoint(10).build()
    >>> from tidemill.common import Encoder
    >>> from tidemill.datastream.connectors.file_system import FileSink
    >>> builder = FileSink.for_row_format("/tmp/out", Encoder.simple_string_encoder())
    >>> builder.enable_compact(strategy, RecordWiseFileCompactor(lines)).build().guarantee
    'exactly-once'
    """

    read: Callable[[BinaryIO], Iterable[Any]]

    def compact(self, sources: Sequence[Path], target: BinaryIO, file_format: FileFormat) -> None:
        """Write the records that ``read`` yields."""
        records = file_format.open(target)
        for source in sources:
            with file_format.opened(source) as stream:
                remaining = iter(self.read(stream))
                while batch := list(islice(remaining, _RECORDS_AT_ONCE)):
                    records.write(batch)
        records.finish()


@dataclass(frozen=True)
class Compaction:
    """When and how a sink merges finished files."""

    strategy: FileCompactStrategy
    compactor: FileCompactor


def _check_mergeable(file_format: FileFormat) -> None:
    if not file_format.can_merge:
        raise GraphError(
            "files of this bulk format cannot be merged: use a RecordWiseFileCompactor, or a MergingBulkWriterFactory"
        )


def _positive(number: int, what: str) -> int:
    if number < 1:
        raise ValueError(f"the {what} must be positive, not {number}")
    return number
