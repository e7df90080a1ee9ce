"""A sink that uses Spark's own writers, and the mapping between Spark's schemas and ``Types``."""

from __future__ import annotations

from tidemill.connectors.spark.sink import SparkSink, SparkSinkBuilder
from tidemill.connectors.spark.type_mapping import type_info_of

__all__ = ["SparkSink", "SparkSinkBuilder", "type_info_of"]
