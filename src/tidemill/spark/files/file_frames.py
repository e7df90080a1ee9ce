"""Reads the files of a watched path in an epoch as one batch DataFrame, with the same columns in every epoch."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's customary name
from pyspark.sql.types import StructType

from tidemill.connectors.sources import FormatSource
from tidemill.connectors.spark.type_mapping import schema_of
from tidemill.errors import GraphError
from tidemill.spark.files.partition_columns import columns_in, with_partition_columns
from tidemill.spark.frames.event_time import with_files

__all__ = ["LITERAL_PATHS", "FileFrames", "decode_lines", "for_paths"]

#: Options for literal paths: ``*`` is an ordinary character, and directory names do not define columns.
LITERAL_PATHS: Final = {"__globPaths__": "false", "recursiveFileLookup": "true"}
#: Options for local files with a colon in their names: Hadoop cannot construct the name of their checksum file.
_WITHOUT_CHECKSUMS: Final = {
    "fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "fs.file.impl.disable.cache": "true",
}
#: Characters that Spark treats as a pattern even if glob paths are disabled.
_PATTERN: Final = re.compile(r"[*?\[\]{}\\]")
#: The maximum number of files with such names to read together: for each of them, Spark lists all of them.
_MOST_PATTERNS: Final = 16
#: The columns of formats with a fixed schema.
_SCHEMAS: Final = {
    "text": "value STRING",
    "binaryfile": "path STRING, modificationTime TIMESTAMP, length LONG, content BINARY",
}


def for_paths(paths: Sequence[str]) -> dict[str, str]:
    """Return the options that a reader needs for these paths."""
    local = any(path.startswith("/") and ":" in path.rpartition("/")[2] for path in paths)
    return {**LITERAL_PATHS, **(_WITHOUT_CHECKSUMS if local else {})}


def alike(paths: Sequence[str]) -> list[list[str]]:
    """Group paths that a reader can load together, into as few groups as possible."""
    plain = [path for path in paths if ":" not in path.rpartition("/")[2] and not _PATTERN.search(path)]
    colons = [path for path in paths if ":" in path.rpartition("/")[2] and not _PATTERN.search(path)]
    patterns = [path for path in paths if _PATTERN.search(path)]
    several = [patterns[at : at + _MOST_PATTERNS] for at in range(0, len(patterns), _MOST_PATTERNS)]
    return [group for group in (plain, colons, *several) if group]


def decode_lines(lines: DataFrame, charset: str) -> DataFrame:
    """Decode text with a character set. Spark's text format returns the bytes of lines without decoding them."""
    name = lines.columns[0]
    line = F.col(f"`{name}`")
    text = F.make_valid_utf8(line) if charset == "UTF-8" else F.decode(line.cast("binary"), charset)
    return lines.withColumn(name, text)


class FileFrames:
    """Creates the DataFrames of one source from files."""

    def __init__(
        self,
        session: SparkSession,
        source: FormatSource,
        options: Mapping[str, str],
        partition_types: Mapping[str, str],
        *,
        by_file: bool,
    ) -> None:
        """``options`` are those of the reader. ``partition_types`` are the types of the columns in directory names; a
        column that the schema declares has the type of the schema. With ``by_file``, rows contain their file."""
        self._session = session
        self._source = source
        self._charset = options.get("encoding", "UTF-8") if source.format == "text" else None
        self._options = {key: value for key, value in options.items() if self._charset is None or key != "encoding"}
        self._by_file = by_file
        schema = source.schema or _SCHEMAS.get(source.format.lower())
        if schema is None:
            raise GraphError(
                f"watching {source.path!r} as {source.format} needs a schema, such as schema='id STRING, amount "
                "DOUBLE': Spark cannot infer one from files that do not exist yet"
            )
        described: Any = StructType.fromDDL(schema)
        self._fields = described.fields
        declared = {field.name: field.dataType.simpleString() for field in self._fields}
        # Column names in Spark are case-insensitive.
        self._names: dict[str, str] = {}
        for name in (*declared, *partition_types):
            self._names.setdefault(name.lower(), name)
        self._columns = list(self._names.values())
        self._partition_types = {
            self._names[name.lower()]: declared.get(self._names[name.lower()], kind)
            for name, kind in partition_types.items()
        }
        #: An empty frame with the same columns as all other frames.
        self.empty = self._read([], frozenset(), 0)
        schema_of(self.empty.schema)  # rejects types that Tidemill does not have

    def frame(self, paths: Sequence[str], root_depth: int) -> DataFrame:
        """Return the rows of files. ``root_depth`` is the number of leading path parts that cannot name columns."""
        by_columns: dict[frozenset[str], list[str]] = {}
        for path in paths:
            found = columns_in(path, root_depth) if self._partition_types else {}
            named = {self._names.get(name.lower(), name) for name in found} & self._partition_types.keys()
            by_columns.setdefault(frozenset(named), []).append(path)
        parts = [self._read(group, named, root_depth) for named, some in by_columns.items() for group in alike(some)]
        return reduce(DataFrame.union, parts)

    def _read(self, paths: list[str], named: frozenset[str], root_depth: int) -> DataFrame:
        """Return the rows of files with all columns in order. Columns in directory names are not in the files."""
        schema = StructType([field for field in self._fields if field.name not in named])
        reader: Any = self._session.read.format(self._source.format).schema(schema)
        frame: DataFrame = reader.options(**{**self._options, **for_paths(paths)}).load(paths)
        if self._charset is not None:
            frame = decode_lines(frame, self._charset)
        # Spark writes a local path as file:///, which has two more parts.
        depth = root_depth + 2 if paths and paths[0].startswith("/") else root_depth
        types = {name: kind for name, kind in self._partition_types.items() if name in named}
        frame = with_partition_columns(frame, types, depth)
        for name in self._columns:
            if name not in frame.columns:
                frame = frame.withColumn(name, F.lit(None).cast(self._partition_types[name]))
        frame = frame.select(*[F.col(f"`{name}`") for name in self._columns])
        return with_files(frame) if self._by_file else frame
