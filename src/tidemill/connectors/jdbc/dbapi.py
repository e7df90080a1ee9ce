"""Sessions of client libraries that follow Python's database interface (PEP 249), and what their databases share."""

from __future__ import annotations

import datetime as dt
import importlib
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from typing import Any, ClassVar, Final, NoReturn

from tidemill.common.time import Instant
from tidemill.common.type_kinds.basic import (
    BasicType,
    BasicTypeInfo,
    DateTypeInfo,
    PickledBytesTypeInfo,
    TimestampTypeInfo,
    TimeTypeInfo,
)
from tidemill.common.type_kinds.composite import OptionalTypeInfo, PrimitiveArrayTypeInfo
from tidemill.common.typeinfo import TypeInformation
from tidemill.connectors.jdbc.binding import Converter, as_bytes, instant_to_datetime, refused
from tidemill.connectors.jdbc.database import Database, DatabaseSession
from tidemill.connectors.jdbc.sql import Statement
from tidemill.connectors.jdbc.url import parse_url
from tidemill.errors import ConfigurationError, ConnectorError

__all__ = ["DbApiDatabase", "DbApiSession", "imported", "naive_utc"]

_TIMES: Final = (DateTypeInfo, TimeTypeInfo, TimestampTypeInfo)
_BYTE: Final = BasicTypeInfo(BasicType.BYTE)


def imported(module: str, database: str, package: str, extra: str) -> Any:
    """Import a client library. Raises :class:`ConfigurationError` with the extra that installs it."""
    try:
        return importlib.import_module(module)
    except ImportError:
        raise ConfigurationError(
            f"{database} requires the package {package}, which is not installed: pip install 'tidemill[{extra}]'"
        ) from None


class DbApiDatabase(Database):
    """A database server that takes Python's values as parameters, except for the types in ``conversions``."""

    #: The name of the database in messages.
    product: ClassVar[str]
    #: Conversions of values to parameters, by the type of a field.
    conversions: ClassVar[Mapping[TypeInformation, Callable[[Any], Any]]] = {}
    #: Types that the database does not have.
    unsupported: ClassVar[frozenset[TypeInformation]] = frozenset()

    def bound(self, field_type: TypeInformation, place: str) -> Converter:
        if isinstance(field_type, OptionalTypeInfo):
            return self.bound(field_type.elem_type, place)
        if isinstance(field_type, (BasicTypeInfo, *_TIMES)) and field_type not in self.unsupported:
            return self.conversions.get(field_type)
        if isinstance(field_type, PickledBytesTypeInfo):
            return None
        if isinstance(field_type, PrimitiveArrayTypeInfo) and field_type.elem_type == _BYTE:
            return as_bytes
        raise refused(field_type, place, self.product)

    def words(self, error: Exception) -> str:
        text = " ".join(" ".join(map(str, error.args)).split()) or type(error).__name__
        for secret in (self.options.get_password(), parse_url(self.options.get_db_url()).parameters.get("password")):
            if secret:
                text = text.replace(secret, "***")
        return text

    def columns_of(self, session: DatabaseSession, table: str) -> list[str]:
        self._no_upsert(table)

    def has_unique_index(self, session: DatabaseSession, table: str, columns: Sequence[str]) -> bool:
        self._no_upsert(table)

    def _no_upsert(self, table: str) -> NoReturn:
        raise ConfigurationError(f"upserts into {table!r} of {self.product} are not supported: use a MERGE statement")

    def login(self) -> dict[str, str]:
        """Return the user and the password, of the options or of the URL."""
        parameters = parse_url(self.options.get_db_url()).parameters
        given = {"user": self.options.get_user_name(), "password": self.options.get_password()}
        found = {name: value if value is not None else parameters.get(name) for name, value in given.items()}
        return {name: value for name, value in found.items() if value is not None}

    def first_reachable(self, connect: Callable[[str, int], Any], hosts: Sequence[tuple[str, int]]) -> Any:
        """Connect to the first server that responds. Raises :class:`ConnectorError` with the last failure."""
        for number, (host, port) in enumerate(hosts, start=1):
            try:
                return connect(host, port)
            except self.errors as error:
                if number == len(hosts):
                    self.unreachable(error)
        raise ConnectorError(f"cannot connect to {self.shown}: the URL has no host")


def naive_utc(instant: Instant) -> dt.datetime:
    """Convert an instant to a datetime in UTC without a time zone."""
    return instant_to_datetime(instant).replace(tzinfo=None)


class DbApiSession(DatabaseSession):
    """One connection, in autocommit mode unless a transaction is open."""

    #: The statements that begin, commit and roll back a transaction, and the same for a part of it. A part that needs
    #: no statement to be kept has an empty one.
    outer: tuple[str, str, str] = ("BEGIN", "COMMIT", "ROLLBACK")
    inner: tuple[str, str, str] = ("SAVEPOINT part", "RELEASE SAVEPOINT part", "ROLLBACK TO SAVEPOINT part")

    def __init__(self, connection: Any) -> None:
        self.connection = connection
        self._is_open = False

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        with closing(self.connection.cursor()) as cursor:
            self.run(cursor, sql, parameters)
            return list(cursor.fetchall()) if cursor.description else []

    def run(self, cursor: Any, sql: str, parameters: Sequence[Any]) -> None:
        """Run a statement whose percent signs are doubled if the library has ``%s`` as its placeholder."""
        cursor.execute(sql, tuple(parameters))

    @contextmanager
    def transaction(self) -> Iterator[None]:
        is_part = self._is_open
        begin, keep, undo = self.inner if is_part else self.outer
        self._command(begin)
        self._is_open = True
        try:
            yield
            self._command(keep)
        except BaseException:
            with suppress(Exception):  # a broken connection has rolled back already; the first error counts
                self._command(undo)
            raise
        finally:
            self._is_open = is_part

    def execute_batch(self, statement: Statement, rows: Sequence[Sequence[Any]]) -> None:
        with closing(self.connection.cursor()) as cursor:
            for row in rows:
                self.run(cursor, statement.translated, row)

    def read(
        self, sql: str, parameters: Sequence[Any], fetch_size: int
    ) -> Generator[tuple[list[str], list[tuple[Any, ...]]]]:
        with closing(self.connection.cursor()) as cursor:
            self.run(cursor, sql, parameters)
            names = [column[0] for column in cursor.description or ()]
            while rows := cursor.fetchmany(fetch_size):
                yield names, list(rows)

    def close(self) -> None:
        with suppress(Exception):  # closing a broken connection may fail
            self.connection.close()

    def _command(self, sql: str) -> None:
        if sql:
            self.execute(sql)
