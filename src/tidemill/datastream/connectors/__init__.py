"""Sources and sinks."""

from __future__ import annotations

from tidemill.connectors import (
    DeliveryGuarantee,
    Sink,
    Source,
)

__all__ = [
    "DeliveryGuarantee",
    "Sink",
    "Source",
]
