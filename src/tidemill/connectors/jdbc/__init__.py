"""Database sinks and sources, under PyFlink's import path. PostgreSQL requires the extra ``tidemill[postgres]``."""

from __future__ import annotations

from tidemill.connectors.jdbc.exactly_once import JdbcExactlyOnceSink
from tidemill.connectors.jdbc.options import (
    JdbcConnectionOptions,
    JdbcExactlyOnceOptions,
    JdbcExecutionOptions,
)
from tidemill.connectors.jdbc.sink import JdbcSink
from tidemill.connectors.jdbc.source import JdbcSource, JdbcSourceBuilder

__all__ = [
    "JdbcConnectionOptions",
    "JdbcExactlyOnceOptions",
    "JdbcExactlyOnceSink",
    "JdbcExecutionOptions",
    "JdbcSink",
    "JdbcSource",
    "JdbcSourceBuilder",
]
