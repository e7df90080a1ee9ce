"""Access to Oracle Database with python-oracledb, without Oracle's own client libraries."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from contextlib import closing
from typing import Any, ClassVar, Final

from tidemill.common.typeinfo import Types
from tidemill.connectors.jdbc.database import DatabaseSession, DatabaseTrouble
from tidemill.connectors.jdbc.dbapi import DbApiDatabase, DbApiSession, imported, naive_utc
from tidemill.connectors.jdbc.options import JdbcConnectionOptions
from tidemill.connectors.jdbc.sql import Statement
from tidemill.connectors.jdbc.url import parse_url

__all__ = ["OracleDatabase"]

#: Resource busy, deadlock, cannot serialize access, a lock that was not released in time.
_PASSING: Final = (54, 60, 8177, 30006)
#: The session was killed, the instance is starting or shutting down, the connection was closed, no listener.
_LOST: Final = (28, 1012, 1033, 1034, 1089, 3113, 3114, 3135, 12514, 12528, 12537, 12541, 12547, 12570)


class OracleDatabase(DbApiDatabase):
    """A database of Oracle. An empty string is NULL there, and times of day have no counterpart."""

    kind = "oracle"
    product = "Oracle"
    conversions: ClassVar = {Types.INSTANT(): naive_utc, Types.BOOLEAN(): int}
    unsupported = frozenset({Types.SQL_TIME()})

    def __init__(self, options: JdbcConnectionOptions) -> None:
        super().__init__(options)
        _library()

    def connect(self) -> DatabaseSession:
        library, url = _library(), parse_url(self.options.get_db_url())
        try:
            connection = library.connect(
                dsn=url.parameters["dsn"],
                tcp_connect_timeout=self.options.get_connection_check_timeout_seconds(),
                **self.login(),
            )
        except library.Error as error:
            self.unreachable(error)
        connection.autocommit = True
        return _OracleSession(connection)

    @property
    def errors(self) -> tuple[type[Exception], ...]:
        return (_library().Error,)

    def trouble(self, error: Exception) -> DatabaseTrouble:
        details = error.args[0] if error.args else None
        code = getattr(details, "code", None)
        if code in _PASSING:
            return DatabaseTrouble.PASSING
        # Errors of the library itself, such as a closed connection, have a code of their own.
        own = str(getattr(details, "full_code", "")).startswith(("DPY-1001", "DPY-4011", "DPY-4024", "DPY-6"))
        return DatabaseTrouble.LOST if own or code in _LOST else DatabaseTrouble.LASTING


class _OracleSession(DbApiSession):
    # A transaction begins with its first statement.
    inner = ("SAVEPOINT part", "", "ROLLBACK TO SAVEPOINT part")

    def execute_batch(self, statement: Statement, rows: Sequence[Sequence[Any]]) -> None:
        library = _library()
        with closing(self.connection.cursor()) as cursor:
            for row in rows:
                # By default, a datetime is bound without its fraction of a second.
                sizes = [library.DB_TYPE_TIMESTAMP if isinstance(value, dt.datetime) else None for value in row]
                cursor.setinputsizes(*sizes)
                cursor.execute(statement.translated, tuple(row))

    def _command(self, sql: str) -> None:
        if sql == "BEGIN":
            self.connection.autocommit = False
        elif sql in ("COMMIT", "ROLLBACK"):
            (self.connection.commit if sql == "COMMIT" else self.connection.rollback)()
            self.connection.autocommit = True
        elif sql:
            self.execute(sql)


def _library() -> Any:
    return imported("oracledb", "Oracle", "oracledb", "oracle")
