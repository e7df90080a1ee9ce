"""The contract of a file format, and the errors of records that do not fit their schema."""

from __future__ import annotations

import abc
from collections.abc import Iterator
from typing import BinaryIO

import pyarrow as pa

__all__ = ["BATCH_ROWS", "BadRecordError", "ReadFormat", "UnreadableFileError"]

#: The maximum number of rows of a batch.
BATCH_ROWS = 8192


class BadRecordError(ValueError):
    """A record that does not fit the schema; the argument is its text."""


class UnreadableFileError(ValueError):
    """A file that cannot be read with the schema; the argument says why."""


class ReadFormat(abc.ABC):
    """Reads files of one format."""

    #: Whether files may be compressed as a whole, which their names tell.
    may_be_compressed = True

    @abc.abstractmethod
    def schema(self, example: BinaryIO | None) -> pa.Schema:
        """Return the schema of all batches. ``example`` is a file, if there is one, for formats that declare it."""

    @abc.abstractmethod
    def batches(self, file: BinaryIO, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Read a file in order. Raises :class:`BadRecordError` or :class:`UnreadableFileError`."""
