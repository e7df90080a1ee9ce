"""Access to SQL Server with pymssql."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any, ClassVar, Final

from tidemill.common.typeinfo import Types
from tidemill.connectors.jdbc.database import DatabaseSession, DatabaseTrouble
from tidemill.connectors.jdbc.dbapi import DbApiDatabase, DbApiSession, imported, naive_utc
from tidemill.connectors.jdbc.options import JdbcConnectionOptions
from tidemill.connectors.jdbc.server_urls import hosts_of
from tidemill.connectors.jdbc.url import parse_url

__all__ = ["SqlServerDatabase"]

#: Deadlock, lock not released in time, conflict of snapshots, too many requests.
_PASSING: Final = (1205, 1222, 3960, 10928, 10929, 49918, 49919, 49920)
#: The connection is broken, or the server is not available; numbers from 20000 on are those of the client.
_LOST: Final = (233, 10053, 10054, 10060, 40197, 40501, 40613)
_CLIENT: Final = range(20002, 20060)


def timestamp_text(value: dt.datetime) -> str:
    """Convert a timestamp to text. The library would drop digits, the database rejects more than a column can store.

    >>> timestamp_text(dt.datetime(2024, 1, 2, 3, 4, 5, 678000)), timestamp_text(dt.datetime(2024, 1, 2))
    ('2024-01-02T03:04:05.678', '2024-01-02T00:00:00')
    """
    if value.microsecond == 0:
        return value.isoformat(timespec="seconds")
    return value.isoformat(timespec="milliseconds" if value.microsecond % 1000 == 0 else "microseconds")


class SqlServerDatabase(DbApiDatabase):
    """A database of SQL Server."""

    kind = "sqlserver"
    product = "SQL Server"
    conversions: ClassVar = {
        Types.INSTANT(): lambda value: timestamp_text(naive_utc(value)),
        Types.SQL_TIMESTAMP(): timestamp_text,
        Types.SQL_TIME(): dt.time.isoformat,
    }

    def __init__(self, options: JdbcConnectionOptions) -> None:
        super().__init__(options)
        _library()

    def connect(self) -> DatabaseSession:
        library, url = _library(), parse_url(self.options.get_db_url())
        settings: dict[str, Any] = {
            "database": url.parameters.get("dbname", ""),
            "login_timeout": self.options.get_connection_check_timeout_seconds(),
            "autocommit": True,
            "appname": url.parameters.get("application_name", "tidemill"),
            "encryption": url.parameters.get("encryption", "request"),
            **self.login(),
        }
        instance = url.parameters.get("instance")

        def connect(host: str, port: int) -> Any:
            server = f"{host}\\{instance}" if instance else host
            return library.connect(server=server, port=str(port), **settings)

        return _SqlServerSession(self.first_reachable(connect, hosts_of(url.parameters)))

    @property
    def errors(self) -> tuple[type[Exception], ...]:
        return (_library().Error,)

    def trouble(self, error: Exception) -> DatabaseTrouble:
        code = number_of(error)
        if code in _PASSING:
            return DatabaseTrouble.PASSING
        return DatabaseTrouble.LOST if code is None or code in _LOST or code in _CLIENT else DatabaseTrouble.LASTING


def number_of(error: Exception) -> int | None:
    """Return the number of an error, or None if the client has closed the connection."""
    first = error.args[0] if error.args else None
    if isinstance(first, tuple) and first:
        first = first[0]
    return first if isinstance(first, int) else None


class _SqlServerSession(DbApiSession):
    outer = ("BEGIN TRANSACTION", "COMMIT TRANSACTION", "ROLLBACK TRANSACTION")
    inner = ("SAVE TRANSACTION part", "", "ROLLBACK TRANSACTION part")

    def run(self, cursor: Any, sql: str, parameters: Sequence[Any]) -> None:
        # Without parameters, the library sends the statement as it is.
        if parameters:
            cursor.execute(sql, tuple(parameters))
        else:
            cursor.execute(sql.replace("%%", "%"))


def _library() -> Any:
    return imported("pymssql", "SQL Server", "pymssql", "sqlserver")
