"""Creates the sources of a job that watch files with Spark."""

from __future__ import annotations

from typing import Final

from pyspark.sql import SparkSession

from tidemill.common.configuration import Configuration
from tidemill.connectors.file_system.listing import FileListing, LocalListing, ObjectListing, local_root
from tidemill.connectors.object_store import OBJECT_STORE_SCHEMES, store_options
from tidemill.connectors.sources import FormatSource
from tidemill.errors import ConfigurationError
from tidemill.graph.plan import OperatorPlan
from tidemill.runtime.watched.watch_options import WatchOptions
from tidemill.runtime.watched.watched_source import WatchedSource
from tidemill.spark.files.file_frames import FileFrames
from tidemill.spark.files.hadoop_listing import HadoopListing, has_connector
from tidemill.spark.files.partition_columns import column_types, columns_in
from tidemill.spark.files.staging import Staging
from tidemill.spark.files.watched_rows import SparkFileReader

__all__ = ["watched_source"]

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
    options = WatchOptions(source)
    listing, depth = _listing(session, configuration, options, staging), options.root_depth
    types: dict[str, str] = {}
    if not options.recursive:
        found = listing.new_files(lambda file: "=" not in "/".join(file.split("/")[depth:-1]))
        types = column_types(columns_in(file.path, depth) for file in found[:_SAMPLES])
    frames = FileFrames(session, source, options.of_format, types, by_file=by_file)
    return options.watched(
        configuration,
        operator,
        listing,
        SparkFileReader(operator.named, listing, frames, staging, depth),
        local=isinstance(listing, LocalListing),
        # In Hadoop's file systems, the blocks of a file may be in a different order in each epoch.
        keeps_order=not isinstance(listing, HadoopListing),
    )


def _listing(
    session: SparkSession, configuration: Configuration, options: WatchOptions, staging: Staging
) -> FileListing:
    path, recursive, accepts = options.path, options.recursive, options.accepts
    local = local_root(path)
    if local is not None:
        return LocalListing(local, recursive=recursive, accepts=accepts)
    if has_connector(session, path):
        return HadoopListing(session, path, recursive=recursive, accepts=accepts)
    if path.partition(":")[0].lower() in OBJECT_STORE_SCHEMES:
        staging.check(path)
        return ObjectListing(path, store_options(configuration), recursive=recursive, accepts=accepts)
    raise ConfigurationError(f"{path} cannot be watched: Spark has no connector for its scheme")
