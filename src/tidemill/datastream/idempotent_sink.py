"""Deprecated: the former path of :mod:`tidemill.connectors.idempotent_sink`."""

from __future__ import annotations

from tidemill.connectors.idempotent_sink import (
    IdempotentSink,
    KeyedStore,
    RecordPosition,
)
from tidemill.deprecation import deprecated_module

__all__ = [
    "IdempotentSink",
    "KeyedStore",
    "RecordPosition",
]

deprecated_module(__name__, "tidemill.connectors.idempotent_sink", removed_in="1.0")
