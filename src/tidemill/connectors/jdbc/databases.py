"""Selects the database for a URL."""

from __future__ import annotations

from typing import Final

from tidemill.connectors.jdbc.database import Database
from tidemill.connectors.jdbc.mysql import MysqlDatabase
from tidemill.connectors.jdbc.options import JdbcConnectionOptions, built
from tidemill.connectors.jdbc.oracle import OracleDatabase
from tidemill.connectors.jdbc.postgres import PostgresDatabase
from tidemill.connectors.jdbc.sqlite import SqliteDatabase
from tidemill.connectors.jdbc.sqlserver import SqlServerDatabase
from tidemill.connectors.jdbc.url import parse_url

__all__ = ["database_of"]

_KINDS: Final[tuple[type[Database], ...]] = (
    PostgresDatabase,
    SqliteDatabase,
    MysqlDatabase,
    SqlServerDatabase,
    OracleDatabase,
)


def database_of(options: JdbcConnectionOptions) -> Database:
    """Return the database for a URL. Raises :class:`ConfigurationError` if its client library is missing."""
    kind = parse_url(built(options, JdbcConnectionOptions, "a database").get_db_url()).kind
    return next(database for database in _KINDS if database.kind == kind)(options)
