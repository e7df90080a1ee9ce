"""Names that every connector shares, under PyFlink's path."""

from __future__ import annotations

import enum

from tidemill.connectors.sinks import Sink
from tidemill.connectors.sources import Source

__all__ = ["DeliveryGuarantee", "Sink", "Source"]


class DeliveryGuarantee(enum.Enum):
    """What a sink promises about records after a failure."""

    EXACTLY_ONCE = 0
    AT_LEAST_ONCE = 1
    NONE = 2
