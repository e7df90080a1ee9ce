"""A sink for everything that Spark can write, and the mapping between Spark's schemas and ``Types``.

Start with ``sink.py``. Nothing here imports PySpark: the writers run in ``tidemill.spark.output``, and DataFrames as
sources are read in ``tidemill.spark.frames``. Programs import ``tidemill.datastream.connectors.spark``.
"""

from __future__ import annotations

from tidemill.connectors.spark.sink import SparkSink, SparkSinkBuilder
from tidemill.connectors.spark.type_mapping import type_info_of

__all__ = ["SparkSink", "SparkSinkBuilder", "type_info_of"]
