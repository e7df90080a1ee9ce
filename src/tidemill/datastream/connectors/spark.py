"""Spark's own writers as a sink, and how Spark's schemas and ``Types`` stand for each other."""

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
