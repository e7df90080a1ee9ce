"""The exactly-once sink for PostgreSQL, with prepared transactions, which outlive their connection.

1. A writer begins a transaction with the first record of an epoch, and runs its statements in it.
2. At the barrier it records the transaction's name in a small table, in the same transaction, and lets the server
   prepare it. A prepared transaction is durable, invisible, and can be committed from any connection. The committable
   is its name.
3. After the manifest is durable, the committer commits the transaction by name, on the driver.
4. Once an epoch is committed, leftover prepared transactions of earlier epochs are rolled back, and the rows of earlier
   epochs are deleted. When a job starts, transactions that no manifest contains are rolled back too.

If the server no longer knows a transaction, it was committed if the table has a row for it, or for a later one of the
same history: results are committed in the order of epochs. Otherwise another user or program rolled it back, and the
job fails instead of losing records silently.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from tidemill.common.typeinfo import TypeInformation
from tidemill.connectors.jdbc.batches import BatchBuffer, Rows, binder_of, pause, write_batch
from tidemill.connectors.jdbc.database import DatabaseTrouble
from tidemill.connectors.jdbc.options import (
    JdbcConnectionOptions,
    JdbcExactlyOnceOptions,
    JdbcExecutionOptions,
)
from tidemill.connectors.jdbc.passwords import hide_password
from tidemill.connectors.jdbc.postgres import PostgresDatabase, PostgresSession
from tidemill.connectors.jdbc.prepared import CommitTable, TransactionName, prepared_transactions
from tidemill.connectors.jdbc.sql import Statement
from tidemill.connectors.jdbc.url import parse_url
from tidemill.connectors.sinks import Committed, Committer, CommitterContext, SinkWriter, WriterContext
from tidemill.connectors.two_phase_commit import TwoPhaseCommittingSink
from tidemill.errors import CheckpointError, ConfigurationError, ConnectorError

__all__ = ["JdbcExactlyOnceSink"]

_VERSION: Final = 1
_UNDEFINED_OBJECT: Final = "42704"
#: Also returned for a transaction that another connection is committing at this moment.
_NOT_READY: Final = "55000"
_LOCK_TIMEOUT: Final = "55P03"


class JdbcExactlyOnceSink(TwoPhaseCommittingSink):
    """Runs a statement for each record in a transaction per subtask and epoch; created with ``JdbcSink``.

    A prepared transaction keeps its locks until the epoch is committed. Two subtasks must therefore not write the same
    row: key the stream by the fields that identify a row.

    >>> from tidemill.common import Types
    >>> from tidemill.datastream.connectors.jdbc import JdbcConnectionOptions, JdbcSink
    >>> options = JdbcConnectionOptions.JdbcConnectionOptionsBuilder().with_url("jdbc:postgresql://db/shop").build()
    >>> words = Types.TUPLE([Types.STRING(), Types.LONG()])
    >>> JdbcSink.exactly_once_sink("INSERT INTO words VALUES (?, ?)", words, options).guarantee
    'exactly-once'
    """

    guarantee = "exactly-once"

    def __init__(
        self,
        sql: str,
        type_info: TypeInformation,
        connection: JdbcConnectionOptions,
        execution: JdbcExecutionOptions,
        exactly_once: JdbcExactlyOnceOptions,
    ) -> None:
        if parse_url(connection.get_db_url()).kind != PostgresDatabase.kind:
            raise ConfigurationError(
                f"{hide_password(connection.get_db_url())!r} does not support two-phase commit: only PostgreSQL "
                "can prepare transactions. Use JdbcSink.upsert() instead."
            )
        self._database = PostgresDatabase(connection)
        self._statement = Statement.of(sql, self._database.kind)
        self._type_info = type_info
        self._execution = execution
        self._options = exactly_once
        binder_of(self._database, self._statement, type_info)

    def create_writer(self, subtask: int, parallelism: int) -> SinkWriter:
        """Create a writer that prepares transactions."""
        return _PreparingWriter(self._database, self._statement, self._type_info, self._execution, self._options)

    def create_committer(self) -> Committer:
        """Create a committer that commits them by name."""
        return _PreparedCommitter(self._database, self._options)


class _PreparingWriter(SinkWriter):
    def __init__(
        self,
        database: PostgresDatabase,
        statement: Statement,
        type_info: TypeInformation,
        execution: JdbcExecutionOptions,
        options: JdbcExactlyOnceOptions,
    ) -> None:
        # configuration
        self._database = database
        self._statement = statement
        self._max_retries = execution.max_retries
        self._options = options
        self._notes = CommitTable(options.commit_table)
        # transient
        self._buffer = BatchBuffer(binder_of(database, statement, type_info), execution, self._write)
        self._session: PostgresSession | None = None
        # of the epoch
        self._name: TransactionName | None = None
        self._parallelism = 1
        self._begun = False

    def begin_epoch(self, context: WriterContext) -> None:
        self._buffer.clear()
        if self._begun:
            self.close()  # rolls back the open transaction of a failed epoch
        self._name = TransactionName.of(context)
        self._parallelism = context.parallelism

    def write(self, values: list[Any], timestamps: list[int] | None) -> None:
        self._buffer.add(values)

    def prepare_commit(self) -> Sequence[bytes]:
        self._buffer.flush()
        if not self._begun or self._session is None or self._name is None:
            return ()
        session, name = self._session, self._name
        try:
            self._notes.note(session, name)
            session.prepare_transaction(str(name))
        except self._database.errors as error:
            raise self._failed(error, "the transaction of the epoch could not be prepared") from None
        self._begun = False
        return [
            json.dumps(
                {"version": _VERSION, "transaction": str(name), "database": session.connection.info.dbname}
            ).encode()
        ]

    def close(self) -> None:
        if self._session is not None:
            self._session.close()
        self._session, self._begun = None, False

    def _write(self, rows: Rows, records: Sequence[Any]) -> None:
        session, tries = self._begin(), 0
        while True:
            try:
                write_batch(self._database, session, self._statement, rows, records)
            except self._database.errors as error:
                # A deadlock affects only this batch: earlier batches remain in the transaction.
                passing = self._database.trouble(error) is DatabaseTrouble.PASSING
                if not passing or _state(error) == _LOCK_TIMEOUT or tries == self._max_retries:
                    raise self._failed(error, "a batch could not be written") from None
                pause(tries)
                tries += 1
            else:
                return

    def _begin(self) -> PostgresSession:
        """Return the session with the epoch's transaction; reconnects if the connection broke between epochs."""
        tries = 0
        while self._session is None or not self._begun:
            try:
                if self._session is None:
                    self._session = self._connect()
                self._session.execute("BEGIN")
                self._session.execute("SELECT set_config('lock_timeout', %s, true)", (f"{self._options.timeout_sec}s",))
                self._begun = True
            except self._database.failures as error:
                self.close()
                if tries == self._max_retries:
                    raise self._failed(error, "a transaction could not be started") from None
                pause(tries)
                tries += 1
        return self._session

    def _connect(self) -> PostgresSession:
        session = self._database.connect()
        slots = int(session.execute("SHOW max_prepared_transactions")[0][0])
        if slots < self._parallelism:
            session.close()
            raise ConfigurationError(
                f"{self._database.shown} allows at most {slots} prepared transactions, but the sink needs one for each "
                f"of its {self._parallelism} subtasks: increase max_prepared_transactions in postgresql.conf and "
                "restart the server, or reduce the parallelism of the sink"
            )
        return session

    def _failed(self, error: Exception, what: str) -> Exception:
        """Return the error to raise; the transaction is rolled back, and the epoch is repeated after the restart."""
        self.close()
        if isinstance(error, ConnectorError):
            return error
        text = f"{self._database.shown}: {what}: {self._database.words(error)}"
        if _state(error) == _LOCK_TIMEOUT:
            text += f"\n{self._who_locks()}"
        elif self._database.trouble(error) is DatabaseTrouble.LOST:
            text += ". Nothing of the epoch is committed; it is repeated when the job is restarted."
        return ConnectorError(f"{text}\n  statement: {self._statement.written}")

    def _who_locks(self) -> str:
        seconds = self._options.timeout_sec
        try:
            session = self._database.connect()
            try:
                names = prepared_transactions(session)
            finally:
                session.close()
        except self._database.failures:
            names = []
        mine = self._name
        if mine is not None and any(
            name.epoch_of() == mine.epoch_of() and name.subtask != mine.subtask for name in names
        ):
            return (
                f"A row was locked for {seconds} s, and other subtasks have prepared their transactions of this epoch: "
                "if two subtasks write the same row, they wait for each other forever. Key the stream by the fields "
                "that identify a row, with key_by(), before the sink."
            )
        if mine is not None and any(name.sink == mine.sink for name in names):
            return (
                f"A row was locked for {seconds} s; a transaction of a failed attempt may hold the lock. It is rolled "
                "back when the job is restarted. If it belongs to a job that no longer exists, roll it back manually: "
                + "; ".join(f"ROLLBACK PREPARED '{name}'" for name in names if name.sink == mine.sink)
            )
        return f"A row was locked by another user or program for {seconds} s."


class _PreparedCommitter(Committer):
    def __init__(self, database: PostgresDatabase, options: JdbcExactlyOnceOptions) -> None:
        # configuration
        self._database = database
        self._options = options
        self._notes = CommitTable(options.commit_table)
        self._sink: str | None = None
        # transient
        self._session: PostgresSession | None = None

    def open(self, context: CommitterContext) -> None:
        self._sink = TransactionName.sink_of(context.job_id, context.operator_uid)
        self._connected()  # an unreachable server is reported immediately, without retries
        self._try(self._check)

    def _check(self, session: PostgresSession) -> None:
        if session.execute("SHOW max_prepared_transactions") == [("0",)]:
            raise ConfigurationError(
                f"prepared transactions are disabled in {self._database.shown}, but the exactly-once sink needs them: "
                "set max_prepared_transactions in postgresql.conf to at least the sink's parallelism, and restart the "
                "server; or use JdbcSink.upsert()"
            )
        self._notes.create(session, self._database)

    def commit(self, committed: Sequence[Committed]) -> None:
        names = [self._read(data) for part in committed for data in part.committables]
        for name in names:
            self._try(partial(self._settle, name))
        for last in {(name.sink, name.history): name for name in sorted(names, key=_age)}.values():
            self._try(partial(self._tidy, last))

    def discard(self, names_in_use: Sequence[bytes], lineage: str) -> None:
        if self._sink is None:
            return  # without the job's id, transactions of other jobs could be rolled back
        keep = {str(self._read(data)) for data in names_in_use}
        sink = self._sink

        def roll_back(session: PostgresSession) -> None:
            for name in prepared_transactions(session):
                if name.sink == sink and name.lineage <= lineage and str(name) not in keep:
                    session.roll_back_prepared(str(name))

        self._try(roll_back)

    def close(self) -> None:
        if self._session is not None:
            self._session.close()
            self._session = None

    def _settle(self, name: TransactionName, session: PostgresSession) -> None:
        """Commit a transaction, unless it was committed before. Raises an error if it can never be committed."""
        try:
            session.commit_prepared(str(name))
        except self._database.errors as error:
            if _state(error) != _UNDEFINED_OBJECT:
                raise
            if not self._notes.tells_of(session, name):
                raise CheckpointError(
                    f"epoch {name.epoch} is committed, but its transaction '{name}' in {self._database.shown} is gone, "
                    f"and table {self._options.commit_table!r} has no record of its commit: another user or program "
                    "rolled it back, or the database was restored from a backup. The records of the epoch's subtask "
                    f"{name.subtask + 1} are missing there. Start from an earlier checkpoint or savepoint; or, to "
                    f"continue without them: {self._notes.insertion(name)}"
                ) from None

    def _tidy(self, last: TransactionName, session: PostgresSession) -> None:
        """Remove transactions that can never be committed once ``last`` is: those of earlier epochs of its history.

        Transactions of the same epoch are kept: another subtask may not have been committed yet.
        """
        for name in prepared_transactions(session):
            if (name.sink, name.history) == (last.sink, last.history) and _age(name) < _age(last):
                session.roll_back_prepared(str(name))
        self._notes.forget_before(session, last)

    def _try(self, act: Callable[[PostgresSession], None]) -> None:
        """Call an idempotent operation, and retry it while the server is unavailable."""
        for tries in range(self._options.max_commit_attempts):
            try:
                act(self._connected())
            except self._database.failures as error:
                lost = isinstance(error, ConnectorError) or self._database.trouble(error) is DatabaseTrouble.LOST
                if lost:
                    self.close()
                elif self._database.trouble(error) is DatabaseTrouble.LASTING and _state(error) != _NOT_READY:
                    raise ConnectorError(f"{self._database.shown}: {self._database.words(error)}") from None
                if tries + 1 == self._options.max_commit_attempts:
                    words = str(error) if isinstance(error, ConnectorError) else self._database.words(error)
                    raise ConnectorError(f"{words} (the commit was tried {tries + 1} times)") from None
                pause(tries)
            else:
                return

    def _connected(self) -> PostgresSession:
        if self._session is None:
            self._session = self._database.connect()
        return self._session

    def _read(self, committable: bytes) -> TransactionName:
        data = json.loads(committable)
        if data.get("version") != _VERSION:
            raise CheckpointError(f"a committable of version {data.get('version')} cannot be read: {data}")
        name = TransactionName.parse(data["transaction"])
        wanted = parse_url(self._database.options.get_db_url()).parameters.get("dbname", data["database"])
        if name is None or wanted != data["database"]:
            raise CheckpointError(
                f"transaction '{data['transaction']}' is prepared in database {data['database']!r}, and cannot be "
                f"committed in {self._database.shown}: start the job with its previous database URL"
            )
        return name


def _age(name: TransactionName) -> tuple[str, int]:
    return name.lineage, name.epoch


def _state(error: Exception) -> str | None:
    state: str | None = getattr(error, "sqlstate", None)
    return state
