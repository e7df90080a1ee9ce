"""Records of JSON and CSV files that do not fit the schema: found and shown when a job has failed at one.

Spark's strict mode (``FAILFAST``) tells the file, and of the record only what it could read of it. Its lenient mode
hands over the text, but costs every record a copy (a quarter of the time that Spark takes for it). So files are read in
strict mode, and one at which that has failed is read once more.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Final
from urllib.parse import unquote

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's customary name
from pyspark.sql.types import StringType, StructType

from tidemill.datastream.connectors.file_system.misfits import Misfit
from tidemill.datastream.sources import FormatSource, Source
from tidemill.errors import FailureSite, TypeMismatchError
from tidemill.runtime.failures import shown

__all__ = ["misfit_error"]

#: What Spark says of a file in which a record does not fit.
_FILE: Final = re.compile(r"FAILED_READ_FILE.*? while reading file (\S+?)\.(?:\s|$).*?MALFORMED_RECORD", re.DOTALL)
#: What begins an address of another system than this machine's files.
_SCHEME: Final = re.compile(r"(?!file:)\w[\w+.-]*:")
#: What has a meaning in paths that are read.
_PATTERN: Final = re.compile(r"[\\*?\[\]{}]")
_COLUMN: Final = "tidemill_misfit"


def misfit_error(session: SparkSession, sources: Mapping[str, Source], failure: Exception) -> TypeMismatchError | None:
    """The record that a job has failed at, if it was one that did not fit; ``sources`` are the job's, by uid."""
    told = _FILE.search(str(failure))
    if told is None:
        return None
    file = unquote(told[1])
    strict = {uid: one for uid, one in sources.items() if isinstance(one, FormatSource) and _is_strict(one)}
    readers = {uid: source for uid, source in strict.items() if _base(source, file) is not None}
    if not readers and len(strict) == 1:  # not every pattern is understood here, but who else should have read it
        readers = strict
    for uid, source in readers.items():
        if source.schema is not None:
            record = _record(session, source, source.schema, file)
            if record is not None:
                return _error(uid, source, Misfit(source.format, record, source.schema, _by_name(source)), file)
    return None


def _is_strict(source: FormatSource) -> bool:
    return source.format in ("json", "csv") and _by_name(source).get("mode", "").upper() == "FAILFAST"


def _base(source: FormatSource, file: str) -> str | None:
    """The part of a file's name that is one of the source's paths: columns can be told by the directories below."""
    found = _plain(file).split("/")
    for path in (source.path, *source.more_paths):
        parts = [] if path is None else _plain(path).rstrip("/").split("/")
        if 0 < len(parts) <= len(found) and all(map(_is_like, found, parts)):
            return file.rsplit("/", len(found) - len(parts))[0]
    return None


def _is_like(name: str, pattern: str) -> bool:
    return name == pattern or fnmatchcase(name, pattern)


def _plain(path: str) -> str:
    """A path without the ``file:`` that Spark puts before one of this machine; relative ones begin where we are."""
    if _SCHEME.match(path):
        return path
    local = "/" + path[5:].lstrip("/") if path.startswith("file:") else path
    return os.path.abspath(local)  # noqa: PTH100 - resolves no links, as Spark does not


def _by_name(source: FormatSource) -> dict[str, str]:
    """The options by their names in lower case: to Spark they are the same in any."""
    return {name.lower(): value for name, value in source.options.items()}


def _record(session: SparkSession, source: FormatSource, schema: str, file: str) -> str | None:
    """The first record of a file that does not fit; None if there is none any more."""
    columns = StructType.fromDDL(schema)
    base = _base(source, file)
    if not isinstance(columns, StructType):
        return None
    lenient = {**_by_name(source), "mode": "PERMISSIVE", "columnnameofcorruptrecord": _COLUMN}
    if base is not None and base != file:
        lenient["basepath"] = base
    reader = session.read.format(source.format).options(**lenient)
    try:
        frame = reader.schema(columns.add(_COLUMN, StringType())).load(_PATTERN.sub(r"\\\g<0>", file))
        found = frame.where(F.col(_COLUMN).isNotNull()).head(1)
    except (PySparkException, Py4JError):
        return None  # the file is not what it was: Spark's own words have to do
    return found[0][_COLUMN] if found else None


def _error(uid: str, source: FormatSource, misfit: Misfit, file: str) -> TypeMismatchError:
    site = FailureSite(uid=uid, exception=TypeMismatchError.__name__, record=shown(misfit.record))
    error = TypeMismatchError(
        f"Spark could not read the source with uid {uid!r}: file {_plain(file)} has a record that does not fit the "
        f"schema: {misfit.problem()}. It is record {site.record}\nCorrect the file; or read it with "
        f"read_{source.format}() and the option mode, which is DROPMALFORMED to leave such records out, or PERMISSIVE "
        "to have None where a value does not fit."
    )
    error.site = site
    return error
