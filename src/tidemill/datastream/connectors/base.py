"""Classes that all connectors share, under PyFlink's path."""

from __future__ import annotations

from tidemill.connectors.base import (
    DeliveryGuarantee,
    Sink,
    Source,
)

__all__ = [
    "DeliveryGuarantee",
    "Sink",
    "Source",
]
