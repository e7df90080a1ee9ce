"""The options of a source that watches files, which are those of Spark's file source."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from pyspark.sql import SparkSession

from tidemill.common.configuration import Configuration
from tidemill.config import FileOptions
from tidemill.config.values import MemorySizeValue
from tidemill.connectors.file_system.listing import FileListing, LocalListing, ObjectListing, glob_pattern, local_root
from tidemill.connectors.object_store import OBJECT_STORE_SCHEMES, store_options
from tidemill.connectors.sources import FormatSource
from tidemill.errors import ConfigurationError
from tidemill.graph.plan import OperatorPlan
from tidemill.runtime.driver.file_enumerator import FileBounds
from tidemill.spark.files.file_frames import FileFrames
from tidemill.spark.files.hadoop_listing import HadoopListing, has_connector
from tidemill.spark.files.partition_columns import column_types, columns_in
from tidemill.spark.files.processed_files import ProcessedFiles
from tidemill.spark.files.staging import Staging
from tidemill.spark.files.watched_source import WatchedSource, WatchSettings

__all__ = ["watched_source"]

#: The options, in lower case, that define how files are found and not how they are read.
_OF_LISTING: Final = frozenset(
    {
        "maxfilespertrigger",
        "maxbytespertrigger",
        "latestfirst",
        "filenameonly",
        "maxfileage",
        "cleansource",
        "sourcearchivedir",
        "maxcachedfiles",
        "discardcachedinputratio",
        "pathglobfilter",
        "recursivefilelookup",
        "basepath",
    }
)
#: The number of files whose directory names are used to infer the partition columns.
_SAMPLES: Final = 1000


def watched_source(
    session: SparkSession,
    configuration: Configuration,
    operator: OperatorPlan,
    source: FormatSource,
    staging: Staging,
    *,
    by_file: bool,
) -> WatchedSource:
    """Create the source of an operator that watches files. With ``by_file``, rows contain their file.

    ``staging`` stores copies that Spark can read. Raises :class:`ConfigurationError` for a path that cannot be
    watched, and for conflicting options.
    """
    options = {name.lower(): value for name, value in source.options.items()}
    recursive = _is_true(options, "recursivefilelookup")
    path = source.path or ""
    listing = _listing(session, configuration, path, options, staging, recursive=recursive)
    root = local_root(path) or path.rstrip("/")
    base = options.get("basepath")
    depth = len((root if base is None else local_root(base) or base.rstrip("/")).split("/"))
    types: dict[str, str] = {}
    if not recursive:
        found = listing.new_files(lambda file: "=" not in "/".join(file.split("/")[depth:-1]))
        types = column_types(columns_in(file.path, depth) for file in found[:_SAMPLES])
    reading = {name: value for name, value in source.options.items() if name.lower() not in _OF_LISTING}
    return WatchedSource(
        operator.uid,
        operator.name,
        listing,
        FileFrames(session, source, reading, types, by_file=by_file),
        staging,
        root_depth=depth,
        bounds=FileBounds(_number(options, "maxfilespertrigger"), _size(options, "maxbytespertrigger")),
        settings=WatchSettings(
            missing=configuration.get(FileOptions.MISSING),
            interval=source.discovery_interval,
            latest_first=_is_true(options, "latestfirst"),
            by_name=_is_true(options, "filenameonly"),
        ),
        processed=ProcessedFiles.of(options, root, local=isinstance(listing, LocalListing)),
        # In Hadoop's file systems, the blocks of a file may be in a different order in each epoch.
        keeps_order=not isinstance(listing, HadoopListing),
    )


def _listing(
    session: SparkSession,
    configuration: Configuration,
    path: str,
    options: Mapping[str, str],
    staging: Staging,
    *,
    recursive: bool,
) -> FileListing:
    accepts: Callable[[str], bool] = lambda name: True  # noqa: E731
    if "pathglobfilter" in options:
        pattern = glob_pattern(options["pathglobfilter"])
        accepts = lambda name: pattern.fullmatch(name) is not None  # noqa: E731
    local = local_root(path)
    if local is not None:
        return LocalListing(local, recursive=recursive, accepts=accepts)
    if has_connector(session, path):
        return HadoopListing(session, path, recursive=recursive, accepts=accepts)
    if path.partition(":")[0].lower() in OBJECT_STORE_SCHEMES:
        staging.check(path)
        return ObjectListing(path, store_options(configuration), recursive=recursive, accepts=accepts)
    raise ConfigurationError(f"{path} cannot be watched: Spark has no connector for its scheme")


def _is_true(options: Mapping[str, str], name: str) -> bool:
    return str(options.get(name, "false")).lower() == "true"


def _number(options: Mapping[str, str], name: str) -> int | None:
    return None if name not in options else max(1, int(options[name]))


def _size(options: Mapping[str, str], name: str) -> int | None:
    """Parse a number of bytes, with or without a unit."""
    return None if name not in options else MemorySizeValue().parse(options[name])
