"""How the records of a part file become its bytes: one after the other, or in bulk; and many small files one."""

from __future__ import annotations

import abc
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Final

import pyarrow as pa

from tidemill.common.calls import note_record
from tidemill.common.serialization import BulkWriter, BulkWriterFactory, Encoder

__all__ = [
    "BatchWriter",
    "BulkFileFormat",
    "FileFormat",
    "MergingBulkWriterFactory",
    "RecordWriter",
    "RowFileFormat",
]

#: Names of the codecs, with the ending that readers know them by.
_CODECS: Final = {"gzip": ".gz", "bz2": ".bz2", "zstd": ".zst", "lz4": ".lz4"}
_COPY_BYTES: Final = 1 << 20


class RecordWriter(abc.ABC):
    """Writes the records of one file."""

    @abc.abstractmethod
    def write(self, values: list[Any]) -> None:
        """Take some records."""

    def finish(self) -> None:
        """Write what is left. Closing the stream, as some formats do, does not close the file."""


class FileFormat(abc.ABC):
    """The format of part files; pickled to the workers."""

    #: What file names end with, after the suffix that the program chose.
    extension: str = ""
    #: Whether several files can be made one, so that a file can grow over epochs.
    can_merge: bool = True

    @abc.abstractmethod
    def open(self, stream: BinaryIO) -> RecordWriter:
        """A writer of one file."""

    @abc.abstractmethod
    def merge(self, sources: Sequence[Path], target: BinaryIO) -> None:
        """Write one file that holds the records of several, in order."""


class RowFileFormat(FileFormat):
    """Record after record, compressed or not. Files of such formats can be put behind each other."""

    def __init__(self, encoder: Encoder[Any], compression: str | None = None) -> None:
        if compression is not None and compression not in _CODECS:
            raise ValueError(f"compression {compression!r} is not one of {', '.join(_CODECS)}")
        self._encoder = encoder
        self._compression = compression
        self.extension = "" if compression is None else _CODECS[compression]

    def open(self, stream: BinaryIO) -> RecordWriter:
        """A writer that encodes each record."""
        return _RowWriter(self._encoder, stream, self._compression)

    def merge(self, sources: Sequence[Path], target: BinaryIO) -> None:
        """Put the files behind each other; compressed ones stay as they are, which all these codecs allow."""
        for source in sources:
            with source.open("rb") as stream:
                shutil.copyfileobj(stream, target, _COPY_BYTES)


class _RowWriter(RecordWriter):
    def __init__(self, encoder: Encoder[Any], stream: BinaryIO, compression: str | None) -> None:
        self._encode: Callable[[Any, Any], None] = encoder.encode
        self._stream: Any = stream
        self._compressed = None
        if compression is not None:
            self._compressed = self._stream = pa.CompressedOutputStream(stream, compression)

    def write(self, values: list[Any]) -> None:
        encode, stream = self._encode, self._stream
        remaining = iter(values)
        try:
            for value in remaining:
                encode(value, stream)
        except BaseException as error:
            note_record(error, values, remaining)
            raise

    def finish(self) -> None:
        if self._compressed is not None:
            self._compressed.close()


class BatchWriter(BulkWriter[Any]):
    """A bulk writer that takes many records at once."""

    @abc.abstractmethod
    def add_batch(self, elements: list[Any]) -> None:
        """Takes some records."""

    def add_element(self, element: Any) -> None:
        """Takes one record."""
        self.add_batch([element])


class MergingBulkWriterFactory(BulkWriterFactory[Any]):
    """A factory whose files can be made one: such a format may be written with any rolling policy."""

    @abc.abstractmethod
    def merge(self, sources: Sequence[Path], stream: BinaryIO) -> None:
        """Write one file that holds the records of several, in order."""


class BulkFileFormat(FileFormat):
    """Files that have to be finished, such as Parquet."""

    def __init__(self, factory: BulkWriterFactory[Any]) -> None:
        self._factory = factory
        self.can_merge = isinstance(factory, MergingBulkWriterFactory)

    def open(self, stream: BinaryIO) -> RecordWriter:
        """A writer around one of the factory's."""
        return _BulkRecords(self._factory.create(stream))

    def merge(self, sources: Sequence[Path], target: BinaryIO) -> None:
        """Let the factory do it."""
        if not isinstance(self._factory, MergingBulkWriterFactory):
            raise TypeError(f"files of {type(self._factory).__name__} cannot be made one")
        self._factory.merge(sources, target)


class _BulkRecords(RecordWriter):
    def __init__(self, writer: BulkWriter[Any]) -> None:
        self._writer = writer

    def write(self, values: list[Any]) -> None:
        if isinstance(self._writer, BatchWriter):
            self._writer.add_batch(values)
        else:
            for value in values:
                self._writer.add_element(value)

    def finish(self) -> None:
        self._writer.finish()
