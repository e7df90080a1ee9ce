"""The Cassandra sink, with PyFlink's class names. It needs the extra ``tidemill[cassandra]``.

Start with ``builder.py``. ``sinks.py`` has the sinks, ``statements.py`` executes statements, and ``cluster.py``
describes how to connect. This is not PyFlink's import path: programs use ``tidemill.datastream.connectors.cassandra``.
"""

from __future__ import annotations

from tidemill.connectors.cassandra.builder import CassandraSink
from tidemill.connectors.cassandra.cluster import ClusterBuilder
from tidemill.connectors.cassandra.options import (
    CassandraCommitter,
    CassandraFailureHandler,
    ConsistencyLevel,
    MapperOptions,
)

__all__ = [
    "CassandraCommitter",
    "CassandraFailureHandler",
    "CassandraSink",
    "ClusterBuilder",
    "ConsistencyLevel",
    "MapperOptions",
]
