"""Bulk writers of ORC files."""

from __future__ import annotations

from tidemill.connectors.formats.orc import (
    OrcBulkWriters,
)

__all__ = [
    "OrcBulkWriters",
]
