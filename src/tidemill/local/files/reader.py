"""Reads the files of one source with its format: batches of rows, or an error that names the file and the record."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from itertools import chain as chained

import pyarrow as pa

from tidemill.connectors.file_system.misfits import Misfit, misfit_error
from tidemill.connectors.sources import FormatSource
from tidemill.errors import ConnectorError
from tidemill.local.files.format import BadRecordError, ReadFormat, UnreadableFileError
from tidemill.local.files.opening import SourceFiles
from tidemill.runtime.batch.columns import FILE_COLUMN
from tidemill.runtime.batch.failures import message_text
from tidemill.runtime.watched.watched_source import EpochRows

__all__ = ["LocalFileReader", "LocalFileRows", "file_batches"]


def file_batches(
    uid: str, source: FormatSource, files: SourceFiles, file_format: ReadFormat, schema: pa.Schema, path: str
) -> Iterator[pa.RecordBatch]:
    """Read a file of the source with this uid.

    Raises :class:`~tidemill.errors.TypeMismatchError` with a record that does not fit the schema, and
    :class:`~tidemill.errors.ConnectorError` for a file that cannot be read.
    """
    try:
        with files.open(path, compressed=file_format.may_be_compressed) as file:
            yield from file_format.batches(file, schema)
    except BadRecordError as error:
        options: Mapping[str, str] = {name.lower(): value for name, value in source.options.items()}
        misfit = Misfit(source.format, str(error), source.schema or "", options)
        raise misfit_error(uid, misfit, path, message_text(str(error))) from None
    except (UnreadableFileError, pa.ArrowException, OSError, EOFError, zlib.error) as error:
        raise ConnectorError(
            f"the source with uid {uid!r} could not be read: file {path} cannot be read as {source.format}: {error}"
        ) from error


@dataclass(frozen=True)
class LocalFileReader:
    """Reads the files of one watched source. With ``by_file``, rows contain a number for their file."""

    uid: str
    source: FormatSource
    files: SourceFiles
    format: ReadFormat
    #: The number of leading path parts that cannot name columns; None if no directory does.
    root_depth: int | None
    by_file: bool

    @property
    def arrow_schema(self) -> pa.Schema:
        """The schema of the rows of a file."""
        return self.format.schema(None)

    def schema(self) -> bytes:
        """Return the Arrow schema of the rows."""
        schema = self.arrow_schema
        schema = schema.append(pa.field(FILE_COLUMN, pa.int64())) if self.by_file else schema
        data: bytes = schema.serialize().to_pybytes()
        return data

    def rows(self, paths: Sequence[str]) -> LocalFileRows:
        """Return the rows of files."""
        if self.root_depth is not None:
            for path in paths:
                self.files.check_no_columns(path, self.root_depth)
        return LocalFileRows(self, paths)

    def read(self, path: str) -> Iterator[pa.RecordBatch]:
        """Read a file."""
        schema = self.arrow_schema
        number = int.from_bytes(blake2b(path.encode(), digest_size=8).digest(), "big", signed=True)
        for batch in file_batches(self.uid, self.source, self.files, self.format, schema, path):
            if self.by_file:
                column = pa.repeat(pa.scalar(number, pa.int64()), batch.num_rows)
                yield batch.append_column(pa.field(FILE_COLUMN, pa.int64()), column)
            else:
                yield batch


@dataclass(frozen=True)
class LocalFileRows:
    """The rows of some files, file by file. One partition reads them all: this engine has one process."""

    reader: LocalFileReader
    paths: Sequence[str]

    def all(self) -> EpochRows | None:
        """Return all rows."""
        return EpochRows((self._read,), 1)

    def count(self) -> int:
        """Count the rows, which reads the files."""
        return sum(batch.num_rows for batch in self._read())

    def part(self, ranges: Sequence[tuple[int, int]], *, open_end: bool) -> EpochRows | None:
        """Return ranges of rows, which are adjacent, as one partition."""
        start, stop = ranges[0][0], None if open_end else ranges[-1][1]
        read: Callable[[], Iterator[pa.RecordBatch]] = partial(_between, self._read, start, stop)
        return EpochRows((read,), 1)

    def _read(self) -> Iterator[pa.RecordBatch]:
        return chained.from_iterable(map(self.reader.read, self.paths))


def _between(read: Callable[[], Iterator[pa.RecordBatch]], start: int, stop: int | None) -> Iterator[pa.RecordBatch]:
    seen = 0
    for batch in read():
        low, high = max(start - seen, 0), batch.num_rows if stop is None else min(stop - seen, batch.num_rows)
        seen += batch.num_rows
        if low < high:
            yield batch.slice(low, high - low)
        if stop is not None and seen >= stop:
            return
