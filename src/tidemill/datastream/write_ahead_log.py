"""Deprecated: the former path of :mod:`tidemill.connectors.write_ahead_log`."""

from __future__ import annotations

from tidemill.connectors.write_ahead_log import (
    Delivery,
    Destination,
    DestinationContext,
    LogCommitter,
    LogWriter,
    Mark,
    WriteAheadLogSink,
)
from tidemill.deprecation import deprecated_module

__all__ = [
    "Delivery",
    "Destination",
    "DestinationContext",
    "LogCommitter",
    "LogWriter",
    "Mark",
    "WriteAheadLogSink",
]

deprecated_module(__name__, "tidemill.connectors.write_ahead_log", removed_in="1.0")
