"""Cassandra sink, under PyFlink's path. It needs the extra ``tidemill[cassandra]``."""

from __future__ import annotations

from tidemill.connectors.cassandra import (
    CassandraCommitter,
    CassandraFailureHandler,
    CassandraSink,
    ClusterBuilder,
    ConsistencyLevel,
    MapperOptions,
)
from tidemill.lazy_names import PYTHON_NAMES, names_elsewhere

__all__ = [
    "CassandraCommitter",
    "CassandraFailureHandler",
    "CassandraSink",
    "ClusterBuilder",
    "ConsistencyLevel",
    "MapperOptions",
]

__getattr__ = names_elsewhere(
    __name__,
    {
        **PYTHON_NAMES,
        "Duration": "tidemill.common.time",
    },
)
