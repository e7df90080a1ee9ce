"""Files as source and sink, under PyFlink's names; the parts are in the modules imported here."""

from __future__ import annotations

from tidemill.datastream.connectors.file_buckets import (
    BucketAssigner,
    DefaultRollingPolicy,
    OnCheckpointRollingPolicy,
    OutputFileConfig,
    RollingPolicy,
)
from tidemill.datastream.connectors.file_sink import FileSink, StreamingFileSink
from tidemill.datastream.connectors.file_source import FileSource, FileSourceBuilder, StreamFormat

__all__ = [
    "BucketAssigner",
    "DefaultRollingPolicy",
    "FileSink",
    "FileSource",
    "FileSourceBuilder",
    "OnCheckpointRollingPolicy",
    "OutputFileConfig",
    "RollingPolicy",
    "StreamFormat",
    "StreamingFileSink",
]
