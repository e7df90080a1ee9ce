"""Sources and sinks, through which records enter and leave a job.

``sources.py`` and ``sinks.py`` define the contracts with the engine: start there. ``write_ahead_log.py``,
``two_phase_commit.py`` and ``idempotent_sink.py`` contain base classes for fault-tolerant sinks. The rest are
connectors, one folder for each system. PyFlink's import paths are in ``tidemill.datastream.connectors``. Nothing here
depends on Spark: what Spark reads or writes is described here as data, and executed in ``tidemill.spark``.
"""

from __future__ import annotations

from tidemill.connectors.base import DeliveryGuarantee, Sink, Source

__all__ = ["DeliveryGuarantee", "Sink", "Source"]
