"""File sources and sinks, with PyFlink's class names.

Start with ``sink.py`` or ``source.py``. ``writer.py`` writes part files (``parts.py``) to a part store
(``part_store.py``). The format of records inside a file is defined in ``formats.py``, ``columnar.py`` and
``tidemill.connectors.formats``. ``rolling.py`` determines when a part is finished, ``compaction.py`` how finished ones
are merged.

Sources are only described here, and read in ``tidemill.spark.files`` or ``tidemill.local.files``. This is not PyFlink's
import path: programs use ``tidemill.datastream.connectors.file_system``.
"""

from __future__ import annotations

from tidemill.connectors.file_system.buckets import BucketAssigner, OutputFileConfig
from tidemill.connectors.file_system.compaction import (
    ConcatFileCompactor,
    FileCompactor,
    FileCompactStrategy,
    IdenticalFileCompactor,
    RecordWiseFileCompactor,
)
from tidemill.connectors.file_system.formats import RowDataBulkWriterFactory
from tidemill.connectors.file_system.rolling import (
    DefaultRollingPolicy,
    OnCheckpointRollingPolicy,
    OnEpochRollingPolicy,
    RollingPolicy,
)
from tidemill.connectors.file_system.sink import FileSink, StreamingFileSink
from tidemill.connectors.file_system.source import (
    BulkFormat,
    FileEnumeratorProvider,
    FileSource,
    FileSourceBuilder,
    FileSplitAssignerProvider,
    InputFormat,
    StreamFormat,
)

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
