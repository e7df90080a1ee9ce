"""Classes that all connectors share, under PyFlink's path."""

from __future__ import annotations

from tidemill.connectors.base import (
    DeliveryGuarantee,
    Sink,
    Source,
    StreamTransformer,
    SupportsPreprocessing,
)
from tidemill.lazy_names import PYTHON_NAMES, names_elsewhere

__all__ = [
    "DeliveryGuarantee",
    "Sink",
    "Source",
    "StreamTransformer",
    "SupportsPreprocessing",
]

__getattr__ = names_elsewhere(
    __name__,
    {**PYTHON_NAMES, "DataStream": "tidemill.datastream.data_stream"},
)
