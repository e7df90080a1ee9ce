"""The formats of part files: how records are written, one by one or in bulk, and how small files are merged."""

from __future__ import annotations

import abc
import io
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
    "RowDataBulkWriterFactory",
    "RowFileFormat",
]

#: Names of the codecs, with the file extensions that readers recognize.
_CODECS: Final = {"gzip": ".gz", "bz2": ".bz2", "zstd": ".zst", "lz4": ".lz4"}
_COPY_BYTES: Final = 1 << 20


class RecordWriter(abc.ABC):
    """Writes the records of one file."""

    @abc.abstractmethod
    def write(self, values: list[Any]) -> None:
        """Write some records."""

    def finish(self) -> None:
        """Write buffered data. Closing the stream, as some formats do, does not close the file."""


class FileFormat(abc.ABC):
    """The format of part files; pickled and sent to the workers."""

    #: The file extension, after the suffix that the program has set.
    extension: str = ""
    #: Whether several files can be merged into one, so that a part can span epochs.
    can_merge: bool = True

    @abc.abstractmethod
    def open(self, stream: BinaryIO) -> RecordWriter:
        """Create a writer of one file."""

    @abc.abstractmethod
    def merge(self, sources: Sequence[Path], target: BinaryIO) -> None:
        """Write one file that contains the records of several files, in order."""

    def opened(self, path: Path) -> BinaryIO:
        """Open a complete file of this format for reading."""
        return path.open("rb")


class RowFileFormat(FileFormat):
    """Encodes records one by one, with or without compression. Files of such formats can be concatenated."""

    def __init__(self, encoder: Encoder[Any], compression: str | None = None) -> None:
        if compression is not None and compression not in _CODECS:
            raise ValueError(f"compression {compression!r} is not one of {', '.join(_CODECS)}")
        self._encoder = encoder
        self._compression = compression
        self.extension = "" if compression is None else _CODECS[compression]

    def open(self, stream: BinaryIO) -> RecordWriter:
        """Create a writer that encodes each record."""
        return _RowWriter(self._encoder, stream, self._compression)

    def merge(self, sources: Sequence[Path], target: BinaryIO) -> None:
        """Concatenate the files; compressed files are not decompressed, because all codecs allow concatenation."""
        for source in sources:
            with source.open("rb") as stream:
                shutil.copyfileobj(stream, target, _COPY_BYTES)

    def opened(self, path: Path) -> BinaryIO:
        """Open a file; reading decompresses it."""
        if self._compression is None:
            return super().opened(path)
        stream: Any = pa.input_stream(path.open("rb"), compression=self._compression)
        return io.BufferedReader(stream)  # it can be iterated over by lines

    def write_bytes(self, data: bytes, target: BinaryIO) -> None:
        """Write bytes between two files, compressed as they are."""
        if self._compression is None:
            target.write(data)
            return
        with pa.CompressedOutputStream(target, self._compression) as stream:
            stream.write(data)


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
    """A bulk writer that writes batches of records."""

    @abc.abstractmethod
    def add_batch(self, elements: list[Any]) -> None:
        """Add some records."""

    def add_element(self, element: Any) -> None:
        """Add one record."""
        self.add_batch([element])


class MergingBulkWriterFactory(BulkWriterFactory[Any]):
    """A factory whose files can be merged, so that the format can be used with any rolling policy."""

    @abc.abstractmethod
    def merge(self, sources: Sequence[Path], stream: BinaryIO) -> None:
        """Write one file that contains the records of several files, in order."""


#: PyFlink's name for factories whose writers take rows, as all of them do here.
RowDataBulkWriterFactory = BulkWriterFactory


class BulkFileFormat(FileFormat):
    """A bulk format, such as Parquet, whose files must be finished."""

    def __init__(self, factory: BulkWriterFactory[Any]) -> None:
        self._factory = factory
        self.can_merge = isinstance(factory, MergingBulkWriterFactory)

    def open(self, stream: BinaryIO) -> RecordWriter:
        """Create a writer that wraps a writer of the factory."""
        return _BulkRecords(self._factory.create(stream))

    def merge(self, sources: Sequence[Path], target: BinaryIO) -> None:
        """Merge the files with the factory."""
        if not isinstance(self._factory, MergingBulkWriterFactory):
            raise TypeError(f"files of {type(self._factory).__name__} cannot be merged")
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
