"""ORC files, written in bulk."""

from __future__ import annotations

from tidemill.connectors.formats.orc import (
    OrcBulkWriters,
)

__all__ = [
    "OrcBulkWriters",
]
