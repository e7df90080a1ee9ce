"""Maps a source of files to the format in which the local engine reads them, and refuses what only Spark can read."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from tidemill.common.configuration import Configuration
from tidemill.connectors.file_system.source import CHARSETS
from tidemill.connectors.sources import FormatSource
from tidemill.connectors.spark.schema_types import StructOf, parse_schema
from tidemill.errors import ConfigurationError
from tidemill.local.files.columnar_format import OrcFormat, ParquetFormat
from tidemill.local.files.csv_format import CsvFormat, options_of_dialect
from tidemill.local.files.format import ReadFormat
from tidemill.local.files.json_format import JsonFormat
from tidemill.local.files.lines import TextFormat

__all__ = ["format_of", "session_zone"]

#: The options, in lower case, that the local engine has for each format.
_OPTIONS: Final[Mapping[str, frozenset[str]]] = {
    "text": frozenset({"encoding"}),
    "csv": frozenset(
        {
            *("comment", "delimiter", "encoding", "enforceschema", "escape", "header", "inferschema"),
            *("mode", "nullvalue", "quote", "sep"),
        }
    ),
    "json": frozenset({"encoding", "mode"}),
    "parquet": frozenset(),
    "orc": frozenset(),
}
_ZONE: Final = "spark.sql.session.timeZone"


def session_zone(configuration: Configuration) -> dt.tzinfo | None:
    """Return the time zone of timestamps without one: Spark's setting, or None for that of this machine."""
    name = configuration.get_string(_ZONE, "")
    if not name:
        return None
    try:
        return dt.timezone.utc if name in ("Z", "UTC") else ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ConfigurationError(f"{_ZONE} is {name!r}, which is not a known time zone") from error


def format_of(source: FormatSource, options: Mapping[str, str], zone: dt.tzinfo | None) -> ReadFormat:
    """Return the format of a source; ``options`` are those of the format.

    Raises :class:`ConfigurationError` for formats and options that only Spark has: nothing is read in another way.
    """
    name = source.format.lower()
    if name not in _OPTIONS:
        avro = ": read Avro files with AvroInputFormat" if name == "avro" else ""
        raise _refused(source, f"the format {source.format!r}{avro}")
    given = {option.lower(): value for option, value in options.items()}
    unknown = sorted(given.keys() - _OPTIONS[name])
    if unknown:
        raise _refused(source, f"the option {unknown[0]!r} of {name} files")
    charset = given.get("encoding", "UTF-8").upper()
    if charset != "UTF-8" and name != "text":
        raise _refused(source, f"{name} files in {charset}")
    if name == "text":
        names = {spark: python for python, spark in CHARSETS.items()}
        if charset not in names:
            raise _refused(source, f"text in {charset}")
        return TextFormat(names[charset])
    struct = None if source.schema is None else parse_schema(source.schema)
    if name in ("parquet", "orc"):
        return ParquetFormat(struct) if name == "parquet" else OrcFormat(struct)
    return _text_records(source, name, given, _declared(source, struct), zone)


def _text_records(
    source: FormatSource, name: str, given: Mapping[str, str], struct: StructOf, zone: dt.tzinfo | None
) -> ReadFormat:
    mode = given.get("mode", "PERMISSIVE").upper()
    if mode not in ("FAILFAST", "DROPMALFORMED"):
        raise _refused(source, f"mode: {mode} (but FAILFAST and DROPMALFORMED)")
    drops = mode == "DROPMALFORMED"
    if name == "json":
        return JsonFormat(struct, zone, drops=drops)
    dialect = options_of_dialect(given, drops=drops)
    for what, text in (("sep", dialect.separator), ("quote", dialect.quote), ("escape", dialect.escape)):
        if len(text) > 1 or (not text and what == "sep"):
            raise _refused(source, f"{what}: {text!r}, which is not a single character,")
    return CsvFormat(struct, dialect, zone)


def _declared(source: FormatSource, struct: StructOf | None) -> StructOf:
    if struct is None:
        raise _refused(source, f"{source.format} files without a schema, which Spark would infer")
    return struct


def _refused(source: FormatSource, what: str) -> ConfigurationError:
    where = f" ({source.path})" if source.path else ""
    return ConfigurationError(f"execution.target: local cannot read {what}{where}: set execution.target: spark")
