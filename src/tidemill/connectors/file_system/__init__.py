"""File sources and sinks, under PyFlink's names; the implementation is in the modules imported here."""

from __future__ import annotations

from tidemill.connectors.file_system.buckets import BucketAssigner, OutputFileConfig
from tidemill.connectors.file_system.rolling import (
    DefaultRollingPolicy,
    FileCompactStrategy,
    OnCheckpointRollingPolicy,
    RollingPolicy,
)
from tidemill.connectors.file_system.sink import FileCompactor, FileSink, StreamingFileSink
from tidemill.connectors.file_system.source import (
    BulkFormat,
    FileEnumeratorProvider,
    FileSource,
    FileSourceBuilder,
    FileSplitAssignerProvider,
    StreamFormat,
)

__all__ = [
    "BucketAssigner",
    "BulkFormat",
    "DefaultRollingPolicy",
    "FileCompactStrategy",
    "FileCompactor",
    "FileEnumeratorProvider",
    "FileSink",
    "FileSource",
    "FileSourceBuilder",
    "FileSplitAssignerProvider",
    "OnCheckpointRollingPolicy",
    "OutputFileConfig",
    "RollingPolicy",
    "StreamFormat",
    "StreamingFileSink",
]
