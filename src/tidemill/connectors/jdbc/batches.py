"""Buffers records, writes them to a database in batches, and identifies a record that the database rejects."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from tidemill.common.typeinfo import TypeInformation
from tidemill.connectors.jdbc.binding import RecordBinder, fields_of_type
from tidemill.connectors.jdbc.database import Database, DatabaseSession, DatabaseTrouble
from tidemill.connectors.jdbc.options import JdbcExecutionOptions
from tidemill.connectors.jdbc.sql import Statement
from tidemill.errors import ConfigurationError

__all__ = ["BatchBuffer", "binder_of", "pause", "write_batch"]

#: Rows of parameters.
Rows = Sequence[Sequence[Any]]
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0


def binder_of(database: Database, statement: Statement, type_info: TypeInformation) -> RecordBinder:
    """Create a binder that converts records to parameters of a statement. Raises an error if they do not match."""
    names, types = fields_of_type(type_info)
    if statement.fields != len(types):
        raise ConfigurationError(
            f"the statement has {statement.fields} placeholders, but a record of {type_info} has {len(types)} fields: "
            f"{statement.written}"
        )
    return RecordBinder(
        type_info, [database.bound(kind, f"field {name!r}") for name, kind in zip(names, types, strict=True)]
    )


class BatchBuffer:
    """Buffers records and writes them when a batch is full, when its interval has passed, or on :meth:`flush`."""

    def __init__(
        self, binder: RecordBinder, options: JdbcExecutionOptions, write: Callable[[Rows, Sequence[Any]], None]
    ) -> None:
        """``write`` is called with rows of parameters, and the records from which they were created."""
        # configuration
        self._binder = binder
        self._size = options.batch_size
        self._interval = options.batch_interval_ms / 1000
        self._write = write
        # transient
        self._rows: list[Sequence[Any]] = []
        self._records: list[Any] = []
        self._since = 0.0

    def add(self, records: Sequence[Any]) -> None:
        """Add records, and write all full batches."""
        if not self._rows:
            self._since = time.monotonic()
        self._rows += self._binder.bind(records)
        self._records += records
        while len(self._rows) >= self._size:
            self._hand_on(self._size)
        if self._rows and 0 < self._interval <= time.monotonic() - self._since:
            self.flush()

    def flush(self) -> None:
        """Write all buffered records."""
        if self._rows:
            self._hand_on(len(self._rows))

    def clear(self) -> None:
        """Discard all buffered records."""
        self._rows, self._records = [], []

    def _hand_on(self, count: int) -> None:
        self._write(self._rows[:count], self._records[:count])
        del self._rows[:count], self._records[:count]
        self._since = time.monotonic()


class _RefusedError(Exception):
    """Passes the rejected record out of a transaction block, which rolls the transaction back."""

    def __init__(self, record: Any) -> None:
        self.record = record


def write_batch(
    database: Database, session: DatabaseSession, statement: Statement, rows: Rows, records: Sequence[Any]
) -> None:
    """Write all rows or none, in a transaction or in a savepoint of the open transaction.

    Raises :class:`~tidemill.errors.ConnectorError` with the record if the database rejects it permanently. An error for
    which a retry may succeed is raised as the client library's exception.
    """
    try:
        with session.transaction():
            session.execute_batch(statement, rows)
    except Exception as error:
        if database.trouble(error) is not DatabaseTrouble.LASTING:
            raise
        raise database.failed(error, statement, _refused(session, statement, rows, records)) from None


def _refused(session: DatabaseSession, statement: Statement, rows: Rows, records: Sequence[Any]) -> Any:
    """Find the rejected record of a batch: for a batch, the database does not report which record it was."""
    try:
        with session.transaction():
            for row, record in zip(rows, records, strict=True):
                try:
                    session.execute_batch(statement, [row])
                except Exception as error:
                    raise _RefusedError(record) from error
            raise _RefusedError(None)  # no record is rejected on its own: roll everything back
    except _RefusedError as found:
        return found.record
    except Exception:  # the connection broke in the meantime
        return None


def pause(tries: int) -> None:
    """Wait before the next attempt, with exponential backoff up to 5 s."""
    time.sleep(min(_LONGEST_PAUSE, _FIRST_PAUSE * 2**tries))
