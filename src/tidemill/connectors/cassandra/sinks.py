"""Sinks that execute a statement for each record: as records come, or after their epoch is committed."""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Sequence
from typing import Any, Final

from tidemill.connectors.cassandra.options import CassandraCommitter
from tidemill.connectors.cassandra.statements import Statements, WriteOptions
from tidemill.connectors.sinks import Sink, SinkWriter
from tidemill.connectors.write_ahead_log import Delivery, Destination, DestinationContext, Mark, WriteAheadLogSink
from tidemill.datastream.functions.base import RuntimeContext
from tidemill.errors import ConnectorError

__all__ = ["LoggedStatementSink", "StatementSink"]

_TABLE: Final = "tidemill_epochs"


class StatementSink(Sink):
    """Writes records while the epoch runs, which is committed only after Cassandra has acknowledged all of them."""

    guarantee = "at-least-once"

    def __init__(self, options: WriteOptions) -> None:
        self._options = options

    def create_writer(self, subtask: int, parallelism: int) -> SinkWriter:
        """Create a writer with its own session."""
        return _StatementWriter(self._options)

    def __repr__(self) -> str:
        return f"CassandraSink({self._options.builder.shown}, {self._options.query})"


class _StatementWriter(SinkWriter):
    def __init__(self, options: WriteOptions) -> None:
        self._options = options
        self._statements: Statements | None = None

    def open(self, runtime_context: RuntimeContext) -> None:
        self._statements = Statements(self._options)

    def write(self, values: list[Any], timestamps: list[int] | None) -> None:
        if self._statements is None:
            raise RuntimeError("open() must be called before the first record")
        self._statements.write(values)

    def close(self) -> None:
        if self._statements is not None:
            self._statements.close()
            self._statements = None


class LoggedStatementSink(WriteAheadLogSink):
    """Writes records after their epoch is committed, from a log.

    A delivery that is repeated writes the same records with the same timestamps. For statements that set values it
    therefore has no effect, even if records of later epochs have been written in the meantime.
    """

    guarantee = "effectively-once"

    def __init__(self, options: WriteOptions, committer: CassandraCommitter | None) -> None:
        self._options = options
        self._committer = committer or CassandraCommitter(options.builder)

    def create_destination(self) -> Destination:
        """Create the destination that executes the statements."""
        return _StatementDestination(self._options, self._committer)

    def __repr__(self) -> str:
        return f"CassandraSink({self._options.builder.shown}, {self._options.query}, write-ahead log)"


class _StatementDestination(Destination):
    def __init__(self, options: WriteOptions, committer: CassandraCommitter) -> None:
        # configuration
        self._options = options
        self._committer = committer
        self._place = f"{committer.key_space}.{_TABLE}"
        # transient
        self._statements: Statements | None = None
        self._cluster: Any = None
        self._session: Any = None

    def open(self, context: DestinationContext) -> None:
        self._statements = Statements(self._options)
        self._cluster, self._session = self._committer.builder.connect(None)
        replication = "{'class': 'SimpleStrategy', 'replication_factor': 1}"
        self._run(f"CREATE KEYSPACE IF NOT EXISTS {self._committer.key_space} WITH replication = {replication}")
        self._run(f"CREATE TABLE IF NOT EXISTS {self._place} (sink text PRIMARY KEY, mark text)")

    def deliver(self, delivery: Delivery) -> None:
        if self._statements is None:
            raise RuntimeError("open() must be called before the first delivery")
        name = f"{delivery.job_id}/{delivery.operator_uid}/{delivery.subtask}/{delivery.mark.history}"
        found = self._run(f"SELECT mark FROM {self._place} WHERE sink = %s", (name,)).one()  # noqa: S608 - not a value
        if delivery.covered_by(None if found is None else Mark.from_text(found.mark)):
            return
        ticks = itertools.count(delivery.written_at * 1000)
        for batch in delivery.batches():
            self._statements.write(_unpickled(batch), lambda: next(ticks))
        self._run(f"INSERT INTO {self._place} (sink, mark) VALUES (%s, %s)", (name, delivery.mark.to_text()))  # noqa: S608

    def close(self) -> None:
        if self._statements is not None:
            self._statements.close()
        if self._cluster is not None:
            self._cluster.shutdown()

    def _run(self, statement: str, values: Sequence[Any] = ()) -> Any:
        try:
            return self._session.execute(statement, values or None, timeout=self._options.timeout)
        except Exception as error:
            raise ConnectorError(
                f"{self._committer.builder.shown}: {type(error).__name__}: {error}\n  statement: {statement}"
            ) from None


def _unpickled(batch: bytes) -> list[Any]:
    records: list[Any] = pickle.loads(batch)
    return records
