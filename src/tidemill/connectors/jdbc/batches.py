"""Records on their way to a database: collected, written a batch at a time, and found out when one is refused."""

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

#: Rows of parameters, and the records they were made of.
Rows = Sequence[Sequence[Any]]
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0


def binder_of(database: Database, statement: Statement, type_info: TypeInformation) -> RecordBinder:
    """What makes parameters of a statement of records. Raises if the two do not fit together."""
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
    """Collects records and hands them on: when a batch is full, when one has waited too long, or when asked to."""

    def __init__(
        self, binder: RecordBinder, options: JdbcExecutionOptions, write: Callable[[Rows, Sequence[Any]], None]
    ) -> None:
        """``write`` takes rows of parameters, and the records they were made of."""
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
        """Take records; writes all batches that are full."""
        if not self._rows:
            self._since = time.monotonic()
        self._rows += self._binder.bind(records)
        self._records += records
        while len(self._rows) >= self._size:
            self._hand_on(self._size)
        if self._rows and 0 < self._interval <= time.monotonic() - self._since:
            self.flush()

    def flush(self) -> None:
        """Write all there is."""
        if self._rows:
            self._hand_on(len(self._rows))

    def clear(self) -> None:
        """Forget all there is."""
        self._rows, self._records = [], []

    def _hand_on(self, count: int) -> None:
        self._write(self._rows[:count], self._records[:count])
        del self._rows[:count], self._records[:count]
        self._since = time.monotonic()


class _RefusedError(Exception):
    """Carries the record that was refused out of a transaction, which is rolled back so."""

    def __init__(self, record: Any) -> None:
        self.record = record


def write_batch(
    database: Database, session: DatabaseSession, statement: Statement, rows: Rows, records: Sequence[Any]
) -> None:
    """Write all rows or none, in a transaction or as a part of the one that is open.

    Raises :class:`~tidemill.errors.ConnectorError` with the record that the database refuses for good, and what the
    client library raised if it may succeed another time.
    """
    try:
        with session.transaction():
            session.execute_batch(statement, rows)
    except Exception as error:
        if database.trouble(error) is not DatabaseTrouble.LASTING:
            raise
        raise database.failed(error, statement, _refused(session, statement, rows, records)) from None


def _refused(session: DatabaseSession, statement: Statement, rows: Rows, records: Sequence[Any]) -> Any:
    """The record of a batch that is refused: where rows go together, nobody says which it was."""
    try:
        with session.transaction():
            for row, record in zip(rows, records, strict=True):
                try:
                    session.execute_batch(statement, [row])
                except Exception as error:
                    raise _RefusedError(record) from error
            raise _RefusedError(None)  # one by one they are fine: nothing of this may stay
    except _RefusedError as found:
        return found.record
    except Exception:  # the connection broke meanwhile
        return None


def pause(tries: int) -> None:
    """Wait before the next try: longer each time, 5 s at most."""
    time.sleep(min(_LONGEST_PAUSE, _FIRST_PAUSE * 2**tries))
