"""Writes Parquet and ORC files from records, and merges them."""

from __future__ import annotations

import abc
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Final, Protocol

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import orc

from tidemill.common.serialization import BulkWriter
from tidemill.connectors.file_system.formats import BatchWriter, MergingBulkWriterFactory
from tidemill.connectors.spark.records import RecordColumns
from tidemill.connectors.spark.schema_types import StructOf

__all__ = ["ColumnarWriterFactory", "OrcWriterFactory", "ParquetWriterFactory"]

#: The size of a row group, in rows or bytes: large enough for fast reads, small enough to be buffered in memory.
_GROUP_ROWS: Final = 1 << 17
_GROUP_BYTES: Final = 64 << 20


class _Tables(Protocol):
    """An open file to which tables are written."""

    def write_table(self, table: pa.Table) -> None: ...

    def close(self) -> None: ...


class ColumnarWriterFactory(MergingBulkWriterFactory):
    """Writes records as columns of a schema, row group by row group."""

    def __init__(self, schema: StructOf) -> None:
        self.schema = schema

    def create(self, stream: BinaryIO) -> BulkWriter[Any]:
        """Create a writer of one file."""
        return _ColumnarWriter(RecordColumns(self.schema), self, stream)

    def merge(self, sources: Sequence[Path], stream: BinaryIO) -> None:
        """Write the rows of several files into one, in larger row groups."""
        writer = _ColumnarWriter(RecordColumns(self.schema), self, stream)
        for source in sources:
            for batch in self._batches(source):
                writer.add_columns(batch)
        writer.finish()

    @abc.abstractmethod
    def _open(self, stream: BinaryIO, schema: pa.Schema) -> _Tables:
        """Open a file for tables with this schema."""

    @abc.abstractmethod
    def _batches(self, source: Path) -> Iterator[pa.RecordBatch]:
        """Read the contents of a file."""


class ParquetWriterFactory(ColumnarWriterFactory):
    """Writes Parquet files; the compression is snappy, gzip, zstd, lz4, brotli or none."""

    def __init__(self, schema: StructOf, compression: str = "snappy") -> None:
        super().__init__(schema)
        if compression != "none" and not pa.Codec.is_available(compression):
            raise ValueError(f"Parquet files cannot be compressed with {compression!r}")
        self._compression = compression

    def _open(self, stream: BinaryIO, schema: pa.Schema) -> _Tables:
        writer: _Tables = pq.ParquetWriter(stream, schema, compression=self._compression)
        return writer

    def _batches(self, source: Path) -> Iterator[pa.RecordBatch]:
        with pq.ParquetFile(source) as file:
            yield from file.iter_batches()


class OrcWriterFactory(ColumnarWriterFactory):
    """Writes ORC files; the compression is uncompressed, snappy, zlib, lz4 or zstd."""

    def __init__(self, schema: StructOf, compression: str = "zlib") -> None:
        super().__init__(schema)
        if compression not in ("uncompressed", "snappy", "zlib", "lz4", "zstd"):
            raise ValueError(f"ORC files cannot be compressed with {compression!r}")
        self._compression = compression

    def _open(self, stream: BinaryIO, schema: pa.Schema) -> _Tables:
        return _OrcTables(stream, self._compression)

    def _batches(self, source: Path) -> Iterator[pa.RecordBatch]:
        file = orc.ORCFile(source)
        schema = RecordColumns(self.schema).arrow_schema
        for stripe in range(file.nstripes):
            yield file.read_stripe(stripe).cast(schema)


class _OrcTables:
    def __init__(self, stream: BinaryIO, compression: str) -> None:
        self._writer = orc.ORCWriter(stream, compression=compression)

    def write_table(self, table: pa.Table) -> None:
        self._writer.write(table)

    def close(self) -> None:
        self._writer.close()


class _ColumnarWriter(BatchWriter):
    def __init__(self, columns: RecordColumns, factory: ColumnarWriterFactory, stream: BinaryIO) -> None:
        self._columns = columns
        self._file = factory._open(stream, columns.arrow_schema)
        self._waiting: list[pa.RecordBatch] = []
        self._rows = 0
        self._bytes = 0

    def add_batch(self, elements: list[Any]) -> None:
        self.add_columns(self._columns.batch(elements))

    def add_columns(self, batch: pa.RecordBatch) -> None:
        """Add records that are already columns."""
        self._waiting.append(batch)
        self._rows += batch.num_rows
        self._bytes += batch.nbytes
        if self._rows >= _GROUP_ROWS or self._bytes >= _GROUP_BYTES:
            self._write()

    def finish(self) -> None:
        self._write()
        self._file.close()

    def _write(self) -> None:
        if self._waiting:
            self._file.write_table(pa.Table.from_batches(self._waiting, self._columns.arrow_schema))
        self._waiting, self._rows, self._bytes = [], 0, 0
