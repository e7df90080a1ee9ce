"""Builders of sinks for Elasticsearch and OpenSearch, with PyFlink's methods."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, Final

from tidemill.connectors.base import DeliveryGuarantee
from tidemill.connectors.elasticsearch.actions import ElasticsearchEmitter
from tidemill.connectors.elasticsearch.options import BulkOptions, FlushBackoffType, host_of
from tidemill.connectors.elasticsearch.sink import ElasticsearchSink, OpensearchSink
from tidemill.errors import ConfigurationError
from tidemill.python_versions import Self

__all__ = [
    "Elasticsearch6SinkBuilder",
    "Elasticsearch7SinkBuilder",
    "ElasticsearchSinkBuilderBase",
    "OpensearchSinkBuilder",
]

#: The only type of documents that all versions of Elasticsearch 6 accept, and that version 7 does not complain about.
_DOC_TYPE: Final = "_doc"


class ElasticsearchSinkBuilderBase:
    """The methods of all builders; hosts and an emitter are required."""

    _system = "Elasticsearch"

    def __init__(self) -> None:
        self._options = BulkOptions(self._system, ())
        self._emitter: ElasticsearchEmitter | None = None

    def get_http_host_class(self) -> type:
        """Return the class of hosts: they are strings."""
        return str

    def set_emitter(self, emitter: ElasticsearchEmitter) -> Self:
        """Set the emitter, which converts records to documents."""
        if not isinstance(emitter, ElasticsearchEmitter):
            raise TypeError(f"an ElasticsearchEmitter is needed, not {type(emitter).__name__}")
        self._emitter = emitter
        return self

    def set_hosts(self, hosts: str | Sequence[str]) -> Self:
        """Set the nodes of the cluster: ``"host:port"`` or ``"https://host:port"``, one or a list of them."""
        return self._set(hosts=tuple(host_of(host) for host in ([hosts] if isinstance(hosts, str) else hosts)))

    def set_delivery_guarantee(self, delivery_guarantee: DeliveryGuarantee) -> Self:
        """Set the delivery guarantee: ``AT_LEAST_ONCE``, or ``NONE``, which has the same effect.

        The cluster has acknowledged all documents of an epoch before the epoch is committed, with either of them.
        """
        if not isinstance(delivery_guarantee, DeliveryGuarantee):
            raise TypeError(f"a DeliveryGuarantee is needed, not {delivery_guarantee!r}")
        if delivery_guarantee is DeliveryGuarantee.EXACTLY_ONCE:
            raise ConfigurationError(
                f"a sink for {self._system} does not support EXACTLY_ONCE: use AT_LEAST_ONCE with a key field, so that "
                "a document that is written again replaces itself"
            )
        return self

    def set_bulk_flush_max_actions(self, num_max_actions: int) -> Self:
        """Set the number of actions after which a request is sent, 1000 by default; -1 for no limit."""
        return self._set(max_actions=_limit("a number of actions", num_max_actions))

    def set_bulk_flush_max_size_mb(self, max_size_mb: int) -> Self:
        """Set the size in MB after which a request is sent; -1, the default, for no limit."""
        return self._set(max_size_mb=_limit("a size", max_size_mb))

    def set_bulk_flush_interval(self, interval_millis: int) -> Self:
        """Set the time in ms after which a request is sent; -1, the default, for no limit.

        It is checked when records arrive. All documents are written at the end of an epoch in any case.
        """
        return self._set(interval=_limit("an interval", interval_millis))

    def set_bulk_flush_backoff_strategy(
        self, flush_backoff_type: FlushBackoffType, max_retries: int, delay_millis: int
    ) -> Self:
        """Set how often, and after which delay in ms, actions are repeated that the cluster could not execute.

        These are requests that failed on the way, and actions that were rejected because the cluster is overloaded or
        not available, or because of a conflict with another writer. An action that can never succeed fails the job.
        """
        if not isinstance(flush_backoff_type, FlushBackoffType):
            raise TypeError(f"a FlushBackoffType is needed, not {flush_backoff_type!r}")
        if flush_backoff_type is not FlushBackoffType.NONE:
            _at_least(1, "a number of retries", max_retries)
            _at_least(0, "a delay", delay_millis)
        return self._set(backoff=flush_backoff_type, max_retries=max_retries, delay=delay_millis)

    def set_connection_username(self, username: str) -> Self:
        """Set the user name."""
        return self._set(username=username)

    def set_connection_password(self, password: str) -> Self:
        """Set the password; it is sent to the workers with the job, and is never displayed."""
        return self._set(password=password)

    def set_connection_path_prefix(self, prefix: str) -> Self:
        """Set the path under which the cluster is found, behind a proxy."""
        return self._set(path_prefix=f"/{prefix.strip('/')}" if prefix.strip("/") else "")

    def set_connection_request_timeout(self, timeout: int) -> Self:
        """Accepted and unused: a writer has its own connection, and never waits for one."""
        _at_least(0, "a timeout", timeout)
        return self

    def set_connection_timeout(self, timeout: int) -> Self:
        """Set how long a connection may take to be established, in ms; 1000 by default."""
        return self._set(connection_timeout=_at_least(1, "a timeout", timeout))

    def set_socket_timeout(self, timeout: int) -> Self:
        """Set how long the cluster may take to respond, in ms; 30 000 by default."""
        return self._set(socket_timeout=_at_least(1, "a timeout", timeout))

    def _set(self, **options: Any) -> Self:
        self._options = dataclasses.replace(self._options, **options)
        return self

    def _complete(self) -> tuple[ElasticsearchEmitter, BulkOptions]:
        if self._emitter is None:
            raise ConfigurationError(f"a sink for {self._system} needs set_emitter()")
        if not self._options.hosts:
            raise ConfigurationError(f"a sink for {self._system} needs set_hosts('host:port')")
        if self._options.password is not None and self._options.username is None:
            raise ConfigurationError("set_connection_password() needs set_connection_username()")
        return self._emitter, self._options


class Elasticsearch6SinkBuilder(ElasticsearchSinkBuilderBase):
    """Builds a sink for Elasticsearch 6, whose documents have a type: ``_doc``, unless the emitter names another.

    >>> sink = (
    ...     Elasticsearch6SinkBuilder()
    ...     .set_hosts("localhost:9200")
    ...     .set_emitter(ElasticsearchEmitter.static_index("users"))
    ...     .build()
    ... )
    >>> sink
    ElasticsearchSink(at-least-once, ElasticsearchEmitter(index 'users') of Elasticsearch at http://localhost:9200)
    """

    def build(self) -> ElasticsearchSink:
        """Build the sink. Raises :class:`ConfigurationError` if a setting is missing."""
        emitter, options = self._complete()
        return ElasticsearchSink(emitter.with_doc_type(_DOC_TYPE), options)


class Elasticsearch7SinkBuilder(ElasticsearchSinkBuilderBase):
    """Builds a sink for Elasticsearch 7 and later.

    >>> sink = (
    ...     Elasticsearch7SinkBuilder()
    ...     .set_hosts(["http://one:9200", "http://two:9200"])
    ...     .set_emitter(ElasticsearchEmitter.dynamic_index("kind", key_field="id"))
    ...     .set_bulk_flush_backoff_strategy(FlushBackoffType.EXPONENTIAL, 5, 1000)
    ...     .build()
    ... )
    >>> sink.guarantee
    'effectively-once'
    """

    def build(self) -> ElasticsearchSink:
        """Build the sink. Raises :class:`ConfigurationError` if a setting is missing."""
        return ElasticsearchSink(*self._complete())


class OpensearchSinkBuilder(ElasticsearchSinkBuilderBase):
    """Builds a sink for OpenSearch; the methods have the names of Flink's class.

    >>> sink = (
    ...     OpensearchSinkBuilder()
    ...     .set_hosts("https://localhost:9200")
    ...     .set_emitter(ElasticsearchEmitter.static_index("users", key_field="id"))
    ...     .set_connection_username("shop")
    ...     .set_connection_password("sesame")
    ...     .build()
    ... )
    >>> sink.guarantee
    'effectively-once'
    """

    _system = "OpenSearch"

    def build(self) -> OpensearchSink:
        """Build the sink. Raises :class:`ConfigurationError` if a setting is missing."""
        return OpensearchSink(*self._complete())


def _limit(what: str, value: int) -> int:
    if value == -1:
        return value
    return _at_least(1, what, value)


def _at_least(least: int, what: str, value: int) -> int:
    if value < least:
        raise ConfigurationError(f"{what} must be an integer of at least {least}, not {value!r}")
    return value
