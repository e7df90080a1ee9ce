"""Deprecated: the former path of :mod:`tidemill.connectors.sinks`."""

from __future__ import annotations

from tidemill.connectors.sinks import (
    Committed,
    Committer,
    CommitterContext,
    Sink,
    SinkLog,
    SinkWriter,
    StatefulSinkWriter,
    SupportsWriterState,
    WriterContext,
)
from tidemill.deprecation import deprecated_module

__all__ = [
    "Committed",
    "Committer",
    "CommitterContext",
    "Sink",
    "SinkLog",
    "SinkWriter",
    "StatefulSinkWriter",
    "SupportsWriterState",
    "WriterContext",
]

deprecated_module(__name__, "tidemill.connectors.sinks", removed_in="1.0")
