"""Bulk writers of ORC files."""

from __future__ import annotations

from tidemill.connectors.formats.orc import (
    OrcBulkWriters,
)
from tidemill.lazy_names import PYTHON_NAMES, names_elsewhere

__all__ = [
    "OrcBulkWriters",
]

__getattr__ = names_elsewhere(
    __name__,
    {
        **PYTHON_NAMES,
        "BulkWriterFactory": "tidemill.common.serialization",
        "Configuration": "tidemill.common.configuration",
        "RowDataBulkWriterFactory": "tidemill.connectors.file_system",
        "RowType": "tidemill.table.types",
    },
)
