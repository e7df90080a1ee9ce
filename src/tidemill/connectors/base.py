"""Classes shared by all connectors, with PyFlink's class names."""

from __future__ import annotations

import abc
import enum
from typing import Any

from tidemill.connectors.sinks import Sink
from tidemill.connectors.sources import Source

__all__ = ["DeliveryGuarantee", "Sink", "Source", "StreamTransformer", "SupportsPreprocessing"]


class DeliveryGuarantee(enum.Enum):
    """The delivery guarantee of a sink after a failure."""

    EXACTLY_ONCE = 0
    AT_LEAST_ONCE = 1
    NONE = 2


class StreamTransformer(abc.ABC):
    """Transforms a stream before a sink: see :class:`SupportsPreprocessing`."""

    @abc.abstractmethod
    def apply(self, ds: Any) -> Any:
        """Return the stream that the sink writes, made from the given one."""


class SupportsPreprocessing(abc.ABC):
    """For sinks that need a different form of records: ``sink_to()`` applies their transformer to the stream."""

    @abc.abstractmethod
    def get_transformer(self) -> StreamTransformer | None:
        """Return the transformer, or None if the stream is written as it is."""
