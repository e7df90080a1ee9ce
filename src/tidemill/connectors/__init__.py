"""Sources and sinks: how records come into a job and leave it.

``sources.py`` and ``sinks.py`` are the contracts with the engine: start there. ``write_ahead_log.py``,
``two_phase_commit.py`` and ``idempotent_sink.py`` are bases for sinks that survive failures; the rest are connectors,
one folder for each system. PyFlink's import paths are in ``tidemill.datastream.connectors``. Nothing here knows Spark:
what Spark reads or writes is described here as data and carried out in ``tidemill.spark``.
"""

from __future__ import annotations

from tidemill.connectors.base import DeliveryGuarantee, Sink, Source

__all__ = ["DeliveryGuarantee", "Sink", "Source"]
