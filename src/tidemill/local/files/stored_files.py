"""Writes the rows of bounded files as materialized input, one part for each file."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from tidemill.checkpoint.storage.storages import Storage
from tidemill.common.configuration import Configuration
from tidemill.connectors.sources import FormatSource
from tidemill.errors import ConfigurationError, ConnectorError
from tidemill.local.files.format import ReadFormat, UnreadableFileError
from tidemill.local.files.formats import format_of, session_zone
from tidemill.local.files.opening import SourceFiles
from tidemill.local.files.reader import file_batches
from tidemill.runtime.stored_input.input_index import InputPart, write_index
from tidemill.runtime.stored_input.write_input import write_part
from tidemill.runtime.watched.watch_options import WatchOptions

__all__ = ["checked_format", "store_files"]


def checked_format(configuration: Configuration, source: FormatSource) -> ReadFormat:
    """Return the format of a source. Raises :class:`ConfigurationError` if only Spark can read it."""
    if source.path is None:
        raise ConfigurationError(
            f"execution.target: local cannot read the format {source.format!r}, which has no path: set "
            "execution.target: spark"
        )
    return format_of(source, WatchOptions(source).of_format, session_zone(configuration))


def store_files(configuration: Configuration, uid: str, source: FormatSource, storage: Storage, folder: str) -> None:
    """Store the rows of a source in a folder (its name ends with a slash)."""
    file_format = checked_format(configuration, source)
    parts: list[InputPart] = []
    schema: pa.Schema | None = None
    for path in (source.path, *source.more_paths):
        options = WatchOptions(source, path)
        files = SourceFiles(configuration, options.path, options.accepts, recursive=options.recursive)
        try:
            for file in files.all():
                if not options.recursive:
                    files.check_no_columns(file, options.root_depth)
                if schema is None:
                    schema = _schema(uid, files, file_format, file)
                rows = file_batches(uid, source, files, file_format, schema, file)
                parts.append(write_part(storage, folder, f"part-{len(parts):05}", _filled(rows)))
        finally:
            files.close()
    write_index(storage, folder, [part for part in parts if part.files])


def _schema(uid: str, files: SourceFiles, file_format: ReadFormat, path: str) -> pa.Schema:
    try:
        with files.open(path, compressed=file_format.may_be_compressed) as example:
            return file_format.schema(example)
    except (UnreadableFileError, pa.ArrowException) as error:
        raise ConnectorError(f"the source with uid {uid!r} could not be read: file {path}: {error}") from error


def _filled(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return (batch for batch in batches if batch.num_rows)
