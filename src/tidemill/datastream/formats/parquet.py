"""Parquet files: read in columns, written in bulk."""

from __future__ import annotations

from tidemill.connectors.formats.parquet import (
    ParquetBulkWriters,
    ParquetColumnarRowInputFormat,
)

__all__ = [
    "ParquetBulkWriters",
    "ParquetColumnarRowInputFormat",
]
