"""Deprecated: the former path of :mod:`tidemill.connectors.sources`."""

from __future__ import annotations

from tidemill.connectors.sources import (
    ClockOf,
    DataFrameSource,
    FormatSource,
    MadeRecords,
    Position,
    RecordBatch,
    RowDecoder,
    Source,
    SparkSource,
    Split,
    SplitEnumerator,
    SplitSource,
)
from tidemill.deprecation import deprecated_module

__all__ = [
    "ClockOf",
    "DataFrameSource",
    "FormatSource",
    "MadeRecords",
    "Position",
    "RecordBatch",
    "RowDecoder",
    "Source",
    "SparkSource",
    "Split",
    "SplitEnumerator",
    "SplitSource",
]

deprecated_module(__name__, "tidemill.connectors.sources", removed_in="1.0")
