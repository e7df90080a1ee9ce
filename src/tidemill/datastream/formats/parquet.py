"""Columnar reading and bulk writing of Parquet files."""

from __future__ import annotations

from tidemill.connectors.formats.parquet import (
    ParquetBulkWriters,
    ParquetColumnarRowInputFormat,
)

__all__ = [
    "ParquetBulkWriters",
    "ParquetColumnarRowInputFormat",
]
