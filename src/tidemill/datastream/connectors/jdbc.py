"""Database sources and sinks, under PyFlink's path. PostgreSQL needs the extra ``tidemill[postgres]``."""

from __future__ import annotations

from tidemill.connectors.jdbc import (
    JdbcConnectionOptions,
    JdbcExactlyOnceOptions,
    JdbcExactlyOnceSink,
    JdbcExecutionOptions,
    JdbcSink,
    JdbcSource,
    JdbcSourceBuilder,
)

__all__ = [
    "JdbcConnectionOptions",
    "JdbcExactlyOnceOptions",
    "JdbcExactlyOnceSink",
    "JdbcExecutionOptions",
    "JdbcSink",
    "JdbcSource",
    "JdbcSourceBuilder",
]
