"""Sources and sinks, through which records enter and leave a job.

Start with ``sources.py`` and ``sinks.py``, which define the contracts with the engine. ``write_ahead_log.py``,
``two_phase_commit.py`` and ``idempotent_sink.py`` contain base classes for fault-tolerant sinks. Several connectors
share ``fetching.py`` and ``messages.py`` (sources whose driver receives the messages), ``ranges.py`` and
``object_store.py``. The rest are connectors, one module or folder for each system.

Programs import connectors from ``tidemill.datastream.connectors``, which has PyFlink's paths. Nothing here depends on
an engine. A source that workers do not read by its splits (a ``SparkSource``: files, Kafka, DataFrames) is described
here as data, and read in ``tidemill.spark`` or ``tidemill.local``. What Spark writes is written in
``tidemill.spark.output``. The operators that call readers and writers are ``tidemill.runtime.operators.source`` and
``tidemill.runtime.operators.sink``.
"""

from __future__ import annotations

from tidemill.connectors.base import DeliveryGuarantee, Sink, Source

__all__ = ["DeliveryGuarantee", "Sink", "Source"]
