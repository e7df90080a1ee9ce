"""A source that reads files through Spark, with PyFlink's builder."""

from __future__ import annotations

import codecs
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tidemill.common.time import Duration
from tidemill.common.typeinfo import TypeInformation, Types
from tidemill.connectors.sources import FormatSource, RowDecoder, SplitSource
from tidemill.connectors.spark.type_mapping import schema_of
from tidemill.errors import ConfigurationError

__all__ = [
    "BulkFormat",
    "FileEnumeratorProvider",
    "FileSource",
    "FileSourceBuilder",
    "FileSplitAssignerProvider",
    "InputFormat",
    "StreamFormat",
]


@dataclass(frozen=True)
class StreamFormat:
    """The format of a file: a Spark format with its options and, if it needs one, a schema."""

    format: str
    options: tuple[tuple[str, str], ...] = ()
    type_info: TypeInformation | None = None
    schema: str | None = None
    #: Converts the rows to records; without one, each row is a record.
    decoder: RowDecoder | None = None

    @staticmethod
    def text_line_format(charset_name: str = "UTF-8") -> StreamFormat:
        """Read one record per line, without the line end.

        As in Flink, files at any depth below a directory are read, and invalid UTF-8 is replaced by U+FFFD.
        """
        return StreamFormat("text", text_options(charset_name), Types.STRING())

    @staticmethod
    def json_lines_format(row_type: Any) -> StreamFormat:
        """Read one JSON object per line, as a row. Not in Flink.

        ``row_type`` is ``Types.ROW_NAMED(...)``, Spark's DDL or a ``StructType``. A line that does not fit it is an
        error that contains the line. Missing fields are None.

        >>> StreamFormat.json_lines_format("id LONG, name STRING").schema
        '`id` BIGINT, `name` STRING'
        """
        return StreamFormat("json", tuple(STRICT.items()), schema=schema_of(row_type).ddl())


class BulkFormat(StreamFormat):
    """A format that is read in batches of records, such as Parquet."""


class InputFormat(SplitSource):
    """A source for ``env.create_input``, such as ``AvroInputFormat``; ``env.from_source`` accepts it too."""


#: A record that does not fit the schema is an error. By default, Spark reads invalid values as null.
STRICT: Final = {"mode": "FAILFAST"}


def text_options(charset_name: str) -> tuple[tuple[str, str], ...]:
    """Return the options for text in a character set; UTF-8 needs none.

    Only character sets that Spark can decode, and that encode the line end as in ASCII, are supported.
    """
    name = codecs.lookup(charset_name).name
    if name not in CHARSETS:
        raise ConfigurationError(
            f"text in {charset_name} cannot be read: Spark decodes UTF-8, ISO-8859-1 and US-ASCII. Convert the files "
            "first (iconv), or read them with a SplitSource of your own."
        )
    return () if name == "utf-8" else (("encoding", CHARSETS[name]),)


#: The supported character sets of text files: Python's names, and Spark's.
CHARSETS: Final = {"utf-8": "UTF-8", "iso8859-1": "ISO-8859-1", "ascii": "US-ASCII"}


class FileSource(FormatSource):
    """Reads files; created with :meth:`for_record_stream_format` or :meth:`for_bulk_file_format`.

    >>> source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), "/data/in").build()
    >>> source.format, source.path, source.bounded
    ('text', '/data/in', True)
    """

    @staticmethod
    def for_record_stream_format(stream_format: StreamFormat, *paths: str | Path) -> FileSourceBuilder:
        """Start building a source that reads the files and directories at these paths."""
        if not isinstance(stream_format, StreamFormat):
            raise TypeError(f"a file source needs a StreamFormat first, not {type(stream_format).__name__}")
        if not paths:
            raise ValueError("a file source needs at least one path")
        return FileSourceBuilder(stream_format, tuple(map(str, paths)))

    @staticmethod
    def for_bulk_file_format(bulk_format: BulkFormat, *paths: str | Path) -> FileSourceBuilder:
        """Start building a source that reads files in a bulk format."""
        return FileSource.for_record_stream_format(bulk_format, *paths)


class FileEnumeratorProvider:
    """Discovers files. Hidden files, whose names begin with ``.`` or ``_``, are excluded."""

    @staticmethod
    def default_splittable_file_enumerator() -> FileEnumeratorProvider:
        """Split large files, if their format allows it."""
        return FileEnumeratorProvider()

    @staticmethod
    def default_non_splittable_file_enumerator() -> FileEnumeratorProvider:
        """As :meth:`default_splittable_file_enumerator`: Spark determines which files it cannot split."""
        return FileEnumeratorProvider()


class FileSplitAssignerProvider:
    """Assigns files to tasks. Spark's scheduler makes the assignment."""

    @staticmethod
    def locality_aware_split_assigner() -> FileSplitAssignerProvider:
        """Prefer tasks on machines that are close to the file."""
        return FileSplitAssignerProvider()


class FileSourceBuilder:
    """Builds a :class:`FileSource`."""

    def __init__(self, stream_format: StreamFormat, paths: tuple[str, ...]) -> None:
        self._format = stream_format
        self._paths = paths
        self._bounded = True
        self._interval: float | None = None

    def monitor_continuously(self, discovery_interval: Duration) -> FileSourceBuilder:
        """Make the source unbounded: look for new files at this interval.

        Each path is read once, regardless of its modification time.
        """
        if discovery_interval.to_millis() <= 0:
            raise ValueError("the discovery interval must be positive")
        self._bounded = False
        self._interval = discovery_interval.to_millis() / 1000
        return self

    def process_static_file_set(self) -> FileSourceBuilder:
        """Read the files that exist when the job starts, and end (the default)."""
        self._bounded = True
        return self

    def set_file_enumerator(self, file_enumerator: FileEnumeratorProvider) -> FileSourceBuilder:
        """Accepted and ignored: files are discovered as described in :class:`FileEnumeratorProvider`."""
        return self

    def set_split_assigner(self, split_assigner: FileSplitAssignerProvider) -> FileSourceBuilder:
        """Accepted and ignored: the engine assigns files to tasks."""
        return self

    def build(self) -> FileSource:
        """Build the source."""
        if not self._bounded and len(self._paths) > 1:
            raise ValueError("an unbounded file source reads a single path: use a union of several sources")
        return FileSource(
            format=self._format.format,
            path=self._paths[0],
            options={"recursiveFileLookup": "true", **dict(self._format.options)},  # as Flink looks for files
            schema=self._format.schema,
            type_info=self._format.type_info,
            bounded=self._bounded,
            more_paths=self._paths[1:],
            discovery_interval=None if self._bounded else self._interval,
            decoder=self._format.decoder,
        )
