"""How to connect to Cassandra.

The client library is ``cassandra-driver`` (``pip install 'tidemill[cassandra]'``). It is imported only when it is used.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from tidemill.connectors.client_library import client_library
from tidemill.errors import ConfigurationError, ConnectorError

__all__ = ["ClusterBuilder", "cassandra_library"]

_CONNECT_SECONDS: Final = 30


class ClusterBuilder:
    """Creates the cluster object of the client library; pass a function that does, or override :meth:`build_cluster`.

    >>> def cluster():
    ...     from cassandra.auth import PlainTextAuthProvider
    ...     from cassandra.cluster import Cluster
    ...
    ...     return Cluster(["db-1", "db-2"], auth_provider=PlainTextAuthProvider("shop", "sesame"))
    >>> builder = ClusterBuilder(cluster)
    """

    def __init__(self, build: Callable[[], Any] | None = None) -> None:
        if build is not None and not callable(build):
            raise ConfigurationError(
                f"a ClusterBuilder needs a function that returns a cassandra.cluster.Cluster, not {build!r}"
            )
        self._build = build

    def build_cluster(self) -> Any:
        """Return a new ``cassandra.cluster.Cluster``."""
        if self._build is None:
            raise ConfigurationError("a ClusterBuilder needs a function, or must override build_cluster()")
        return self._build()

    @property
    def shown(self) -> str:
        """The address for messages."""
        return "Cassandra"

    def connect(self, keyspace: str | None) -> tuple[Any, Any]:
        """Return a cluster and a session. Raises :class:`ConnectorError` if no node can be reached."""
        cassandra_library("cassandra")
        failures = cassandra_library("cassandra.cluster").NoHostAvailable
        driver = cassandra_library("cassandra").DriverException
        cluster = self.build_cluster()
        try:
            return cluster, cluster.connect(keyspace)
        except (failures, driver, cassandra_library("cassandra").RequestExecutionException) as error:
            cluster.shutdown()
            raise ConnectorError(f"cannot connect to {self.shown}: {error}") from None
        except cassandra_library("cassandra").InvalidRequest as error:
            cluster.shutdown()
            raise ConnectorError(f"{self.shown}: keyspace {keyspace!r} cannot be used: {error}") from None


class HostBuilder(ClusterBuilder):
    """A cluster that one of its nodes is enough to find."""

    def __init__(self, host: str, port: int) -> None:
        super().__init__()
        self._host = host
        self._port = port

    def build_cluster(self) -> Any:
        cluster = cassandra_library("cassandra.cluster")
        profile = cluster.ExecutionProfile(
            load_balancing_policy=cassandra_library("cassandra.policies").TokenAwarePolicy(
                cassandra_library("cassandra.policies").DCAwareRoundRobinPolicy()
            )
        )
        return cluster.Cluster(
            [self._host],
            port=self._port,
            connect_timeout=_CONNECT_SECONDS,
            control_connection_timeout=_CONNECT_SECONDS,
            execution_profiles={cluster.EXEC_PROFILE_DEFAULT: profile},
        )

    @property
    def shown(self) -> str:
        return f"Cassandra at {self._host}:{self._port}"


def cassandra_library(module: str) -> Any:
    """Return a module of the client library. Raises :class:`ConfigurationError` if it is missing."""
    return client_library(module, "cassandra-driver", "cassandra", "writing to Cassandra")
