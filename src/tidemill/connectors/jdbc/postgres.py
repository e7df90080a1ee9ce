"""Access to PostgreSQL with psycopg."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import AbstractContextManager, suppress
from typing import TYPE_CHECKING, Any, Final

from tidemill.common.type_kinds.basic import BasicType, BasicTypeInfo, PickledBytesTypeInfo, SqlTimeTypeInfo
from tidemill.common.type_kinds.composite import (
    BasicArrayTypeInfo,
    ListTypeInfo,
    ObjectArrayTypeInfo,
    OptionalTypeInfo,
    PrimitiveArrayTypeInfo,
)
from tidemill.common.typeinfo import TypeInformation
from tidemill.connectors.jdbc.binding import Converter, as_bytes, instant_to_datetime, refused
from tidemill.connectors.jdbc.database import Database, DatabaseSession, DatabaseTrouble
from tidemill.connectors.jdbc.options import JdbcConnectionOptions
from tidemill.connectors.jdbc.sql import Statement, quoted_name
from tidemill.connectors.jdbc.url import parse_url
from tidemill.errors import ConfigurationError

if TYPE_CHECKING:
    import psycopg

__all__ = ["PostgresDatabase", "PostgresSession"]

#: A server that no longer responds is detected after this time, in ms; the system default is about 15 minutes.
_SILENCE_MS: Final = 30_000
#: SQLSTATE classes of a lost connection or an unavailable server: it is shutting down, starting up, or overloaded.
_LOST_CLASSES: Final = ("08", "57")
#: Serialization failure, deadlock, lock not available in time, too many connections.
_PASSING: Final = ("40001", "40P01", "55P03", "53300")
_UNIQUE: Final = """
SELECT array_agg(a.attname::text ORDER BY a.attname)
FROM pg_index i
CROSS JOIN LATERAL unnest(i.indkey::smallint[]) WITH ORDINALITY AS k(number, place)
JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.number
WHERE i.indrelid = to_regclass(%s) AND i.indisunique AND i.indisvalid AND i.indpred IS NULL AND i.indexprs IS NULL
  AND k.place <= i.indnkeyatts
GROUP BY i.indexrelid
"""
_COLUMNS: Final = """
SELECT attname::text FROM pg_attribute
WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped ORDER BY attnum
"""


class PostgresDatabase(Database):
    """A database of a PostgreSQL server.

    >>> from tidemill.datastream.connectors.jdbc import JdbcConnectionOptions
    >>> builder = JdbcConnectionOptions.JdbcConnectionOptionsBuilder()
    >>> PostgresDatabase(builder.with_url("jdbc:postgresql://localhost/shop").with_password("secret").build())
    PostgresDatabase(jdbc:postgresql://localhost:5432/shop)
    """

    kind = "postgresql"

    def __init__(self, options: JdbcConnectionOptions) -> None:
        super().__init__(options)
        _library()

    def connect(self) -> PostgresSession:
        library, options = _library(), self.options
        parameters: dict[str, Any] = {
            "connect_timeout": str(options.get_connection_check_timeout_seconds()),
            "application_name": "tidemill",
            "keepalives_idle": "10",
            "keepalives_interval": "5",
            "keepalives_count": "3",
            "tcp_user_timeout": str(_SILENCE_MS),
            **parse_url(options.get_db_url()).parameters,
        }
        if options.get_user_name() is not None:
            parameters["user"] = options.get_user_name()
        if options.get_password() is not None:
            parameters["password"] = options.get_password()
        try:
            return PostgresSession(library.connect(autocommit=True, **parameters))
        except library.Error as error:
            self.unreachable(error)

    @property
    def errors(self) -> tuple[type[Exception], ...]:
        return (_library().Error,)

    def trouble(self, error: Exception) -> DatabaseTrouble:
        library = _library()
        if not isinstance(error, library.Error):
            return DatabaseTrouble.LASTING
        state = error.sqlstate or ""
        if state in _PASSING:
            return DatabaseTrouble.PASSING
        # An error without a state is raised by the client; an OperationalError means a broken connection.
        if state.startswith(_LOST_CLASSES) or (not state and isinstance(error, library.OperationalError)):
            return DatabaseTrouble.LOST
        return DatabaseTrouble.LASTING

    def words(self, error: Exception) -> str:
        text = " ".join(str(error).split())
        secrets = (self.options.get_password(), parse_url(self.options.get_db_url()).parameters.get("password"))
        for secret in secrets:
            if secret:
                text = text.replace(secret, "***")
        state = getattr(error, "sqlstate", None)
        return f"{text} (SQLSTATE {state})" if state else text

    def bound(self, field_type: TypeInformation, place: str) -> Converter:
        if isinstance(field_type, OptionalTypeInfo):
            return self.bound(field_type.elem_type, place)
        if isinstance(field_type, BasicTypeInfo):
            return instant_to_datetime if field_type.basic_type is BasicType.INSTANT else None
        if isinstance(field_type, (*_TIMES, PickledBytesTypeInfo)):
            return None
        if isinstance(field_type, PrimitiveArrayTypeInfo) and field_type.elem_type == BasicTypeInfo(BasicType.BYTE):
            return as_bytes
        if isinstance(field_type, (PrimitiveArrayTypeInfo, BasicArrayTypeInfo, ObjectArrayTypeInfo, ListTypeInfo)):
            element = self.bound(field_type.elem_type, place)
            return list if element is None else lambda values: [None if v is None else element(v) for v in values]
        raise refused(field_type, place, "PostgreSQL")

    def columns_of(self, session: DatabaseSession, table: str) -> list[str]:
        return [name for (name,) in session.execute(_COLUMNS, (quoted_name(table),))]

    def has_unique_index(self, session: DatabaseSession, table: str, columns: Sequence[str]) -> bool:
        return any(found == sorted(columns) for (found,) in session.execute(_UNIQUE, (quoted_name(table),)))


class PostgresSession(DatabaseSession):
    """One connection to a PostgreSQL server."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self.connection = connection

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        with self.connection.cursor() as cursor:
            cursor.execute(sql, parameters or None)
            return cursor.fetchall() if cursor.description else []

    def transaction(self) -> AbstractContextManager[Any]:
        return self.connection.transaction()

    def execute_batch(self, statement: Statement, rows: Sequence[Sequence[Any]]) -> None:
        with self.connection.cursor() as cursor:
            cursor.executemany(statement.translated, rows)

    def read(
        self, sql: str, parameters: Sequence[Any], fetch_size: int
    ) -> Generator[tuple[list[str], list[tuple[Any, ...]]]]:
        self.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        with self.connection.cursor(name="tidemill") as cursor:
            cursor.execute(sql, parameters)
            names = [column.name for column in cursor.description or ()]
            while rows := cursor.fetchmany(fetch_size):
                yield names, rows
        self.execute("COMMIT")

    def prepare_transaction(self, name: str) -> None:
        """Prepare the open transaction: on return it is durable, and independent of this connection."""
        status = self._named("PREPARE TRANSACTION", name)
        if status != "PREPARE TRANSACTION":  # for a failed transaction, the server only returns ROLLBACK
            raise AssertionError(f"a failed transaction cannot be prepared: {status}")

    def commit_prepared(self, name: str) -> None:
        """Commit a prepared transaction of any connection."""
        self._named("COMMIT PREPARED", name)

    def roll_back_prepared(self, name: str) -> None:
        """Roll back a prepared transaction; ignored if it does not exist, or if another connection is processing it."""
        from psycopg import errors

        with suppress(errors.UndefinedObject, errors.ObjectNotInPrerequisiteState):
            self._named("ROLLBACK PREPARED", name)

    def _named(self, command: str, name: str) -> str | None:
        # These commands do not support parameters.
        with self.connection.cursor() as cursor:
            cursor.execute("{} '{}'".format(command, name.replace("'", "''")))
            return cursor.statusmessage

    def close(self) -> None:
        with suppress(Exception):  # closing a broken connection may fail
            self.connection.close()


_TIMES: Final = tuple(map(type, (SqlTimeTypeInfo.DATE(), SqlTimeTypeInfo.TIME(), SqlTimeTypeInfo.TIMESTAMP())))


def _library() -> Any:
    try:
        import psycopg
    except ImportError:
        raise ConfigurationError(
            "PostgreSQL requires the package psycopg, which is not installed: pip install 'tidemill[postgres]'"
        ) from None
    return psycopg
