"""Access to SQLite with Python's ``sqlite3`` module."""

from __future__ import annotations

import datetime as dt
import sqlite3
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from tidemill.common.time import Instant
from tidemill.common.type_kinds.basic import BasicType, BasicTypeInfo, PickledBytesTypeInfo, SqlTimeTypeInfo
from tidemill.common.type_kinds.composite import OptionalTypeInfo, PrimitiveArrayTypeInfo
from tidemill.common.typeinfo import TypeInformation
from tidemill.connectors.jdbc.binding import Converter, as_bytes, instant_to_datetime, refused
from tidemill.connectors.jdbc.database import Database, DatabaseSession, DatabaseTrouble
from tidemill.connectors.jdbc.options import JdbcConnectionOptions
from tidemill.connectors.jdbc.sql import Statement
from tidemill.connectors.jdbc.url import parse_url
from tidemill.python_versions import sqlite_error_code

__all__ = ["SqliteDatabase", "SqliteSession"]

#: Errors while another connection writes.
_BUSY: Final = (5, 6)  # SQLITE_BUSY, SQLITE_LOCKED
_LARGEST: Final = 1 << 63


class SqliteDatabase(Database):
    """A database file on storage that driver and workers share.

    >>> from tidemill.datastream.connectors.jdbc import JdbcConnectionOptions
    >>> builder = JdbcConnectionOptions.JdbcConnectionOptionsBuilder()
    >>> SqliteDatabase(builder.with_url("jdbc:sqlite:/data/shop.db").build())
    SqliteDatabase(jdbc:sqlite:/data/shop.db)
    """

    kind = "sqlite"

    def __init__(self, options: JdbcConnectionOptions) -> None:
        super().__init__(options)
        # Absolute, so that driver and workers use the same file regardless of their working directories.
        self._path = Path(parse_url(options.get_db_url()).parameters["path"]).absolute()

    def connect(self) -> SqliteSession:
        timeout = self.options.get_connection_check_timeout_seconds()
        try:
            # mode=rw: a mistyped path is an error, instead of creating a new empty file.
            return SqliteSession(
                sqlite3.connect(
                    f"file:{quote(str(self._path))}?mode=rw",
                    uri=True,
                    timeout=timeout,
                    isolation_level=None,
                    check_same_thread=False,
                )
            )
        except sqlite3.Error as error:
            self.unreachable(error)

    @property
    def errors(self) -> tuple[type[Exception], ...]:
        return (sqlite3.Error,)

    def trouble(self, error: Exception) -> DatabaseTrouble:
        return DatabaseTrouble.PASSING if sqlite_error_code(error) in _BUSY else DatabaseTrouble.LASTING

    def words(self, error: Exception) -> str:
        return str(error)

    def bound(self, field_type: TypeInformation, place: str) -> Converter:
        if isinstance(field_type, OptionalTypeInfo):
            return self.bound(field_type.elem_type, place)
        if isinstance(field_type, BasicTypeInfo):
            return _BASIC.get(field_type.basic_type)
        if field_type in (SqlTimeTypeInfo.DATE(), SqlTimeTypeInfo.TIME()):
            return _iso
        if field_type == SqlTimeTypeInfo.TIMESTAMP():
            return _timestamp
        if isinstance(field_type, PickledBytesTypeInfo):
            return None
        if isinstance(field_type, PrimitiveArrayTypeInfo) and field_type.elem_type == BasicTypeInfo(BasicType.BYTE):
            return as_bytes
        raise refused(field_type, place, "SQLite")

    def columns_of(self, session: DatabaseSession, table: str) -> list[str]:
        return [name for (name,) in session.execute("SELECT name FROM pragma_table_info(?, ?)", _place(table))]

    def has_unique_index(self, session: DatabaseSession, table: str, columns: Sequence[str]) -> bool:
        place = _place(table)
        found = [session.execute("SELECT name FROM pragma_table_info(?, ?) WHERE pk > 0", place)]
        unique = session.execute('SELECT name FROM pragma_index_list(?, ?) WHERE "unique" AND NOT partial', place)
        found += [session.execute("SELECT name FROM pragma_index_info(?, ?)", (name, place[1])) for (name,) in unique]
        return any({name for (name,) in names} == set(columns) for names in found)


class SqliteSession(DatabaseSession):
    """One connection to a database file."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        return self.connection.execute(sql, parameters).fetchall()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        # IMMEDIATE: wait for the write lock when the transaction begins, not in the middle of it.
        inner = self.connection.in_transaction
        begin, end, undo = ("SAVEPOINT part", "RELEASE part", "ROLLBACK TO part") if inner else _OUTER
        self.connection.execute(begin)
        try:
            yield
            self.connection.execute(end)
        except BaseException:
            if self.connection.in_transaction:
                self.connection.execute(undo)
                if inner:
                    self.connection.execute(end)
            raise

    def execute_batch(self, statement: Statement, rows: Sequence[Sequence[Any]]) -> None:
        self.connection.executemany(statement.translated, rows)

    def read(
        self, sql: str, parameters: Sequence[Any], fetch_size: int
    ) -> Generator[tuple[list[str], list[tuple[Any, ...]]]]:
        with closing(self.connection.execute(sql, parameters)) as cursor:
            names = [column[0] for column in cursor.description or ()]
            while rows := cursor.fetchmany(fetch_size):
                yield names, rows

    def close(self) -> None:
        self.connection.close()


def _place(table: str) -> tuple[str, str]:
    """Return a table's name and its schema."""
    schema, _, name = table.rpartition(".")
    return name, schema or "main"


_OUTER: Final = ("BEGIN IMMEDIATE", "COMMIT", "ROLLBACK")


def _iso(value: dt.date | dt.time) -> str:
    return value.isoformat()


def _timestamp(value: dt.datetime) -> str:
    return value.isoformat(sep=" ")


def _instant(value: Instant) -> str:
    return _timestamp(instant_to_datetime(value))


def _integer(value: int) -> int | str:
    """Convert an integer that does not fit into 64 bits to a string, which keeps all digits."""
    return value if -_LARGEST <= value < _LARGEST else str(value)


def _decimal(value: Decimal) -> str:
    return str(value)


_BASIC: Final[dict[BasicType, Callable[[Any], Any]]] = {
    BasicType.INSTANT: _instant,
    BasicType.BIG_INT: _integer,
    BasicType.BIG_DEC: _decimal,
}
