"""The interface between the database connectors and a database: sessions, batches, and the classification of errors.

Each kind of database is a subclass of :class:`Database`. It contains plain configuration, and is sent to the workers
with the job. A :class:`DatabaseSession` is one connection, and stays in the process that created it.
"""

from __future__ import annotations

import abc
from collections.abc import Generator, Sequence
from contextlib import AbstractContextManager
from enum import Enum
from typing import Any, Final, NoReturn

from tidemill.common.typeinfo import TypeInformation
from tidemill.connectors.jdbc.binding import Converter
from tidemill.connectors.jdbc.options import JdbcConnectionOptions
from tidemill.connectors.jdbc.sql import Statement
from tidemill.connectors.jdbc.url import parse_url
from tidemill.errors import ConnectorError

__all__ = ["Database", "DatabaseSession", "DatabaseTrouble"]

#: The maximum length of a record in messages.
_SHOWN: Final = 300


class DatabaseTrouble(Enum):
    """The kinds of database errors."""

    #: The connection is lost: connect again, and repeat everything.
    LOST = "lost"
    #: A retry may succeed: a deadlock, a conflict of transactions, a lock that was not released in time.
    PASSING = "passing"
    #: A retry would fail again.
    LASTING = "lasting"


class DatabaseSession(abc.ABC):
    """One connection, which commits each statement automatically unless a transaction is open."""

    @abc.abstractmethod
    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run one statement in the database's own dialect, and return its rows, if there are any."""

    @abc.abstractmethod
    def transaction(self) -> AbstractContextManager[Any]:
        """Run the block atomically: in a transaction, or in a savepoint of the open transaction."""

    @abc.abstractmethod
    def execute_batch(self, statement: Statement, rows: Sequence[Sequence[Any]]) -> None:
        """Run a statement once for each row."""

    @abc.abstractmethod
    def read(
        self, sql: str, parameters: Sequence[Any], fetch_size: int
    ) -> Generator[tuple[list[str], list[tuple[Any, ...]]]]:
        """Yield the rows of a query in batches, each with the column names, all from one consistent snapshot."""

    @abc.abstractmethod
    def close(self) -> None:
        """Close the connection; an open transaction is rolled back."""


class Database(abc.ABC):
    """A database that sinks write to and sources read from."""

    #: The kind of database in its URL.
    kind: str

    def __init__(self, options: JdbcConnectionOptions) -> None:
        self.options = options
        self.shown = parse_url(options.get_db_url()).shown

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.shown})"

    @abc.abstractmethod
    def connect(self) -> DatabaseSession:
        """Open a connection. Raises :class:`ConnectorError` with the URL if it cannot be opened within the timeout."""

    @property
    @abc.abstractmethod
    def errors(self) -> tuple[type[Exception], ...]:
        """The exceptions of the client library."""

    @property
    def failures(self) -> tuple[type[Exception], ...]:
        """The exceptions that a call that opens or uses a session may raise because of the database."""
        return (ConnectorError, *self.errors)

    @abc.abstractmethod
    def trouble(self, error: Exception) -> DatabaseTrouble:
        """Return the kind of an error."""

    @abc.abstractmethod
    def words(self, error: Exception) -> str:
        """Return the message of an error, without passwords."""

    @abc.abstractmethod
    def bound(self, field_type: TypeInformation, place: str) -> Converter:
        """Return a function that converts the values of a field to parameters, or None if that is not needed.

        Raises :class:`~tidemill.errors.TypeMismatchError` for a type that has no counterpart in the database.
        """

    @abc.abstractmethod
    def columns_of(self, session: DatabaseSession, table: str) -> list[str]:
        """Return the columns of a table; empty if the table does not exist."""

    @abc.abstractmethod
    def has_unique_index(self, session: DatabaseSession, table: str, columns: Sequence[str]) -> bool:
        """Whether these columns, in any order, are a primary key or have a unique index."""

    def unreachable(self, error: Exception) -> NoReturn:
        """Raise an error for a failed connection."""
        raise ConnectorError(f"cannot connect to {self.shown}: {self.words(error)}") from None

    def failed(self, error: Exception, statement: Statement, record: Any = None) -> ConnectorError:
        """Create the error for a statement that failed, with the record if it is known."""
        text = f"{self.shown} rejected a statement: {self.words(error)}\n  statement: {statement.written}"
        return ConnectorError(text if record is None else f"{text}\n  record: {short_repr(record)}")


def short_repr(record: Any) -> str:
    """Return a record as text for messages, shortened if it is long."""
    text = repr(record)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
