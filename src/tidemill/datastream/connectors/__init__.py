"""Sources and sinks under PyFlink's import paths.

The modules contain nothing but imports from :mod:`tidemill.connectors`, which has the implementation. A connector has a
module here if programs name its classes: files, Kafka, databases, Spark's writers, generated records and number
sequences. Connectors that programs reach through a method (collections, sockets, ``print``, ``execute_and_collect``)
have none, and neither do the base classes for custom sources and sinks, which are imported from
:mod:`tidemill.connectors`. Start with ``base.py``.
"""

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
