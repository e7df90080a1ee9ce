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
from tidemill.lazy_names import PYTHON_NAMES, names_elsewhere

__all__ = [
    "JdbcConnectionOptions",
    "JdbcExactlyOnceOptions",
    "JdbcExactlyOnceSink",
    "JdbcExecutionOptions",
    "JdbcSink",
    "JdbcSource",
    "JdbcSourceBuilder",
]

__getattr__ = names_elsewhere(
    __name__,
    {
        **PYTHON_NAMES,
        "RowTypeInfo": "tidemill.common.typeinfo",
        "SinkFunction": "tidemill.datastream.functions",
        "typeinfo": "tidemill.common.typeinfo",
    },
)
