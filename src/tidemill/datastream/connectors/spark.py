"""A sink that uses Spark's writers, and the conversion of Spark schemas to ``Types``."""

from __future__ import annotations

from tidemill.connectors.spark import (
    SparkSink,
    SparkSinkBuilder,
    type_info_of,
)

__all__ = [
    "SparkSink",
    "SparkSinkBuilder",
    "type_info_of",
]
