"""What the database connectors need of a database: sessions, batches, and to be told which errors may pass.

Each kind of database is one subclass of :class:`Database`. It is plain configuration and goes to the workers with the
job; a :class:`DatabaseSession` is one connection and stays where it was made.
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

#: How much of a record is shown.
_SHOWN: Final = 300


class DatabaseTrouble(Enum):
    """What an error of a database means for whoever got it."""

    #: The connection is gone: connect again, and do all of it again.
    LOST = "lost"
    #: The same may succeed when it is done again: a deadlock, a conflict of transactions, a lock not released in time.
    PASSING = "passing"
    #: It fails every time.
    LASTING = "lasting"


class DatabaseSession(abc.ABC):
    """One connection, on which each statement counts by itself unless a transaction is open."""

    @abc.abstractmethod
    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run one statement in the database's own dialect; its rows, if it has any."""

    @abc.abstractmethod
    def transaction(self) -> AbstractContextManager[Any]:
        """All or nothing: a transaction, or a part of the one that is open."""

    @abc.abstractmethod
    def execute_batch(self, statement: Statement, rows: Sequence[Sequence[Any]]) -> None:
        """Run a statement once for each row."""

    @abc.abstractmethod
    def read(
        self, sql: str, parameters: Sequence[Any], fetch_size: int
    ) -> Generator[tuple[list[str], list[tuple[Any, ...]]]]:
        """The rows of a query in batches, each with the names of the columns; all of one moment."""

    @abc.abstractmethod
    def close(self) -> None:
        """End the connection; what is open in it is rolled back."""


class Database(abc.ABC):
    """A database that sinks write to and sources read from."""

    #: As its address says.
    kind: str

    def __init__(self, options: JdbcConnectionOptions) -> None:
        self.options = options
        self.shown = parse_url(options.get_db_url()).shown

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.shown})"

    @abc.abstractmethod
    def connect(self) -> DatabaseSession:
        """A new connection. Raises :class:`ConnectorError` with the address if there is none within the timeout."""

    @property
    @abc.abstractmethod
    def errors(self) -> tuple[type[Exception], ...]:
        """What the client library raises."""

    @property
    def failures(self) -> tuple[type[Exception], ...]:
        """What a call that uses a session, or makes one, may raise because of the database."""
        return (ConnectorError, *self.errors)

    @abc.abstractmethod
    def trouble(self, error: Exception) -> DatabaseTrouble:
        """What an error means."""

    @abc.abstractmethod
    def words(self, error: Exception) -> str:
        """What the database said, without a password."""

    @abc.abstractmethod
    def bound(self, field_type: TypeInformation, place: str) -> Converter:
        """How the values of a field become parameters: a function, or None if they are fit already.

        Raises :class:`~tidemill.errors.TypeMismatchError` for a type that has no counterpart in the database.
        """

    @abc.abstractmethod
    def columns_of(self, session: DatabaseSession, table: str) -> list[str]:
        """The columns of a table; empty if there is none of that name."""

    @abc.abstractmethod
    def has_unique_index(self, session: DatabaseSession, table: str, columns: Sequence[str]) -> bool:
        """Whether these columns, in any order, are a primary key or have a unique index."""

    def unreachable(self, error: Exception) -> NoReturn:
        """Raise for a connection that could not be made."""
        raise ConnectorError(f"{self.shown} cannot be connected to: {self.words(error)}") from None

    def failed(self, error: Exception, statement: Statement, record: Any = None) -> ConnectorError:
        """The error for a statement that failed, with the record if it is known."""
        text = f"{self.shown} refused a statement: {self.words(error)}\n  statement: {statement.written}"
        return ConnectorError(text if record is None else f"{text}\n  record: {shown(record)}")


def shown(record: Any) -> str:
    """A record as messages show it."""
    text = repr(record)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
