"""Sources and sinks."""

from __future__ import annotations

from tidemill.datastream.connectors.base import DeliveryGuarantee, Sink, Source

__all__ = ["DeliveryGuarantee", "Sink", "Source"]
