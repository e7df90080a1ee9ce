"""Database sources and sinks, with PyFlink's class names. PostgreSQL requires the extra ``tidemill[postgres]``.

Start with ``sink.py`` or ``source.py``; ``exactly_once.py`` is the sink with prepared transactions. ``database.py`` is
the interface to a database, which ``postgres.py`` and ``sqlite.py`` implement. Workers read and write without Spark, so
there is nothing for databases in ``tidemill.spark``. This is not PyFlink's import path: programs use
``tidemill.datastream.connectors.jdbc``.
"""

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
