"""Records of JSON and CSV files that do not fit the schema: found and shown when a job has failed at one.

Spark's strict mode (``FAILFAST``) tells the file, and of the record only what it could read of it. Its lenient mode
hands over the text, but costs every record a copy (a quarter of the time that Spark takes for it). So files are read in
strict mode, and one at which that has failed is read once more.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from fnmatch import fnmatchcase
from typing import Final
from urllib.parse import unquote

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's customary name
from pyspark.sql.types import StringType, StructType

from tidemill.connectors.file_system.listing import local_root
from tidemill.connectors.file_system.misfits import Misfit
from tidemill.connectors.sources import FormatSource
from tidemill.errors import FailureSite, TypeMismatchError
from tidemill.runtime.batch.failures import shown
from tidemill.spark.files.file_frames import for_paths
from tidemill.spark.files.partition_columns import columns_in

__all__ = ["misfit_error"]

#: What Spark says of a file in which a record does not fit.
_FILE: Final = re.compile(r"FAILED_READ_FILE.*? while reading file (\S+?)\.(?:\s|$).*?MALFORMED_RECORD", re.DOTALL)
_COLUMN: Final = "tidemill_misfit"


def misfit_error(
    session: SparkSession,
    sources: Mapping[str, FormatSource],
    failure: Exception,
    original: Callable[[str], str] = lambda path: path,
) -> TypeMismatchError | None:
    """The record that a job has failed at, if it was one that did not fit its schema.

    ``sources`` are those that read files, by uid. ``original`` names the file that Spark has read a copy of.
    """
    told = _FILE.search(str(failure))
    if told is None:
        return None
    file = _plain(unquote(told[1]))
    name = original(file)
    strict = {uid: one for uid, one in sources.items() if _is_strict(one)}
    readers = {uid: source for uid, source in strict.items() if _depth(source, name) is not None}
    if not readers and len(strict) == 1:  # not every pattern is understood here, but who else should have read it
        readers = strict
    for uid, source in readers.items():
        if source.schema is not None:
            record = _record(session, source, source.schema, file, columns_in(name, _depth(source, name) or 0))
            if record is not None:
                return _error(uid, source, Misfit(source.format, record, source.schema, _by_name(source)), name)
    return None


def _is_strict(source: FormatSource) -> bool:
    return source.format in ("json", "csv") and _by_name(source).get("mode", "").upper() == "FAILFAST"


def _depth(source: FormatSource, file: str) -> int | None:
    """How many parts the one of the source's paths has that a file is below: directories after these name columns."""
    found = file.split("/")
    for path in (source.path, *source.more_paths):
        parts = [] if path is None else _plain(path).rstrip("/").split("/")
        if 0 < len(parts) <= len(found) and all(map(_is_like, found, parts)):
            return len(parts)
    return None


def _is_like(name: str, pattern: str) -> bool:
    return name == pattern or fnmatchcase(name, pattern)


def _plain(path: str) -> str:
    """A path without the ``file:`` that Spark puts before one of this machine; relative ones begin where we are."""
    return local_root(path) or path


def _by_name(source: FormatSource) -> dict[str, str]:
    """The options by their names in lower case: to Spark they are the same in any."""
    return {name.lower(): value for name, value in source.options.items()}


def _record(
    session: SparkSession, source: FormatSource, schema: str, file: str, elsewhere: Collection[str]
) -> str | None:
    """The first record of a file that does not fit; None if there is none any more. Some columns are ``elsewhere``."""
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
        return None  # the file is not what it was: Spark's own words have to do
    return found[0][_COLUMN] if found else None


def _error(uid: str, source: FormatSource, misfit: Misfit, file: str) -> TypeMismatchError:
    site = FailureSite(uid=uid, exception=TypeMismatchError.__name__, record=shown(misfit.record))
    error = TypeMismatchError(
        f"Spark could not read the source with uid {uid!r}: file {file} has a record that does not fit the "
        f"schema: {misfit.problem()}. It is record {site.record}\nCorrect the file; or read it with "
        f"read_{source.format}() and the option mode, which is DROPMALFORMED to leave such records out, or PERMISSIVE "
        "to have None where a value does not fit."
    )
    error.site = site
    return error
