"""Access to MySQL and MariaDB with PyMySQL."""

from __future__ import annotations

import re
import ssl
from collections.abc import Generator, Sequence
from contextlib import closing
from typing import Any, ClassVar, Final

from tidemill.common.typeinfo import Types
from tidemill.connectors.jdbc.database import DatabaseSession, DatabaseTrouble
from tidemill.connectors.jdbc.dbapi import DbApiDatabase, DbApiSession, imported, naive_utc
from tidemill.connectors.jdbc.options import JdbcConnectionOptions
from tidemill.connectors.jdbc.server_urls import hosts_of
from tidemill.connectors.jdbc.sql import Statement
from tidemill.connectors.jdbc.url import parse_url

__all__ = ["MysqlDatabase"]

#: A server that no longer responds is given up after this time, in seconds.
_SILENCE: Final = 30
#: Too many connections; a lock that was not released in time; a deadlock; a row that is locked.
_PASSING: Final = (1040, 1203, 1205, 1213, 3572)
#: The server is shutting down or not reachable, or has ended the connection; 0: the library has closed it.
_LOST: Final = (0, 1053, 1152, 1158, 1159, 1160, 1161, 1184, 1927, 2002, 2003, 2006, 2013, 2055, 4031)
#: The server does not support TLS.
_WITHOUT_TLS: Final = 2026
#: An INSERT with one group of placeholders and no other percent sign: the library sends its rows together.
_ONE_GROUP: Final = re.compile(r"\s*(?:INSERT|REPLACE)\b[^%]*\(\s*%s(?:\s*,\s*%s)*\s*\)[^%]*", re.IGNORECASE)
_COLUMNS: Final = """
SELECT column_name FROM information_schema.columns
WHERE table_schema = COALESCE(%s, DATABASE()) AND table_name = %s ORDER BY ordinal_position
"""
_UNIQUE: Final = """
SELECT index_name, column_name FROM information_schema.statistics
WHERE table_schema = COALESCE(%s, DATABASE()) AND table_name = %s AND non_unique = 0 AND sub_part IS NULL
"""


class MysqlDatabase(DbApiDatabase):
    """A database of a MySQL or MariaDB server. The session's time zone is UTC, and its character set utf8mb4."""

    kind = "mysql"
    product = "MySQL"
    conversions: ClassVar = {Types.INSTANT(): naive_utc}

    def __init__(self, options: JdbcConnectionOptions) -> None:
        super().__init__(options)
        _library()

    def connect(self) -> DatabaseSession:
        library, url = _library(), parse_url(self.options.get_db_url())
        settings: dict[str, Any] = {
            "database": url.parameters.get("dbname"),
            "charset": "utf8mb4",
            "autocommit": True,
            "connect_timeout": self.options.get_connection_check_timeout_seconds(),
            "read_timeout": int(url.parameters.get("read_timeout", _SILENCE)) or None,
            "write_timeout": int(url.parameters.get("read_timeout", _SILENCE)) or None,
            "init_command": "SET time_zone = '+00:00'",
            **self.login(),
        }
        mode = url.parameters.get("ssl", "prefer")
        if mode != "disable":
            settings["ssl"] = _encryption(mode, url.parameters.get("ssl_ca"))

        def connect(host: str, port: int) -> Any:
            try:
                return library.connect(host=host, port=port, **settings)
            except library.err.OperationalError as error:
                if mode != "prefer" or error.args[0] != _WITHOUT_TLS:
                    raise
                return library.connect(host=host, port=port, **{**settings, "ssl": None})

        return _MysqlSession(self.first_reachable(connect, hosts_of(url.parameters)))

    @property
    def errors(self) -> tuple[type[Exception], ...]:
        return (_library().err.Error,)

    def trouble(self, error: Exception) -> DatabaseTrouble:
        code = error.args[0] if error.args else None
        if code in _PASSING:
            return DatabaseTrouble.PASSING
        return DatabaseTrouble.LOST if code in _LOST else DatabaseTrouble.LASTING

    def columns_of(self, session: DatabaseSession, table: str) -> list[str]:
        return [name for (name,) in session.execute(_COLUMNS, _place(table))]

    def has_unique_index(self, session: DatabaseSession, table: str, columns: Sequence[str]) -> bool:
        found: dict[str, set[str]] = {}
        for index, column in session.execute(_UNIQUE, _place(table)):
            found.setdefault(index, set()).add(column)
        return set(columns) in found.values()


def _place(table: str) -> tuple[str | None, str]:
    schema, _, name = table.rpartition(".")
    return schema or None, name


def _encryption(mode: str, trusted: str | None) -> ssl.SSLContext:
    """Return how the connection is encrypted; ``trusted`` is a file of certificates instead of the system's."""
    context = ssl.create_default_context(cafile=trusted)
    context.check_hostname = mode == "verify-full"
    if mode in ("prefer", "require"):
        context.verify_mode = ssl.CERT_NONE
    return context


class _MysqlSession(DbApiSession):
    outer = ("START TRANSACTION", "COMMIT", "ROLLBACK")

    def execute_batch(self, statement: Statement, rows: Sequence[Sequence[Any]]) -> None:
        if _ONE_GROUP.fullmatch(statement.translated) is None:
            super().execute_batch(statement, rows)
            return
        with closing(self.connection.cursor()) as cursor:
            cursor.executemany(statement.translated, rows)

    def read(
        self, sql: str, parameters: Sequence[Any], fetch_size: int
    ) -> Generator[tuple[list[str], list[tuple[Any, ...]]]]:
        # Rows stay on the server until they are fetched; a single statement reads one snapshot.
        with closing(self.connection.cursor(_library().cursors.SSCursor)) as cursor:
            cursor.execute(sql, tuple(parameters))
            names = [column[0] for column in cursor.description or ()]
            while rows := cursor.fetchmany(fetch_size):
                yield names, list(rows)


def _library() -> Any:
    return imported("pymysql", "MySQL", "pymysql", "mysql")
