"""Database sinks, with PyFlink's interface.

Records are written in batches while the epoch runs, each batch in one transaction, and all of them before the epoch is
committed. After a failure an epoch is written again, so a plain statement takes effect at least once. An upsert created
with :meth:`JdbcSink.upsert` overwrites what it wrote before: once the job has caught up, each row is as if it had been
written once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tidemill.common.typeinfo import TypeInformation
from tidemill.connectors.jdbc.batches import BatchBuffer, Rows, binder_of, pause, write_batch
from tidemill.connectors.jdbc.binding import fields_of_type
from tidemill.connectors.jdbc.database import Database, DatabaseSession, DatabaseTrouble
from tidemill.connectors.jdbc.databases import database_of
from tidemill.connectors.jdbc.exactly_once import JdbcExactlyOnceSink
from tidemill.connectors.jdbc.options import (
    JdbcConnectionOptions,
    JdbcExactlyOnceOptions,
    JdbcExecutionOptions,
    built,
)
from tidemill.connectors.jdbc.sql import Statement, upsert_sql
from tidemill.connectors.sinks import Committed, Committer, CommitterContext, Sink, SinkWriter, WriterContext
from tidemill.errors import ConfigurationError, ConnectorError

__all__ = ["JdbcSink"]


@dataclass(frozen=True)
class _Upsert:
    """The table of an upsert, with its columns and key columns."""

    table: str
    columns: tuple[str, ...]
    key_columns: tuple[str, ...]


class JdbcSink(Sink):
    """Writes each record with an SQL statement; created with :meth:`sink`, :meth:`upsert` or :meth:`exactly_once_sink`.

    >>> from tidemill.common import Types
    >>> options = JdbcConnectionOptions.JdbcConnectionOptionsBuilder().with_url("jdbc:sqlite:/data/shop.db").build()
    >>> words = Types.ROW_NAMED(["word", "count"], [Types.STRING(), Types.LONG()])
    >>> JdbcSink.sink("INSERT INTO words VALUES (?, ?)", words, options).guarantee
    'at-least-once'
    >>> JdbcSink.upsert("words", ["word"], words, options).guarantee
    'effectively-once'
    """

    def __init__(
        self,
        database: Database,
        statement: Statement,
        type_info: TypeInformation,
        execution: JdbcExecutionOptions,
        upsert: _Upsert | None = None,
    ) -> None:
        binder_of(database, statement, type_info)
        self.guarantee = "at-least-once" if upsert is None else "effectively-once"
        self._database = database
        self._statement = statement
        self._type_info = type_info
        self._execution = execution
        self._upsert = upsert

    @staticmethod
    def sink(
        sql: str,
        type_info: TypeInformation,
        jdbc_connection_options: JdbcConnectionOptions,
        jdbc_execution_options: JdbcExecutionOptions | None = None,
    ) -> JdbcSink:
        """Run a statement for each record, at least once. The record's fields replace the placeholders ``?``."""
        database = database_of(jdbc_connection_options)
        execution = built(jdbc_execution_options or JdbcExecutionOptions.defaults(), JdbcExecutionOptions, "a sink")
        return JdbcSink(database, Statement.of(sql, database.kind), type_info, execution)

    @staticmethod
    def upsert(
        table: str,
        key_columns: Sequence[str],
        type_info: TypeInformation,
        jdbc_connection_options: JdbcConnectionOptions,
        jdbc_execution_options: JdbcExecutionOptions | None = None,
    ) -> JdbcSink:
        """Insert each record, or overwrite the row with the same key. The record's field names are the columns.

        When the job starts, the table must have these columns, and a primary key or unique index on the key columns.
        Key the stream by the same columns, so that the records of a row are written in order.
        """
        names, _ = fields_of_type(type_info)
        database = database_of(jdbc_connection_options)
        upsert = _Upsert(table, tuple(names), tuple(key_columns))
        statement = Statement.of(upsert_sql(table, names, key_columns, database.kind), database.kind)
        execution = built(jdbc_execution_options or JdbcExecutionOptions.defaults(), JdbcExecutionOptions, "a sink")
        return JdbcSink(database, statement, type_info, execution, upsert)

    @staticmethod
    def exactly_once_sink(
        sql: str,
        type_info: TypeInformation,
        jdbc_connection_options: JdbcConnectionOptions,
        jdbc_execution_options: JdbcExecutionOptions | None = None,
        jdbc_exactly_once_options: JdbcExactlyOnceOptions | None = None,
    ) -> JdbcExactlyOnceSink:
        """As :meth:`sink`, but exactly-once, and visible when the epoch is committed; PostgreSQL only."""
        return JdbcExactlyOnceSink(
            sql,
            type_info,
            jdbc_connection_options,
            built(jdbc_execution_options or JdbcExecutionOptions.defaults(), JdbcExecutionOptions, "a sink"),
            built(jdbc_exactly_once_options or JdbcExactlyOnceOptions.defaults(), JdbcExactlyOnceOptions, "a sink"),
        )

    def create_writer(self, subtask: int, parallelism: int) -> SinkWriter:
        """Create a writer with its own connection."""
        return _JdbcWriter(self._database, self._statement, self._type_info, self._execution)

    def create_committer(self) -> Committer:
        """Create a committer that commits nothing, but checks the database when the job starts."""
        return _StartCheck(self._database, self._upsert)


class _JdbcWriter(SinkWriter):
    def __init__(
        self, database: Database, statement: Statement, type_info: TypeInformation, execution: JdbcExecutionOptions
    ) -> None:
        # configuration
        self._database = database
        self._statement = statement
        self._max_retries = execution.max_retries
        # transient
        self._buffer = BatchBuffer(binder_of(database, statement, type_info), execution, self._write)
        self._session: DatabaseSession | None = None

    def begin_epoch(self, context: WriterContext) -> None:
        self._buffer.clear()

    def write(self, values: list[Any], timestamps: list[int] | None) -> None:
        self._buffer.add(values)

    def prepare_commit(self) -> Sequence[bytes]:
        self._buffer.flush()
        return ()

    def close(self) -> None:
        if self._session is not None:
            self._session.close()
            self._session = None

    def _write(self, rows: Rows, records: Sequence[Any]) -> None:
        tries = 0
        while True:
            try:
                if self._session is None:
                    self._session = self._database.connect()
                write_batch(self._database, self._session, self._statement, rows, records)
            except self._database.failures as error:
                # A failed connection is retried, a rejected record is not.
                trouble = DatabaseTrouble.LOST if self._session is None else self._database.trouble(error)
                if trouble is DatabaseTrouble.LASTING:
                    raise
                if trouble is DatabaseTrouble.LOST:
                    self.close()
                if tries == self._max_retries:
                    raise self._given_up(error, tries) from None
                pause(tries)
                tries += 1
            else:
                return

    def _given_up(self, error: Exception, tries: int) -> ConnectorError:
        if isinstance(error, ConnectorError):
            return ConnectorError(f"{error} (tried {tries + 1} times)")
        failed = self._database.failed(error, self._statement)
        return ConnectorError(f"{failed} (tried {tries + 1} times)")


class _StartCheck(Committer):
    """Checks before the job runs that the database is reachable, and that the table exists."""

    def __init__(self, database: Database, upsert: _Upsert | None) -> None:
        self._database = database
        self._upsert = upsert

    def open(self, context: CommitterContext) -> None:
        session = self._database.connect()
        try:
            if self._upsert is not None:
                check_table(self._database, session, self._upsert)
        finally:
            session.close()

    def commit(self, committed: Sequence[Committed]) -> None:
        raise AssertionError("writers of this sink produce no committables")


def check_table(database: Database, session: DatabaseSession, upsert: _Upsert) -> None:
    """Raise :class:`ConfigurationError` if the table does not support upserts by its key."""
    where = f"table {upsert.table!r} of {database.shown}"
    columns = database.columns_of(session, upsert.table)
    if not columns:
        raise ConfigurationError(f"there is no {where}: create it, with {', '.join(upsert.key_columns)} as its key")
    missing = [column for column in upsert.columns if column not in columns]
    if missing:
        keys = [column for column in missing if column in upsert.key_columns]
        what = f"no key column {', '.join(keys)}" if keys else f"no column {', '.join(missing)}"
        raise ConfigurationError(f"{where} has {what}; its columns are {', '.join(columns)}")
    if not database.has_unique_index(session, upsert.table, upsert.key_columns):
        keys_of = ", ".join(upsert.key_columns)
        raise ConfigurationError(
            f"{where} has neither a primary key nor a unique index of exactly ({keys_of}), which is needed to find the "
            f"row that a record replaces: create a unique index on ({keys_of})"
        )
