"""Finds the record of a JSON or CSV file that does not match the schema, after a job has failed because of it.

Spark's strict mode (``FAILFAST``) reports the file, but only the part of the record that it could read. Its lenient
mode returns the text of the record, but copies every record (a quarter of the time that Spark needs for it). Files are
therefore read in strict mode, and a file that fails is read again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import Final
from urllib.parse import unquote

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's customary name
from pyspark.sql.types import StringType, StructType

from tidemill.connectors.file_system.listing import local_root
from tidemill.connectors.file_system.misfits import Misfit, misfit_error
from tidemill.connectors.sources import FormatSource
from tidemill.errors import TypeMismatchError
from tidemill.runtime.batch.failures import message_text
from tidemill.spark.files.file_frames import for_paths
from tidemill.spark.files.partition_columns import columns_in

__all__ = ["misfit_in"]

#: Spark's error message for a file with a malformed record.
_FILE: Final = re.compile(r"FAILED_READ_FILE.*? while reading file (\S+?)\.(?:\s|$).*?MALFORMED_RECORD", re.DOTALL)
_COLUMN: Final = "tidemill_misfit"


def misfit_in(
    session: SparkSession,
    sources: Mapping[str, FormatSource],
    failure: Exception,
    original: Callable[[str], str] = lambda path: path,
    names: Mapping[str, str] = MappingProxyType({}),
) -> TypeMismatchError | None:
    """Return an error with the record that a job has failed at, if the record does not match its schema, else None.

    ``sources`` are the sources that read files, by uid, and ``names`` what messages call them. ``original`` maps a copy
    that Spark has read to its original.
    """
    told = _FILE.search(str(failure))
    if told is None:
        return None
    file = _plain(unquote(told[1]))
    name = original(file)
    strict = {uid: one for uid, one in sources.items() if _is_strict(one)}
    readers = {uid: source for uid, source in strict.items() if _depth(source, name) is not None}
    if not readers and len(strict) == 1:  # it has an unsupported pattern, but only this source can have read it
        readers = strict
    for uid, source in readers.items():
        if source.schema is not None:
            record = _record(session, source, source.schema, file, columns_in(name, _depth(source, name) or 0))
            if record is not None:
                misfit = Misfit(source.format, record, source.schema, _by_name(source))
                called = names.get(uid, f"with uid {uid!r}")
                return misfit_error(uid, misfit, name, message_text(record), called)
    return None


def _is_strict(source: FormatSource) -> bool:
    return source.format in ("json", "csv") and _by_name(source).get("mode", "").upper() == "FAILFAST"


def _depth(source: FormatSource, file: str) -> int | None:
    """Return the length, in parts, of the source path that contains a file. Directories below it may name columns."""
    found = file.split("/")
    for path in (source.path, *source.more_paths):
        parts = [] if path is None else _plain(path).rstrip("/").split("/")
        if 0 < len(parts) <= len(found) and all(map(_is_like, found, parts)):
            return len(parts)
    return None


def _is_like(name: str, pattern: str) -> bool:
    return name == pattern or fnmatchcase(name, pattern)


def _plain(path: str) -> str:
    """Remove Spark's ``file:`` prefix from a local path. Relative paths are resolved in the current directory."""
    return local_root(path) or path


def _by_name(source: FormatSource) -> dict[str, str]:
    """Return the options by their names in lower case: option names in Spark are case-insensitive."""
    return {name.lower(): value for name, value in source.options.items()}


def _record(
    session: SparkSession, source: FormatSource, schema: str, file: str, elsewhere: Collection[str]
) -> str | None:
    """Return the first record of a file that does not match the schema, or None if there is none any longer.

    The columns in ``elsewhere`` are not in the file.
    """
    described = StructType.fromDDL(schema)
    if not isinstance(described, StructType):
        return None
    others = set(map(str.lower, elsewhere))
    columns = StructType([field for field in described.fields if field.name.lower() not in others])
    options = {
        name: value for name, value in _by_name(source).items() if name not in ("recursivefilelookup", "basepath")
    }
    lenient = {**options, **for_paths([file]), "mode": "PERMISSIVE", "columnnameofcorruptrecord": _COLUMN}
    reader = session.read.format(source.format).options(**lenient)
    try:
        frame = reader.schema(columns.add(_COLUMN, StringType())).load([file])
        found = frame.where(F.col(_COLUMN).isNotNull()).head(1)
    except (PySparkException, Py4JError):
        return None  # the file has changed: use Spark's own error
    return found[0][_COLUMN] if found else None
