"""Classes shared by all connectors, with PyFlink's class names."""

from __future__ import annotations

import enum

from tidemill.connectors.sinks import Sink
from tidemill.connectors.sources import Source

__all__ = ["DeliveryGuarantee", "Sink", "Source"]


class DeliveryGuarantee(enum.Enum):
    """The delivery guarantee of a sink after a failure."""

    EXACTLY_ONCE = 0
    AT_LEAST_ONCE = 1
    NONE = 2
