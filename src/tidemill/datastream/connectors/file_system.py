"""File sources and sinks, under PyFlink's path."""

from __future__ import annotations

from tidemill.connectors.file_system import (
    BucketAssigner,
    BulkFormat,
    ConcatFileCompactor,
    DefaultRollingPolicy,
    FileCompactor,
    FileCompactStrategy,
    FileEnumeratorProvider,
    FileSink,
    FileSource,
    FileSourceBuilder,
    FileSplitAssignerProvider,
    IdenticalFileCompactor,
    InputFormat,
    OnCheckpointRollingPolicy,
    OnEpochRollingPolicy,
    OutputFileConfig,
    RecordWiseFileCompactor,
    RollingPolicy,
    RowDataBulkWriterFactory,
    StreamFormat,
    StreamingFileSink,
)
from tidemill.lazy_names import PYTHON_NAMES, names_elsewhere

__all__ = [
    "BucketAssigner",
    "BulkFormat",
    "ConcatFileCompactor",
    "DefaultRollingPolicy",
    "FileCompactStrategy",
    "FileCompactor",
    "FileEnumeratorProvider",
    "FileSink",
    "FileSource",
    "FileSourceBuilder",
    "FileSplitAssignerProvider",
    "IdenticalFileCompactor",
    "InputFormat",
    "OnCheckpointRollingPolicy",
    "OnEpochRollingPolicy",
    "OutputFileConfig",
    "RecordWiseFileCompactor",
    "RollingPolicy",
    "RowDataBulkWriterFactory",
    "StreamFormat",
    "StreamingFileSink",
]

__getattr__ = names_elsewhere(
    __name__,
    {
        **PYTHON_NAMES,
        **dict.fromkeys(("BulkWriterFactory", "Encoder"), "tidemill.common.serialization"),
        **dict.fromkeys(
            ("DeliveryGuarantee", "Sink", "Source", "StreamTransformer", "SupportsPreprocessing"),
            "tidemill.connectors.base",
        ),
        **dict.fromkeys(("SinkFunction", "SourceFunction"), "tidemill.datastream.functions"),
        "Duration": "tidemill.common.time",
        "RowType": "tidemill.table.types",
    },
)
