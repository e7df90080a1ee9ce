"""Options of the Cassandra sink, with PyFlink's class names."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidemill.connectors.cassandra.cluster import ClusterBuilder

__all__ = ["CassandraCommitter", "CassandraFailureHandler", "ConsistencyLevel", "MapperOptions"]


class ConsistencyLevel(enum.Enum):
    """How many replicas must acknowledge a write."""

    ANY = 0
    ONE = 1
    TWO = 2
    THREE = 3
    QUORUM = 4
    ALL = 5
    LOCAL_QUORUM = 6
    EACH_QUORUM = 7
    SERIAL = 8
    LOCAL_SERIAL = 9
    LOCAL_ONE = 10


class MapperOptions:
    """Options of writes. Only the consistency level has an effect.

    In Flink all of these options apply to Java objects only, which a stream in Python does not contain. A time to live
    or a timestamp can be part of the query: ``INSERT INTO ... VALUES (...) USING TTL 3600``.

    >>> MapperOptions().ttl(1800).consistency_level(ConsistencyLevel.QUORUM).level
    <ConsistencyLevel.QUORUM: 4>
    """

    def __init__(self) -> None:
        self.level: ConsistencyLevel | None = None

    @staticmethod
    def simple_mapper_options() -> MapperOptions:
        """Return new options."""
        return MapperOptions()

    def ttl(self, ttl: int) -> MapperOptions:
        """Accepted and unused."""
        return self

    def timestamp(self, timestamp: int) -> MapperOptions:
        """Accepted and unused."""
        return self

    def consistency_level(self, cl: ConsistencyLevel) -> MapperOptions:
        """Set how many replicas must acknowledge a write."""
        if not isinstance(cl, ConsistencyLevel):
            raise TypeError(f"a ConsistencyLevel is needed, not {cl!r}")
        self.level = cl
        return self

    def tracing(self, enabled: bool) -> MapperOptions:
        """Accepted and unused."""
        return self

    def save_null_fields(self, enabled: bool) -> MapperOptions:
        """Accepted and unused: see ``enable_ignore_null_fields()`` of the builder."""
        return self

    def if_not_exists(self, enabled: bool) -> MapperOptions:
        """Accepted and unused."""
        return self


class CassandraFailureHandler:
    """Decides what happens when a record cannot be written: by default the job fails.

    A function of the exception can be used instead. If it does not raise, the record is dropped.
    """

    def __init__(self, on_failure: Callable[[Exception], None] | None = None) -> None:
        self._on_failure = on_failure

    @staticmethod
    def no_op() -> CassandraFailureHandler:
        """Let the job fail."""
        return CassandraFailureHandler()

    @staticmethod
    def default_failure_handler() -> CassandraFailureHandler:
        """Older name of :meth:`no_op`."""
        return CassandraFailureHandler()

    def on_failure(self, error: Exception) -> None:
        """Raise an exception to fail the job."""
        if self._on_failure is None:
            raise error
        self._on_failure(error)


class CassandraCommitter:
    """Where a sink with a write-ahead log stores which epochs it has written."""

    def __init__(self, builder: ClusterBuilder, key_space: str | None = None) -> None:
        self.builder = builder
        self.key_space = key_space or "flink_auxiliary"

    @staticmethod
    def default_checkpoint_committer(builder: ClusterBuilder, key_space: str | None = None) -> CassandraCommitter:
        """Store it in a table of a keyspace, by default ``flink_auxiliary``; both are created if necessary."""
        return CassandraCommitter(builder, key_space)
