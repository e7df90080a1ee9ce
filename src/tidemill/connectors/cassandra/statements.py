"""Executes one prepared statement for many records, in their order, with several requests in flight."""

from __future__ import annotations

import dataclasses
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tidemill.common.types import Row
from tidemill.connectors.cassandra.cluster import ClusterBuilder, cassandra_library
from tidemill.connectors.cassandra.options import CassandraFailureHandler, ConsistencyLevel
from tidemill.errors import ConnectorError, TypeMismatchError

__all__ = ["Statements", "WriteOptions"]

#: How often records are written again after a failure that may pass, and the pauses in between, in seconds.
_RETRIES: Final = 4
_PAUSES: Final = (0.1, 0.5, 2.0, 5.0)
#: The maximum length of a record in messages.
_SHOWN: Final = 300


@dataclass(frozen=True)
class WriteOptions:
    """How records are written. ``timeout`` is in seconds."""

    builder: ClusterBuilder
    query: str
    key_space: str | None = None
    level: ConsistencyLevel | None = None
    ignore_nulls: bool = False
    #: Enough to keep a node busy; the client library multiplexes them over its connections.
    max_requests: int = 256
    timeout: float = 60.0
    handler: CassandraFailureHandler = dataclasses.field(default_factory=CassandraFailureHandler.no_op)


class Statements:
    """A session with a prepared statement.

    Requests are sent from one thread, in the order of the records, each with a later timestamp than the one before.
    Cassandra keeps the write with the latest timestamp, so the last record with a key wins.
    """

    def __init__(self, options: WriteOptions) -> None:
        self._options = options
        self._cluster, self._session = options.builder.connect(options.key_space)
        library = cassandra_library("cassandra")
        failures = cassandra_library("cassandra.cluster")
        self._passing = (
            library.Timeout,
            library.Unavailable,
            library.OperationTimedOut,
            failures.NoHostAvailable,
            cassandra_library("cassandra.protocol").OverloadedErrorMessage,
            cassandra_library("cassandra.protocol").IsBootstrappingErrorMessage,
            cassandra_library("cassandra.connection").ConnectionException,
        )
        self._unset = cassandra_library("cassandra.query").UNSET_VALUE
        try:
            self._statement = self._session.prepare(options.query)
        except Exception as error:
            self.close()
            raise ConnectorError(
                f"{options.builder.shown} rejected the query: {error}\n  query: {options.query}"
            ) from None
        if options.level is not None:
            self._statement.consistency_level = getattr(library.ConsistencyLevel, options.level.name)

    @property
    def session(self) -> Any:
        """The session, for other statements."""
        return self._session

    def write(self, records: Sequence[Any], timestamp: Callable[[], int] | None = None) -> None:
        """Write records, and return when all of them are acknowledged.

        After a failure that may pass, the record and all later ones are written again. ``timestamp`` replaces the
        client's own timestamps, in µs.
        """
        if timestamp is not None:
            self._session.timestamp_generator = timestamp
        tries = 0
        done = 0
        while done < len(records):
            failed = self._try(records, done)
            if failed is None:
                return
            place, error = failed
            if isinstance(error, self._passing) and tries < _RETRIES:
                if place > done:
                    tries = 0
                done = place
                time.sleep(_PAUSES[tries])
                tries += 1
                continue
            self._options.handler.on_failure(self._failed(error, records[place], tries))
            done, tries = place + 1, 0

    def close(self) -> None:
        """Close the session and all connections."""
        self._cluster.shutdown()

    def _try(self, records: Sequence[Any], start: int) -> tuple[int, Exception] | None:
        """Write records from a place on; returns the first that failed, with the error."""
        waiting: deque[tuple[int, Any]] = deque()
        failed: tuple[int, Exception] | None = None
        for place in range(start, len(records)):
            bound = self._bound(records[place])
            waiting.append((place, self._session.execute_async(bound, timeout=self._options.timeout)))
            if len(waiting) >= self._options.max_requests:
                failed = self._await(waiting)
                if failed is not None:
                    break
        while waiting:  # all of them, so that none is in flight when records are written again
            failed = self._await(waiting, failed)
        return failed

    def _await(
        self, waiting: deque[tuple[int, Any]], failed: tuple[int, Exception] | None = None
    ) -> tuple[int, Exception] | None:
        place, future = waiting.popleft()
        try:
            future.result()
        except Exception as error:
            return failed or (place, error)
        return failed

    def _bound(self, record: Any) -> Any:
        values = _values(record)
        if self._options.ignore_nulls:
            if isinstance(values, Mapping):
                values = {name: self._unset if value is None else value for name, value in values.items()}
            else:
                values = [self._unset if value is None else value for value in values]
        try:
            return self._statement.bind(values)
        except Exception as error:
            raise TypeMismatchError(
                f"a record does not match the query: {error}\n  query: {self._options.query}\n"
                f"  record: {_shown(record)}"
            ) from None

    def _failed(self, error: Exception, record: Any, tries: int) -> ConnectorError:
        told = f" (tried {tries + 1} times)" if tries else ""
        return ConnectorError(
            f"{self._options.builder.shown} did not write a record: {type(error).__name__}: {error}{told}\n"
            f"  query: {self._options.query}\n  record: {_shown(record)}"
        )


def _values(record: Any) -> Sequence[Any] | Mapping[str, Any]:
    """Return the fields of a record in their order; of a dictionary by name."""
    if isinstance(record, (tuple, list, Mapping)):
        return record
    if isinstance(record, Row):
        return list(record)
    if dataclasses.is_dataclass(record) and not isinstance(record, type):
        return [getattr(record, field.name) for field in dataclasses.fields(record)]
    raise TypeMismatchError(f"a record with fields is needed, not {_shown(record)}: map the stream to tuples or rows")


def _shown(record: Any) -> str:
    text = repr(record)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
