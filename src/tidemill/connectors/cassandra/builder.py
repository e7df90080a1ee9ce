"""The Cassandra sink as PyFlink builds it: from a stream."""

from __future__ import annotations

import dataclasses
from typing import Any, Final

from tidemill.common.time import Duration
from tidemill.connectors.cassandra.cluster import ClusterBuilder, HostBuilder
from tidemill.connectors.cassandra.options import CassandraCommitter, CassandraFailureHandler, MapperOptions
from tidemill.connectors.cassandra.sinks import LoggedStatementSink, StatementSink
from tidemill.connectors.cassandra.statements import WriteOptions
from tidemill.errors import ConfigurationError

__all__ = ["CassandraSink"]

_PORT: Final = 9042


class CassandraSink:
    """A stream that ends in Cassandra; created with :meth:`add_sink`.

    >>> from tidemill.datastream import StreamExecutionEnvironment
    >>> env = StreamExecutionEnvironment.get_execution_environment()
    >>> sink = (
    ...     CassandraSink.add_sink(env.from_collection([("Ada", 3)]))
    ...     .set_query("INSERT INTO shop.orders (customer, number) VALUES (?, ?)")
    ...     .set_host("localhost")
    ...     .build()
    ...     .name("orders")
    ... )
    """

    def __init__(self, sink: Any) -> None:
        self._sink = sink

    @staticmethod
    def add_sink(input: Any) -> CassandraSink.CassandraSinkBuilder:  # noqa: A002 - PyFlink's name
        """Start building a sink for a stream of tuples, rows, dataclasses or dictionaries."""
        return CassandraSink.CassandraSinkBuilder(input)

    def name(self, name: str) -> CassandraSink:
        """Set the name of the sink."""
        self._sink.name(name)
        return self

    def uid(self, uid: str) -> CassandraSink:
        """Set the id of the sink, which must not change between runs of the job."""
        self._sink.uid(uid)
        return self

    def set_uid_hash(self, uid_hash: str) -> CassandraSink:
        """Set the id of the sink in the form in which it is stored."""
        self._sink.set_uid_hash(uid_hash)
        return self

    def set_parallelism(self, parallelism: int) -> CassandraSink:
        """Set the number of subtasks."""
        self._sink.set_parallelism(parallelism)
        return self

    def disable_chaining(self) -> CassandraSink:
        """Separate the sink from its input."""
        self._sink.disable_chaining()
        return self

    def slot_sharing_group(self, slot_sharing_group: str) -> CassandraSink:
        """Set the slot sharing group."""
        self._sink.slot_sharing_group(slot_sharing_group)
        return self

    class CassandraSinkBuilder:
        """Builds a :class:`CassandraSink`: a query, and a host or a cluster builder, are required."""

        def __init__(self, stream: Any) -> None:
            self._stream = stream
            self._builder: ClusterBuilder | None = None
            self._query = ""
            self._settings: dict[str, Any] = {}
            self._logged = False
            self._committer: CassandraCommitter | None = None

        def set_query(self, query: str) -> CassandraSink.CassandraSinkBuilder:
            """Set the statement for each record, whose fields replace the placeholders ``?``, in order.

            For dictionaries the names of columns, or placeholders ``:name``, select the values.
            """
            self._query = query
            return self

        def set_default_key_space(self, key_space: str) -> CassandraSink.CassandraSinkBuilder:
            """Set the keyspace of tables that the query names without one."""
            return self._set(key_space=key_space)

        def set_host(self, host: str, port: int = _PORT) -> CassandraSink.CassandraSinkBuilder:
            """Set one node of the cluster, from which the others are found."""
            self._builder = HostBuilder(host, port)
            return self

        def set_cluster_builder(self, builder: ClusterBuilder) -> CassandraSink.CassandraSinkBuilder:
            """Set how to connect."""
            if not isinstance(builder, ClusterBuilder):
                raise TypeError(f"a ClusterBuilder is needed, not {type(builder).__name__}")
            self._builder = builder
            return self

        def enable_write_ahead_log(
            self, committer: CassandraCommitter | None = None
        ) -> CassandraSink.CassandraSinkBuilder:
            """Write records after their epoch is committed; the committer says where the last epoch is noted."""
            self._logged, self._committer = True, committer
            return self

        def set_mapper_options(self, options: MapperOptions) -> CassandraSink.CassandraSinkBuilder:
            """Set the consistency level of writes; other options have no effect."""
            if not isinstance(options, MapperOptions):
                raise TypeError(f"MapperOptions are needed, not {type(options).__name__}")
            return self._set(level=options.level)

        def set_failure_handler(self, failure_handler: CassandraFailureHandler) -> CassandraSink.CassandraSinkBuilder:
            """Set what happens when a record cannot be written."""
            if not isinstance(failure_handler, CassandraFailureHandler):
                raise TypeError(f"a CassandraFailureHandler is needed, not {type(failure_handler).__name__}")
            return self._set(handler=failure_handler)

        def set_max_concurrent_requests(
            self, max_concurrent_requests: int, duration: Duration | None = None
        ) -> CassandraSink.CassandraSinkBuilder:
            """Set the maximum number of requests in flight for each subtask, and how long one may take."""
            if max_concurrent_requests < 1:
                raise ConfigurationError(f"at least one request must be allowed, not {max_concurrent_requests}")
            if duration is not None:
                self._set(timeout=duration.to_millis() / 1000)
            return self._set(max_requests=max_concurrent_requests)

        def enable_ignore_null_fields(self) -> CassandraSink.CassandraSinkBuilder:
            """Leave columns as they are whose value is None, instead of deleting their values."""
            return self._set(ignore_nulls=True)

        def build(self) -> CassandraSink:
            """Add the sink to the stream. Raises :class:`ConfigurationError` if a setting is missing."""
            if not self._query.strip():
                raise ConfigurationError("a Cassandra sink needs set_query()")
            if self._builder is None:
                raise ConfigurationError("a Cassandra sink needs set_host() or set_cluster_builder()")
            options = dataclasses.replace(WriteOptions(self._builder, self._query), **self._settings)
            sink = LoggedStatementSink(options, self._committer) if self._logged else StatementSink(options)
            return CassandraSink(self._stream.sink_to(sink).name("Cassandra Sink"))

        def _set(self, **settings: Any) -> CassandraSink.CassandraSinkBuilder:
            self._settings |= settings
            return self
