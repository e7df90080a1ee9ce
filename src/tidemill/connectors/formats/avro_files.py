"""Files of Avro records: Avro's own container files, read and written in blocks, and Parquet files.

A container file has a header with the schema, and blocks of records that can be read independently. A split is a range
of blocks.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple
from urllib.parse import unquote, urlsplit

import pyarrow as pa

from tidemill.common.serialization import BulkWriter, BulkWriterFactory
from tidemill.connectors.file_system.columnar import ParquetWriterFactory
from tidemill.connectors.file_system.formats import BatchWriter, MergingBulkWriterFactory
from tidemill.connectors.file_system.source import InputFormat, StreamFormat
from tidemill.connectors.formats.avro import to_avro
from tidemill.connectors.formats.avro_schema import (
    AvroSchema,
    GenericRecordAvroTypeInfo,
    columns_of,
    from_columns,
    library,
    parsed,
)
from tidemill.connectors.sources import Position, RecordBatch, RowDecoder, Split, SplitEnumerator
from tidemill.errors import ConfigurationError, SerializationError

__all__ = ["AvroBulkWriters", "AvroInputFormat", "AvroParquetReaders", "AvroParquetWriters"]

#: Records per batch.
_BATCH: Final = 4096
#: The length of the marker after each block.
_MARKER: Final = 16
_HIDDEN: Final = (".", "_")


class _Blocks(NamedTuple):
    """A range of blocks of a file, from one offset to another; ``header`` is the length of the file's header."""

    path: str
    header: int
    start: int
    end: int


class AvroInputFormat(InputFormat):
    """Reads Avro container files as dicts: a file, or all files in a directory. Use it with ``env.create_input``.

    The files must be in a local or mounted directory, and must not change while the job runs. Records are converted to
    ``schema`` by Avro's rules of schema resolution. Timestamps are datetimes in UTC.
    """

    def __init__(self, path: str, schema: AvroSchema) -> None:
        self._path = _local(path)
        self._schema = schema
        self.type_info = GenericRecordAvroTypeInfo(schema)

    def get_produced_type(self) -> GenericRecordAvroTypeInfo:
        """Return the type of the records."""
        return self.type_info

    def create_enumerator(self, position: Position | None) -> SplitEnumerator:
        """Create an enumerator of blocks. The files are listed once, and are part of the position."""
        if position is None:
            return _BlockEnumerator(_files(self._path), 0, 0)
        return _BlockEnumerator(position["files"], int(position["file"]), int(position["offset"]))

    def read(self, split: Split) -> Iterator[RecordBatch]:
        """Read the records of some blocks."""
        blocks: _Blocks = split.payload
        with Path(blocks.path).open("rb") as file:
            header = file.read(blocks.header)
            file.seek(blocks.start)
            content = io.BytesIO(header + file.read(blocks.end - blocks.start))
        try:
            records = iter(library().reader(content, parsed(str(self._schema))[0]))
            while batch := list(islice(records, _BATCH)):
                yield RecordBatch(batch)
        except Exception as error:
            raise SerializationError(
                f"{blocks.path} cannot be read as Avro with the given schema: {type(error).__name__}: {error}"
            ) from error


class _BlockEnumerator(SplitEnumerator):
    """The position is the number of a file, and the offset of its next block; 0 is before the header."""

    def __init__(self, files: Sequence[str], number: int, offset: int) -> None:
        self._files = list(files)
        self._number = number
        self._offset = offset
        self._headers: dict[str, int] = {}

    def next_splits(self, parallelism: int, max_records: int) -> Sequence[Split]:
        share = max(1, max_records // parallelism)
        splits: list[Split] = []
        while len(splits) < parallelism and not self.finished:
            if (split := self._next_split(share)) is not None:
                splits.append(split)
        return splits

    def position(self) -> Position:
        return {"files": self._files, "file": self._number, "offset": self._offset}

    @property
    def finished(self) -> bool:
        return self._number >= len(self._files)

    def _next_split(self, share: int) -> Split | None:
        """Return the next blocks of the current file; None if it has no more."""
        path = self._files[self._number]
        with Path(path).open("rb") as file:
            if path not in self._headers:
                self._headers[path] = _header_length(path, file)
            header = self._headers[path]
            start = self._offset = max(self._offset, header)
            records = 0
            while records < share:
                file.seek(self._offset)
                count = _number(file)
                if count is None:
                    self._number, self._offset = self._number + 1, 0
                    return Split(_Blocks(path, header, start, file.tell()), records) if records else None
                size = _number(file) or 0
                self._offset = file.tell() + size + _MARKER
                records += count
            return Split(_Blocks(path, header, start, self._offset), records)


def _header_length(path: str, file: BinaryIO) -> int:
    try:
        library().reader(file)
    except ConfigurationError:
        raise
    except Exception as error:
        raise SerializationError(f"{path} is not an Avro file: {error}") from error
    return file.tell()


def _number(file: BinaryIO) -> int | None:
    """Read a number as Avro encodes it: seven bits per byte, with alternating sign; None at the end of the file."""
    value = shift = 0
    while byte := file.read(1):
        value |= (byte[0] & 0x7F) << shift
        if byte[0] < 0x80:
            return (value >> 1) ^ -(value & 1)
        shift += 7
    return None


def _files(path: str) -> list[str]:
    place = Path(path)
    if place.is_dir():
        return [str(file) for file in sorted(place.iterdir()) if file.is_file() and not file.name.startswith(_HIDDEN)]
    if not place.exists():
        raise ConfigurationError(f"AvroInputFormat: there is no file {path}")
    return [path]


def _local(path: str) -> str:
    parts = urlsplit(path)
    if parts.scheme not in ("", "file"):
        raise ConfigurationError(f"AvroInputFormat reads local or mounted directories, not {path!r}")
    return str(Path(unquote(parts.path) if parts.scheme else path).absolute())


class AvroBulkWriters:
    """Writers of Avro container files, for ``FileSink.for_bulk_format``."""

    @staticmethod
    def for_generic_record(schema: AvroSchema) -> BulkWriterFactory[Any]:
        """Create a factory of writers for dicts or rows with the fields of a schema.

        >>> text = '{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}'
        >>> file = io.BytesIO()
        >>> writer = AvroBulkWriters.for_generic_record(AvroSchema.parse_string(text)).create(file)
        >>> writer.add_element({"id": 7})
        >>> writer.finish()
        >>> list(library().reader(io.BytesIO(file.getvalue())))
        [{'id': 7}]
        """
        return _AvroWriterFactory(schema)


class _AvroWriterFactory(MergingBulkWriterFactory):
    def __init__(self, schema: AvroSchema) -> None:
        self._schema = schema

    def create(self, stream: BinaryIO) -> BulkWriter[Any]:
        return _AvroWriter(self._schema, stream)

    def merge(self, sources: Sequence[Path], stream: BinaryIO) -> None:
        """Copy the blocks of several files into one."""
        writer = _AvroWriter(self._schema, stream)
        for source in sources:
            with source.open("rb") as file:
                for block in library().block_reader(file):
                    writer.file.write_block(block)
        writer.finish()


class _AvroWriter(BatchWriter):
    def __init__(self, schema: AvroSchema, stream: BinaryIO) -> None:
        found, names = parsed(str(schema))
        library()
        from fastavro.write import Writer

        self._shape = to_avro(found, names)
        # Without strictness, fields that the schema lacks would be dropped.
        self.file = Writer(stream, found, options={"strict_allow_default": True})

    def add_batch(self, elements: list[Any]) -> None:
        for element in elements:
            try:
                self.file.write(self._shape(element))
            except Exception as error:
                raise SerializationError(f"{element!r} does not fit its Avro schema: {error}") from error

    def finish(self) -> None:
        self.file.flush()


class AvroParquetWriters:
    """Writers of Parquet files with Avro schemas, for ``FileSink.for_bulk_format``."""

    @staticmethod
    def for_generic_record(schema: AvroSchema) -> BulkWriterFactory[Any]:
        """Create a factory of writers for dicts or rows with the fields of a schema."""
        return ParquetWriterFactory(columns_of(schema))


class AvroParquetReaders:
    """Formats of Parquet files with Avro schemas, for ``FileSource.for_record_stream_format``."""

    @staticmethod
    def for_generic_record(schema: AvroSchema) -> StreamFormat:
        """Create a format whose records are dicts with the fields of a schema.

        Columns that are missing in a file are None. A column of another type is an error that names the file.
        """
        type_info, columns = GenericRecordAvroTypeInfo(schema), columns_of(schema).ddl()
        return StreamFormat("parquet", (), type_info, columns, _RecordDecoder(schema))


class _RecordDecoder(RowDecoder):
    """Converts columns to dicts; columns that the schema does not have, such as the name of a file, are left out."""

    def __init__(self, schema: AvroSchema) -> None:
        self._schema = schema
        self._convert = from_columns(schema)

    def decode(self, rows: pa.RecordBatch) -> RecordBatch:
        return RecordBatch([self._convert(row) for row in rows.to_pylist()])

    def __reduce__(self) -> tuple[Any, ...]:
        return (_RecordDecoder, (self._schema,))
