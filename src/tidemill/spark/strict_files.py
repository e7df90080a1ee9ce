"""Records of JSON and CSV files that do not fit the schema: found and shown when a job has failed at one.

Spark's strict mode (``FAILFAST``) tells the file, and of the record only what it could read of it. Its lenient mode
hands over the text, but costs every record a copy (a quarter of the time that Spark takes for it). So files are read in
strict mode, and one at which that has failed is read once more.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import unquote

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
_COLUMN: Final = "tidemill_misfit"


def misfit_error(session: SparkSession, sources: Mapping[str, Source], failure: Exception) -> TypeMismatchError | None:
    """The record that a job has failed at, if it was one that did not fit; ``sources`` are the job's, by uid."""
    told = _FILE.search(str(failure))
    if told is None:
        return None
    file = unquote(told[1])
    for uid, source in sources.items():
        if isinstance(source, FormatSource) and source.schema is not None and _may_have_read(source, file):
            record = _record(session, source, source.schema, file)
            if record is not None:
                return _error(uid, source, Misfit(source.format, record, source.schema, _by_name(source)), file)
    return None


def _may_have_read(source: FormatSource, file: str) -> bool:
    strict = _by_name(source).get("mode", "").upper() == "FAILFAST"
    return strict and source.format in ("json", "csv") and _base(source, file) is not None


def _base(source: FormatSource, file: str) -> str | None:
    """Which of a source's paths a file is below: columns can be told by the directories in between."""
    paths = [path for path in (source.path, *source.more_paths) if path is not None]
    return next((path for path in paths if _plain(file).startswith(_plain(path))), None)


def _plain(path: str) -> str:
    """A path without the ``file:`` that Spark puts before one of this machine."""
    return "/" + path.removeprefix("file:").lstrip("/") if path.startswith(("file:", "/")) else path


def _by_name(source: FormatSource) -> dict[str, str]:
    """The options by their names in lower case: to Spark they are the same in any."""
    return {name.lower(): value for name, value in source.options.items()}


def _record(session: SparkSession, source: FormatSource, schema: str, file: str) -> str | None:
    """The first record of a file that does not fit; None if there is none any more."""
    columns = StructType.fromDDL(schema)
    base = _base(source, file)
    if not isinstance(columns, StructType) or base is None:
        return None
    lenient = {**_by_name(source), "mode": "PERMISSIVE", "columnnameofcorruptrecord": _COLUMN}
    if _plain(base) != _plain(file):
        lenient["basepath"] = base
    reader = session.read.format(source.format).options(**lenient)
    try:
        frame = reader.schema(columns.add(_COLUMN, StringType())).load(file)
        found = frame.where(F.col(_COLUMN).isNotNull()).head(1)
    except PySparkException:
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
